"""One text at a time: a served classifier of texts against its encoder alone.

Three routes take turns over the same texts in one run: the encoder (tokens and the layers that predict), a model from
``sp.load``, and the file of ``to_onnx`` in onnxruntime. No text is seen twice, so that nothing comes from the cache. It
passes when a loaded model takes at most 1.3 times the processor time of its encoder.

Run: OMP_NUM_THREADS=1 python benchmarks/speed/serve_texts.py
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import spikepool as sp

TEMPLATES = {
    "weather": ["Will it rain in {}?", "How warm is it in {}?", "Is a storm coming to {}?"],
    "food": ["Where can I eat pizza in {}?", "Is the bakery in {} open?", "The best noodles in {}?"],
    "travel": ["When does the train to {} leave?", "Book a flight to {}", "How far is {} by car?"],
}
CITIES = ["Rome", "Oslo", "Lima", "Cairo", "Quito", "Delhi", "Tokyo", "Paris", "Accra", "Hanoi"]
REQUESTS, LIMIT = 300, 1.3


def requests() -> list[str]:
    """Different texts of 8 to 25 tokens."""
    rng = np.random.default_rng(0)
    words = [
        "how far",
        "is the",
        "train",
        "station",
        "from a",
        "hotel",
        "good food",
        "near",
        "river",
        "will it",
        "rain",
    ]
    return [f"{k} " + " ".join(rng.choice(words, rng.integers(3, 15))) + "?" for k in range(3 * REQUESTS)]


def routes(folder: Path) -> dict[str, Callable[[str], Any]]:
    """What answers a request, by name."""
    texts = [text.format(city) for city in CITIES for group in TEMPLATES.values() for text in group]
    labels = [topic for _ in CITIES for topic, group in TEMPLATES.items() for _ in group]
    fitted = sp.TextClassifier().fit(texts, labels)
    fitted.save(folder / "model")
    fitted.to_onnx(folder / "model.onnx")
    model = sp.load(folder / "model")
    encoder, layers = model._model(), tuple(int(layer) for layer in model.layers_)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(text: str) -> Any:
        ids = np.array([encoder.tokenise([text], 128)[0].ids])
        return encoder.embed(ids, np.ones(ids.shape, dtype=bool), layers)

    def runtime(text: str) -> Any:
        one = tokenizer.encode(text)
        given = {"input_ids": np.array([one.ids]), "attention_mask": np.array([one.attention_mask])}
        return session.run(["probabilities"], given)[0]

    same = np.abs(model.predict_proba(["a loud storm"]) - runtime("a loud storm")).max()
    if same > 1e-4:
        raise SystemExit(f"the two routes disagree by {same:.1e}")
    return {"encoder": encode, "sp.load": lambda text: model.predict_proba([text]), "onnxruntime": runtime}


def main() -> None:
    """Measure, print and record."""
    with tempfile.TemporaryDirectory() as folder:
        answer = routes(Path(folder))
    texts, seconds = iter(requests()), {name: list[tuple[float, float]]() for name in answer}
    for _ in range(REQUESTS):
        for name, function in answer.items():
            text, clock, processor = next(texts), time.perf_counter(), time.process_time()
            function(text)
            seconds[name].append((time.process_time() - processor, time.perf_counter() - clock))
    result: dict[str, Any] = {"requests": REQUESTS}
    for name, times in seconds.items():
        processor_ms, clock_ms = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
        result[name] = {"processor_ms": round(processor_ms, 2), "clock_ms": round(clock_ms, 2)}
    ratio = result["sp.load"]["processor_ms"] / result["encoder"]["processor_ms"]
    result |= {"ratio": round(ratio, 2), "limit": LIMIT}
    print(json.dumps(result, indent=2))
    target = Path(__file__).parent.parent / "results" / "serve_texts.json"
    target.write_text(json.dumps(result, indent=2) + "\n")
    if ratio > LIMIT:
        raise SystemExit(f"one text takes {ratio:.2f} times the encoder's own time, more than {LIMIT}")


if __name__ == "__main__":
    main()
