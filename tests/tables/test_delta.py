"""Differences of weights: planted changes are named rightly, and noise is not a signal."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.table_input import as_table
from spikepool.tables.delta import examine

V, D = 600, 120


def weight(rng):
    """A trained-looking weight: unequal variances and a few strong directions."""
    scales = np.linspace(0.5, 2.0, D)
    return (rng.standard_normal((V, D)) * scales + 3 * np.outer(rng.standard_normal(V), np.eye(D)[3])).astype(
        np.float32
    )


def kind(a, b):
    return examine(as_table(a), as_table(b))


def planted(rng, rank, strength):
    """Noise of size .02 with `rank` directions of `strength` times the edge of its singular values."""
    noise = 0.02 * rng.standard_normal((V, D))
    edge = 0.02 * (np.sqrt(V) + np.sqrt(D))
    left = np.linalg.qr(rng.standard_normal((V, rank)))[0]
    right = np.linalg.qr(rng.standard_normal((D, rank)))[0]
    return noise + strength * edge * left @ right.T


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "strength"), [(1, 2.0), (3, 1.6), (8, 1.6), (8, 5.0)])
def test_planted_directions_over_noise_are_counted(rank, strength):
    right = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        A = weight(rng)
        found = kind(A, A + planted(rng, rank, strength).astype(np.float32))
        right += found.kind == "low rank" and found.rank == rank
    assert right >= 24


@pytest.mark.slow
def test_pure_noise_is_noise():
    right = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        A = weight(rng)
        right += kind(A, A + (0.05 * rng.standard_normal((V, D))).astype(np.float32)).kind == "noise"
    assert right >= 49


def bfloat16(a):
    bits = np.ascontiguousarray(a, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def int8(a):
    step = np.abs(a).max(axis=1, keepdims=True) / 127
    return (np.round(a / step) * step).astype(np.float32)


def on_blocks(a, size, levels):
    """Blocks along the rows with one scale each, `levels` steps on either side of zero."""
    width = D // size * size
    out = a.copy()
    out[:, :width] = np.concatenate(
        [
            np.round(part / (step := np.abs(part).max(axis=1, keepdims=True) / levels)) * step
            for part in np.split(a[:, :width], width // size, axis=1)
        ],
        axis=1,
    )
    return out


def four_bits(a):
    blocks = a[:, : D // 32 * 32].reshape(-1, 32)
    step = (blocks.max(axis=1, keepdims=True) - blocks.min(axis=1, keepdims=True)) / 15
    low = blocks.min(axis=1, keepdims=True)
    out = a.copy()
    out[:, : D // 32 * 32] = (np.round((blocks - low) / step) * step + low).reshape(len(a), -1)
    return out.astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        (lambda a, rng: a.copy(), "identical", "identical"),
        (lambda a, rng: 1.5 * a, "scale", "1.5 times"),
        (lambda a, rng: a[rng.permutation(V)], "permutation", "rows are the same in another order"),
        (lambda a, rng: a[:, rng.permutation(D)], "permutation", "columns are the same in another order"),
        (lambda a, rng: bfloat16(a), "rounding", "bfloat16"),
        (lambda a, rng: a.astype(np.float16).astype(np.float32), "rounding", "float16"),
        (lambda a, rng: int8(a), "rounding", "8 bits"),
        (lambda a, rng: four_bits(a), "rounding", "4 bits"),
        (
            lambda a, rng: bfloat16(
                a + np.outer(rng.standard_normal(V), rng.standard_normal(D)).astype(np.float32) / 9
            ),
            "low rank",
            "1 direction(s) stand out",
        ),
        (lambda a, rng: on_blocks(a, 64, 127), "rounding", "8 bits"),
        (lambda a, rng: on_blocks(a, 16, 31), "rounding", "6 bits"),
        (lambda a, rng: int8(a) + int8(rng.permutation(a)), "structured", "many"),
        (
            lambda a, rng: a + np.outer(rng.standard_normal(V), rng.standard_normal(D)).astype(np.float32),
            "low rank",
            "1 ",
        ),
        (
            lambda a, rng: a + (rng.standard_normal((V, D)) * np.geomspace(1, 0.01, D)).astype(np.float32),
            "structured",
            "many",
        ),
    ],
)
def test_kinds_of_change(change, expected, words):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A = weight(rng)
        found = kind(A, np.asarray(change(A, rng), dtype=np.float32))
        assert found.kind == expected
        assert words in found.sentence


def test_chunks_of_unequal_size_are_matched():
    dask = pytest.importorskip("dask.array", reason="dask is not installed")
    A = weight(np.random.default_rng(0))
    for chunks in ((100, D), (470, D)):
        found = examine(as_table(A), as_table(dask.from_array(bfloat16(A), chunks=chunks)))
        assert found.kind == "rounding"


@pytest.mark.slow
def test_comparison_has_a_fitted_difference():
    rng = np.random.default_rng(0)
    A = weight(rng)
    B = A + planted(rng, 2, 4.0).astype(np.float32)
    found = sp.compare_tables(A, B)
    assert found.delta.n_outliers_ == 2
    np.testing.assert_allclose(found.delta.shape_, (V, D))
    assert found.change_kind.rank == 2
    np.testing.assert_allclose(found.change_kind.relative_norm, np.linalg.norm(B - A) / np.linalg.norm(A), rtol=1e-5)
    assert sp.compare_tables(A, A.copy()).delta is None
    merged = sp.compare_tables(A, A + np.outer(rng.standard_normal(V), rng.standard_normal(D)))
    assert merged.delta is None, "a difference of rank one has no bulk"
    assert (merged.change_kind.kind, merged.change_kind.rank) == ("low rank", 1)


@pytest.mark.slow
def test_commands(tmp_path, capsys):
    pytest.importorskip("typer")
    safetensors = pytest.importorskip("safetensors.numpy")
    from spikepool.cli import main

    rng = np.random.default_rng(1)
    W = weight(rng)
    safetensors.save_file({"w": W, "x": W}, tmp_path / "a.safetensors")
    safetensors.save_file(
        {"w": W + planted(rng, 2, 4.0).astype(np.float32), "x": bfloat16(W)}, tmp_path / "b.safetensors"
    )

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in arguments])
        return stopped.value.code or 0, capsys.readouterr().out

    code, text = run("compare", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--tensor", "w", "--delta")
    assert code == 0
    assert "2 direction(s) stand out" in text
    pair = ("compare", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--all")
    code, text = run(*pair, "--delta", "--fail-if", "drift>0.01")
    assert code == 3
    assert "rounding" in text, "a gate that closes does not hide the kinds"
    verdict = text[text.index("Verdict:") :]
    assert verdict.startswith("Verdict: look. 2 of 2 tensors changed, w most (drift ")
    assert "nothing to do" not in verdict
    _, text = run(*pair, "--delta", "--json")
    answer = json.loads(text)
    assert (answer["deltas"]["w"]["kind"], answer["deltas"]["x"]["kind"]) == ("low rank", "rounding")
    _, text = run(*pair, "--delta", "--csv")
    rows = {row["tensor"]: row for row in csv.DictReader(text.splitlines())}
    assert rows["x"]["kind"] == "rounding"
    assert float(rows["w"]["drift"]) == pytest.approx(answer["gates"]["w"]["drift"])
    safetensors.save_file({"w": W, "x": bfloat16(W)}, tmp_path / "b.safetensors")
    _, text = run(*pair)
    assert "Verdict: OK. The largest drift is 0.1" in text
    assert "as after rounding. Next: nothing to do." in text


@pytest.mark.parametrize("seed", range(4))
def test_changes_that_were_named_wrongly(seed):
    """Single entries, int8 by column, 8-bit floats, and a change of half of the full rank."""
    rng = np.random.default_rng(100 + seed)
    A = weight(rng)
    one = A.copy()
    one[3, 5] += 1e-3
    found = kind(A, one)
    assert found.kind == "few entries"
    assert found.sentence.startswith(f"1 of {V * D} entries differ, by up to 0.001")
    steps = np.abs(A).max(axis=0) / 127
    assert kind(A, (np.round(A / steps) * steps).astype(np.float32)).sentence.startswith(
        "The second is the first rounded to 8"
    )
    bits = np.frexp(A)[1]
    for significant in (4, 3):  # E4M3 and E5M2
        step = 2.0 ** (np.maximum(bits, -5) - significant)
        assert "rounded to 8 bits" in kind(A, (np.round(A / step) * step).astype(np.float32)).sentence
    wide = rng.standard_normal((400, 128)).astype(np.float32)
    many = wide + (rng.standard_normal((400, 70)) @ rng.standard_normal((70, 128)) / 50).astype(np.float64)
    found = examine(as_table(wide.astype(np.float64)), as_table(many))
    assert (found.kind, found.rank) == ("low rank", 70)


@pytest.mark.slow
@pytest.mark.parametrize("directions", [0, 1, 4])
def test_noise_with_heavy_tails_has_no_directions_of_its_own(directions):
    """Student noise with 3 degrees of freedom; the cut-off was chosen on the seeds 0 to 7."""
    right = 0
    for seed in range(1000, 1012):
        rng = np.random.default_rng(seed)
        A = weight(rng).astype(np.float64)
        D_noise = 0.01 * rng.standard_t(3, A.shape)
        left, right_side = (np.linalg.qr(rng.standard_normal((size, 4)))[0][:, :directions] for size in A.shape)
        strength = 2 * 0.01 * (np.sqrt(V) + np.sqrt(D))
        found = kind(A, A + D_noise + strength * left @ right_side.T)
        right += (found.kind, found.rank) == (("low rank", directions) if directions else ("noise", 0))
    assert right >= 11


def test_a_row_that_changed_is_not_cut_off():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((1200, 64))
    B = A + 0.01 * rng.standard_normal(A.shape)
    B[7] += rng.standard_normal(64)
    assert (kind(A, B).kind, kind(A, B).rank) == ("low rank", 1)
