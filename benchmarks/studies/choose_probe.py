"""The automatic choice against an attentive probe in torch, on the same rows: accuracy and seconds.

The probe has four queries, softmax weights of q·x/√d over the tokens, the four pooled vectors and the mean side by
side, a linear layer, cross-entropy, AdamW (learning rate 1e-3, weight decay .05), batches of 64, and stops when the
loss on 15 % of the training rows has not improved for ten epochs (at most 200); the best epoch is used. Tokens are
standardised.

    python benchmarks/studies/choose_probe.py --cache FOLDER     # needs torch, in a separate environment

Results are written to ``benchmarks/results/choose_probe.json``; ``--cache`` as in choose.py.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import spikepool as sp
from choose import paired, sets, splits

RESULTS = Path(__file__).resolve().parents[1] / "results" / "choose_probe.json"
SETS = ("splice", "digits", "banking77/minilm 6", "clinc150/minilm 4", "banking77/smollm2 final", "JapaneseVowels")
QUERIES, RATE, DECAY, BATCH, PATIENCE, EPOCHS = 4, 1e-3, 0.05, 64, 10, 200


def probe(
    X: np.ndarray, mask: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int = 0
) -> np.ndarray:
    """Predictions of the test rows by the probe fitted to the training rows."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    seen = X[train][mask[train]]
    centre, scale = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    tokens = torch.tensor((X - centre) / scale * mask[..., None], dtype=torch.float32)
    observed, labels = torch.tensor(mask), torch.tensor(y)
    d, K = X.shape[2], int(y.max()) + 1

    class Probe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.queries = nn.Parameter(0.02 * torch.randn(QUERIES, d))
            self.head = nn.Linear((QUERIES + 1) * d, K)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            x, m = tokens[rows], observed[rows]
            scores = (x @ self.queries.T / d**0.5).masked_fill(~m[..., None], -1e9)
            pooled = torch.einsum("nth,ntd->nhd", scores.softmax(dim=1), x).flatten(1)
            mean = x.sum(dim=1) / m.sum(dim=1, keepdim=True).clamp(min=1)
            return self.head(torch.cat([pooled, mean], dim=1))

    order = np.random.default_rng(seed).permutation(train)
    cut = max(1, int(0.15 * len(order)))
    held, fit = torch.tensor(order[:cut]), torch.tensor(order[cut:])
    model, loss = Probe(), nn.CrossEntropyLoss()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    best, state, since = float("inf"), None, 0
    for _ in range(EPOCHS):
        model.train()
        for rows in fit[torch.randperm(len(fit))].split(BATCH):
            optimiser.zero_grad()
            loss(model(rows), labels[rows]).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            value = float(loss(model(held), labels[held]))
        if value < best:
            best, since = value, 0
            state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            since += 1
            if since == PATIENCE:
                break
    assert state is not None
    model.load_state_dict(state)
    model.eval()
    with torch.no_grad():
        return model(torch.tensor(test)).argmax(dim=1).numpy()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    known = sets(options.cache, options.texts)
    found = json.loads(options.results.read_text()) if options.results.exists() else {}
    for name in options.set or SETS:
        data = known[name]()
        X, mask, y = np.asarray(data.X, dtype=np.float32), data.mask, data.labels
        hits: dict[str, list[np.ndarray]] = {"auto": [], "probe": []}
        seconds = {"auto": 0.0, "probe": 0.0}
        rows = []
        for train, test in splits(data, 0, 0):
            start = time.perf_counter()
            model = sp.LearnedPoolingClassifier().fit(X[train], y[train], mask=mask[train])
            hits["auto"].append(model.predict(X[test], mask=mask[test]) == y[test])
            middle = time.perf_counter()
            hits["probe"].append(probe(X, mask, y, train, test) == y[test])
            seconds["auto"] += middle - start
            seconds["probe"] += time.perf_counter() - middle
            rows.append(test)
        flat = {k: np.concatenate(v).astype(float) for k, v in hits.items()}
        record = {
            "accuracy": {k: round(float(v.mean()), 4) for k, v in flat.items()},
            "over_probe": paired(flat["auto"] - flat["probe"], np.unique(np.concatenate(rows), return_inverse=True)[1]),
            "seconds": {k: round(v / len(rows), 2) for k, v in seconds.items()},
        }
        found[name] = record
        options.results.write_text(json.dumps(found, indent=1))
        print(name, record, flush=True)


if __name__ == "__main__":
    main()
