"""Two tables side by side: identities, limits, an oracle from the definition, and names that match rows."""

import json
import re

import numpy as np
import pytest

import spikepool as sp
from spikepool.tables.geometry import SIZES

V, D = 400, 30
QUICK = {"repetitions": 0}


def table(seed=0, d=D, rows=V):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, d)) * np.geomspace(3, 0.3, d)


def rotation(d, seed=9):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def test_a_table_equals_itself():
    E = table()
    found = sp.compare_tables(E, E, **QUICK)
    assert (found.common, found.basis) == (V, "as stored")
    assert found.change == pytest.approx(0, abs=1e-7)
    assert found.moved == ()
    assert [o.k for o in found.overlaps] == [k for k in SIZES if k <= D // 2]
    for o in found.overlaps:
        assert o.coordinates == pytest.approx(1)
        assert o.tokens == pytest.approx(1)
        assert o.chance == o.k / D
    assert "equal up to rounding" in found.summary()


def test_a_rotation_moves_coordinates_and_no_token():
    E = table()
    found = sp.compare_tables(E, E @ rotation(D) + 3.0, **QUICK)
    assert found.basis == "rotated"
    assert found.change > 0.5
    assert found.rotated_change == pytest.approx(0, abs=1e-6)
    assert found.changes.max() < 1e-6
    for o in found.overlaps:
        assert o.tokens == pytest.approx(1)
        assert o.coordinates < 0.95


def test_a_wider_copy_is_the_same_table():
    E = table()
    wide = np.concatenate([E, np.zeros((V, 5))], axis=1) @ rotation(D + 5)
    for pair in ((E, wide), (wide, E)):
        found = sp.compare_tables(*pair, **QUICK)
        assert found.change is None
        assert found.rotated_change == pytest.approx(0, abs=1e-6)
        assert found.changes.max() < 1e-6
        assert all(o.coordinates is None and o.tokens == pytest.approx(1) for o in found.overlaps)


def test_against_the_definition():
    """Projections formed in full, Procrustes by scipy: nothing of the streaming code."""
    from scipy.linalg import orthogonal_procrustes

    A = table(1)
    B = 0.8 * A + 0.5 * table(2)
    found = sp.compare_tables(A, B, **QUICK)
    a, b = A - A.mean(0), B - B.mean(0)
    assert found.change == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(a))
    Q, _ = orthogonal_procrustes(a, b)
    assert found.rotated_change == pytest.approx(np.linalg.norm(a @ Q - b) / np.linalg.norm(a))
    unit = np.sqrt(np.mean(np.sum(a**2, axis=1)))
    np.testing.assert_allclose(found.changes, np.linalg.norm(a - b, axis=1) / unit, rtol=1e-10)
    (ua, _, va), (ub, _, vb) = (np.linalg.svd(x, full_matrices=False) for x in (a, b))
    for o in found.overlaps:
        k = o.k
        projections = [v[:k].T @ v[:k] for v in (va, vb)]
        assert o.coordinates == pytest.approx(np.trace(projections[0] @ projections[1]) / k)
        projections = [u[:, :k] @ u[:, :k].T for u in (ua, ub)]
        assert o.tokens == pytest.approx(np.trace(projections[0] @ projections[1]) / k)
    worst = found.moved[0]
    assert worst.row == int(np.argmax(found.changes))
    i = worst.row
    assert worst.cosine == pytest.approx(a[i] @ b[i] / np.linalg.norm(a[i]) / np.linalg.norm(b[i]))


def test_rows_are_matched_by_name():
    A = table()
    order = np.random.default_rng(3).permutation(V)[: V - 50]
    names = [f"t{i}" for i in range(V)]
    found = sp.compare_tables(A, A[order], tokens=(names, [names[i] for i in order]), **QUICK)
    assert found.common == V - 50
    assert found.changes.max() < 1e-5  # kept in single precision
    unmatched = sp.compare_tables(A, A[order], **QUICK)
    assert (unmatched.common, unmatched.change, unmatched.changes) == (0, None, None)
    assert "cannot be matched" in unmatched.summary()
    assert unmatched.overlaps[0].coordinates > 0.8
    B = A.copy()
    B[7] += 5
    assert sp.compare_tables(A, B, tokens=(names, names), **QUICK).moved[0].token == "t7"
    assert sp.compare_tables(A, A, tokens=(names, [f"u{i}" for i in range(V)]), **QUICK).common == 0
    with pytest.raises(sp.ShapeError, match="one name per row"):
        sp.compare_tables(A, A, tokens=(names[:-1], None))


def test_blocks_of_different_lengths_meet(tmp_path):
    """A Parquet file ends its blocks at row groups, an array does not."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    A = table(rows=1000)
    pq.write_table(
        pa.table({"v": pa.FixedSizeListArray.from_arrays(A.ravel(), D)}), tmp_path / "a.parquet", row_group_size=37
    )
    from spikepool.tables import open_table

    found = sp.compare_tables(open_table(tmp_path / "a.parquet"), A, **QUICK)
    assert found.changes.max() < 1e-10


@pytest.mark.slow
def test_what_a_comparison_says():
    found = sp.compare_tables(table(1), table(2), repetitions=19)
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert back["first"]["trusted"] in (True, False)
    assert len(back["overlaps"]) == len(found.overlaps)
    assert back["basis"] == "rotated"
    text = str(found)
    assert re.search(r"first: E +400 +30 ", text)
    assert "token" not in text.replace("tokens  largest", "")
    assert found._repr_html_().count("<table") == 3
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert len(found.plot().axes) == 3
