"""Labelled tasks for the forecast benchmark: corpora, encoders, groupings, and which part they belong to.

development   banking77, and three kinds of tasks that were added when the first version of the method had turned out to
              know only its like: package descriptions by section (debian: unequal classes, noisy labels), glosses of
              WordNet by lexicographer file (wordnet), and banking77 with every class split in two (s2 ... s154).
held-out      clinc150, with one task each of splice and digits: set aside for the first two versions.
regrouped     groupings of clinc150 that were fresh for the second version.
confirmation  groupings of both corpora that confirmed the first version's intervals.
fresh         sayings by file (fortunes), a dictionary of computing by category (foldoc), verses of the Bible by book
              (verses): fresh for the second version. Constants are now chosen on all parts up to here.
set-aside     banking77, clinc150, splice and digits in other layers of the models (minilm3, smol22), other random
              groupings (2d, 5r, 20r), pairs of bases. Listed when everything above had been seen, before anything was
              chosen again; run when the points were fixed. The width of the intervals was then chosen with it.
elsewhere     corpora of other kinds, listed and run with the set-aside part: packages by what they are used for (uses),
              names of characters by category (unicode), and two tables of measurements without any text (satellite,
              letters).
second        the corpora of the set-aside part once more, in further layers (minilm5, smol8) and groupings (2e, 5s,
              20s): listed before the width was chosen, run once after it. Nothing has been chosen since.

Groupings of the classes: ``2``, ``2b``, ``2c``, ``2d``, ``2e`` random halves, ``5``, ``10``, ``20``, ``40``
alphabetical blocks, ``5r``, ``5s``, ``20r``, ``20s`` random ones, ``all``, ``rare`` a random tenth of the classes
against the others, ``pick20`` the rows of 20 random classes alone. Of splice ``2`` is junctions against none, ``2d``
donors and ``2e`` acceptors against the rest; of digits ``2`` is odd against even, ``2d`` five and more against less,
``2e`` loops against none, ``5`` neighbours together, ``5s`` those that add up to nine.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CORPORA = {"banking77": "development", "clinc150": "held-out"}
MORE = {
    "debian/minilm": ("2", "5", "20", "all", "rare"),
    "debian/minilm-table": ("2", "all"),
    "debian/wordllama": ("5", "20", "all", "pick20"),
    "debian/smol-table": ("2", "5"),
    "wordnet/minilm": ("2", "5", "20", "all", "rare"),
    "wordnet/minilm-table": ("2", "20", "all"),
    "wordnet/wordllama": ("5", "all", "pick20"),
    "banking77/minilm": ("s2", "s5", "s20", "s154"),
    "banking77/wordllama": ("s2", "s5", "s154"),
    "banking77/smol15": ("s2", "s20"),
}
REGROUPED = {
    "clinc150/minilm": ("2c", "40"),
    "clinc150/minilm-table": ("2c",),
    "clinc150/smol15": ("10",),
    "clinc150/smolfinal": ("2c",),
    "clinc150/wordllama": ("10",),
}
FRESH = {
    "fortunes/minilm": ("2", "5", "all", "rare"),
    "fortunes/minilm-table": ("2", "20", "all"),
    "fortunes/wordllama": ("5", "pick20"),
    "foldoc/minilm": ("2", "5", "all", "pick20"),
    "foldoc/minilm-table": ("20",),
    "foldoc/wordllama": ("2", "all"),
    "verses/minilm-table": ("2", "20", "all"),
    "verses/wordllama": ("5", "all", "rare"),
}
SET_ASIDE = {
    "minilm": ("2d", "5r", "20r"),
    "minilm3": ("2d", "5r", "20r", "all"),
    "minilm-table": ("2d", "20r"),
    "smol22": ("2d", "5r", "20r", "all"),
    "smol-table": ("5r", "all"),
    "wordllama": ("2d", "20r"),
}
SET_ASIDE_OTHERS = ("splice/onehot/2d", "splice/pairs/all", "digits/pixels/2d", "digits/pixels/5")
SECOND = {
    "minilm": ("2e", "5s", "20s"),
    "minilm5": ("2e", "5s", "20s", "all"),
    "minilm-table": ("5s",),
    "smol8": ("2e", "5s", "20s", "all"),
    "smol-table": ("2e", "20s"),
    "wordllama": ("5s", "20s"),
}
SECOND_OTHERS = ("splice/onehot/2e", "splice/pairs/2d", "digits/pixels/2e", "digits/pixels/5s")
ELSEWHERE = {
    "uses/minilm": ("2", "all"),
    "uses/minilm-table": ("5",),
    "uses/wordllama": ("all",),
    "unicode/minilm-table": ("2", "all"),
    "unicode/wordllama": ("5", "all"),
    "satellite/measured": ("2", "all"),
    "letters/measured": ("2", "5", "all"),
}
GROUPINGS = {
    "minilm": ("2", "5", "20", "all", "rare"),
    "minilm-table": ("2", "5", "20", "all"),
    "smol15": ("2", "5", "20", "all"),
    "smolfinal": ("5", "all"),
    "smol-table": ("2", "20"),
    "wordllama": ("2", "5", "all", "pick20"),
}
OTHERS = {
    "splice/onehot/all": "development",
    "digits/pixels/2": "development",
    "splice/onehot/2": "held-out",
    "digits/pixels/all": "held-out",
}
CONFIRMATION = ("minilm/10", "minilm-table/2b", "smolfinal/20", "wordllama/20")
# Seeds of the random groupings; 7 for the others.
SEEDS = {"2b": 8, "2c": 9, "2d": 10, "5r": 12, "20r": 13, "2e": 14, "5s": 15, "20s": 16}
# Rows that the decoder encodes (it is slow): the first of a random order.
DECODER_ROWS = 10_000
T = 32

Pair = tuple[NDArray[np.float64], NDArray[np.intp]]


def tasks() -> dict[str, str]:
    """Name of every task, and its half."""
    named = {
        f"{corpus}/{encoder}/{grouping}": half
        for corpus, half in CORPORA.items()
        for encoder, groupings in GROUPINGS.items()
        for grouping in groupings
    }
    more = {f"{features}/{grouping}": "development" for features, list_ in MORE.items() for grouping in list_}
    regrouped = {f"{features}/{grouping}": "regrouped" for features, list_ in REGROUPED.items() for grouping in list_}
    fresh = {f"{features}/{grouping}": "fresh" for features, list_ in FRESH.items() for grouping in list_}
    confirmation = {f"{corpus}/{task}": "confirmation" for corpus in CORPORA for task in CONFIRMATION}
    set_aside = {
        f"{corpus}/{encoder}/{grouping}": part
        for part, encodings in (("set-aside", SET_ASIDE), ("second", SECOND))
        for corpus in CORPORA
        for encoder, groupings in encodings.items()
        for grouping in groupings
    }
    set_aside |= dict.fromkeys(SET_ASIDE_OTHERS, "set-aside") | dict.fromkeys(SECOND_OTHERS, "second")
    elsewhere = {f"{features}/{grouping}": "elsewhere" for features, list_ in ELSEWHERE.items() for grouping in list_}
    return named | OTHERS | confirmation | more | regrouped | fresh | set_aside | elsewhere


def load_task(name: str, features: Path, data: Path) -> Pair:
    """Features and classes of a task, in random order."""
    corpus, encoder, grouping = name.split("/")
    X, labels = load_features(corpus, encoder, features, data)
    classes, y = np.unique(labels, return_inverse=True)
    rng = np.random.default_rng(SEEDS.get(grouping, 7))
    if corpus == "splice":
        y = (classes[y] == {"2": "N", "2d": "EI", "2e": "IE"}[grouping]).astype(int) if grouping != "all" else y
    elif corpus == "digits":
        loops = np.isin(y, (0, 6, 8, 9)).astype(int)
        y = {
            "2": y % 2,
            "2d": (y >= 5).astype(int),
            "2e": loops,
            "5": y // 2,
            "5s": np.minimum(y, 9 - y),
            "all": y,
        }[grouping]
    elif grouping.startswith("s"):
        y = split_classes(corpus, encoder, int(grouping[1:]), features, data)
    elif grouping in ("2", "2b", "2c", "2d", "2e"):
        y = (rng.permutation(len(classes)) < len(classes) // 2)[y].astype(int)
    elif grouping in ("5", "10", "20", "40"):
        y = y * int(grouping) // len(classes)
    elif grouping in ("5r", "20r", "5s", "20s"):
        y = rng.permutation(len(classes))[y] * int(grouping[:-1]) // len(classes)
    elif grouping == "rare":
        y = (rng.permutation(len(classes)) < len(classes) // 10)[y].astype(int)
    elif grouping == "pick20":
        keep = np.isin(y, rng.permutation(len(classes))[:20])
        X, y = X[keep], np.unique(y[keep], return_inverse=True)[1]
    order = np.random.default_rng(11).permutation(len(y))
    return X[order].astype(np.float64), y[order]


def split_classes(corpus: str, encoder: str, parts: int, features: Path, data: Path) -> NDArray[np.intp]:
    """Every class split in two by k-means on MiniLM features, and the halves put at random into `parts` classes."""
    from sklearn.cluster import KMeans

    X, labels = load_features(corpus, "minilm", features, data)
    classes, y = np.unique(labels, return_inverse=True)
    half = np.zeros(len(y), dtype=np.intp)
    for k in range(len(classes)):
        rows = np.flatnonzero(y == k)
        half[rows] = 2 * k + KMeans(2, n_init=2, random_state=0).fit_predict(X[rows])
    stored_rows = features / f"{corpus}__{encoder}_rows.npy"
    if stored_rows.exists():
        half = half[np.load(stored_rows)]
    count = 2 * len(classes)
    order = np.arange(count) if parts == count else np.random.default_rng(17).permutation(count)
    return np.asarray((order * parts // count)[half])


@cache
def load_corpus(corpus: str, data: Path) -> tuple[list[str], NDArray[np.str_]]:
    """Texts and labels of a corpus: ``corpus.csv.gz`` or ``corpus.csv`` with columns text (or sequence) and label."""
    for path in (data / f"{corpus}.csv.gz", data / f"{corpus}.csv"):
        if path.exists():
            with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
                records = list(csv.DictReader(file))
            return [r.get("text") or r["sequence"] for r in records], np.array([r["label"] for r in records])
    raise FileNotFoundError(f"{corpus}.csv.gz is not in {data}; give its folder with --data")


def load_features(corpus: str, encoder: str, features: Path, data: Path) -> tuple[NDArray, NDArray]:
    """Mean-pooled features of a corpus and its labels; encoded once, then read from the folder `features`."""
    if corpus == "digits":
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return bunch.data, bunch.target
    if encoder == "measured":
        stored = np.load(data / f"{corpus}.npz")
        return stored["X"], stored["labels"]
    texts, labels = load_corpus(corpus, data)
    if corpus == "splice":
        letters = np.array([list(text) for text in texts])
        units, names = letters, list("ACGT")
        if encoder == "pairs":
            units, names = np.char.add(letters[:, :-1], letters[:, 1:]), [a + b for a in "ACGT" for b in "ACGT"]
        return np.concatenate([units == name for name in names], axis=1).astype(float), labels
    rows = np.arange(len(texts))
    if encoder.startswith("smol") and encoder != "smol-table":
        rows = np.random.default_rng(0).permutation(len(texts))[:DECODER_ROWS]
    stored, stored_rows = features / f"{corpus}__{encoder}.npy", features / f"{corpus}__{encoder}_rows.npy"
    if not stored.exists():
        features.mkdir(parents=True, exist_ok=True)
        np.save(stored, ENCODERS[encoder]([texts[i] for i in rows]).astype(np.float32))
        np.save(stored_rows, rows)
    if stored_rows.exists():
        rows = np.load(stored_rows)
    return np.load(stored), labels[rows]


def table_means(table: NDArray, ids: list[list[int]]) -> NDArray:
    """Mean of the rows of a table that each text names; zeros for a text without tokens."""
    return np.stack([table[i].mean(axis=0) if i else np.zeros(table.shape[1]) for i in ids])


def minilm(layer: int) -> Callable[[list[str]], NDArray]:
    def encode(texts: list[str]) -> NDArray:
        from encoders import MiniLM

        encoded = MiniLM().encode(texts, T=T, layers=(layer,))
        return _means(encoded.hidden[layer], encoded.mask)

    return encode


def minilm_table(texts: list[str]) -> NDArray:
    from encoders import MiniLM

    model = MiniLM()
    return table_means(model.table, [model.static_ids(text, 512) for text in texts])


def smol(layer: int | str) -> Callable[[list[str]], NDArray]:
    def encode(texts: list[str]) -> NDArray:
        from encoders import SmolLM2

        encoded = SmolLM2().encode(texts, T=T, layers=(layer,))
        return _means(encoded.hidden[layer], encoded.mask)

    return encode


def smol_table(texts: list[str]) -> NDArray:
    from encoders import SmolLM2

    model = SmolLM2()
    return table_means(model.table, [model.token_ids(text, 512) for text in texts])


def wordllama(texts: list[str]) -> NDArray:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    from encoders import package_folder

    folder = package_folder("wordllama")
    table = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return table_means(table.astype(np.float32), [tokenizer.encode(t, add_special_tokens=False).ids for t in texts])


ENCODERS: dict[str, Callable[[list[str]], NDArray]] = {
    "minilm": minilm(6),
    "minilm3": minilm(3),
    "minilm5": minilm(5),
    "minilm-table": minilm_table,
    "smol8": smol(8),
    "smol15": smol(15),
    "smol22": smol(22),
    "smolfinal": smol("final"),
    "smol-table": smol_table,
    "wordllama": wordllama,
}


def _means(hidden: NDArray, mask: NDArray) -> NDArray:
    """Mean over the tokens of each text, in blocks."""
    out = np.empty((len(hidden), hidden.shape[2]), dtype=np.float32)
    for start in range(0, len(hidden), 500):
        part = mask[start : start + 500].astype(np.float32)[..., None]
        out[start : start + 500] = (hidden[start : start + 500] * part).sum(axis=1) / np.maximum(part.sum(axis=1), 1)
    return out
