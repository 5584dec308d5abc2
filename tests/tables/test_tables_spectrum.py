"""The estimator: attributes, conventions, nulls, held-out prediction, report, figure."""

import json

import numpy as np
import pytest
from coloured import detection_threshold, log_uniform, rows, sample_eigenvalues
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import spikepool as sp
from spikepool.data.table_input import Table
from spikepool.tables import nulls
from spikepool.tables.gram import token_names


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    noise = log_uniform(118, rng)
    spikes = np.array([4.0, 2.5]) * detection_threshold(noise, 0.1)
    E = rows(np.concatenate([spikes, noise]), 1200, rng, rotate=True)
    return E, sp.TableSpectrum(repetitions=19, tokenizer=[f"w{i}" for i in range(1200)]).fit(E)


@pytest.mark.slow
def test_eigenvalues_are_those_of_the_centred_table(planted):
    E, fit = planted
    exact = sample_eigenvalues(E)
    np.testing.assert_allclose(fit.eigenvalues_, exact, rtol=1e-10)
    np.testing.assert_allclose(fit.singular_values_, np.sqrt(1200 * exact), rtol=1e-10)
    assert (fit.shape_, fit.rank_, fit.n_features_in_) == ((1200, 120), 120, 120)


def test_attributes_agree_with_each_other(planted):
    _, fit = planted
    assert fit.n_outliers_ == fit.counts_["coloured"] == len(fit.outliers_) == 2
    assert fit.n_outliers_ == np.sum(fit.eigenvalues_ > fit.threshold_)
    assert fit.edge_ < fit.threshold_ < fit.outliers_[-1].eigenvalue
    assert set(fit.counts_) == {"white", "coloured", "permuted", "row_norm", "screenot"} == set(nulls.MEANINGS)
    assert fit.components_.shape == (2, 120)
    np.testing.assert_allclose(fit.components_ @ fit.components_.T, np.eye(2), atol=1e-10)
    assert fit.population_.law().support()[1] == pytest.approx(fit.edge_, rel=1e-8)


def test_held_out_half_is_predicted_within_sampling_error(planted):
    _, fit = planted
    held = fit.heldout_
    assert held.within_sampling_error
    assert held.distance < held.limit
    assert held.distance < held.plug_in_distance
    assert "within sampling error" in fit.verdict_


@pytest.mark.slow
@pytest.mark.statistical
def test_p_values_are_fair_and_notice_a_table_that_is_not_one_sample():
    """Under the model p exceeds .05 nearly always; rows whose scale varies wildly are noticed."""
    rng = np.random.default_rng(1)
    settings = {"null_draws": 0, "repetitions": 19, "influential": 0}
    fair = [
        sp.TableSpectrum(**settings, random_state=i).fit(rows(log_uniform(60, rng), 600, rng)).heldout_.p_value
        for i in range(12)
    ]
    assert np.sum(np.array(fair) <= 0.05) <= 2  # P(3 or more of 12 at 5 %) = 2 %
    assert np.median(fair) > 0.15
    heavy = rows(log_uniform(60, rng), 600, rng) * rng.standard_t(1.2, size=600)[:, None]
    fit = sp.TableSpectrum(**settings).fit(heavy)
    assert not fit.heldout_.within_sampling_error
    assert "not a test" in fit.verdict_


@pytest.mark.slow
def test_same_seed_same_answer(planted):
    E, fit = planted
    again = clone(fit).fit(E)
    assert json.dumps(again.to_dict()) == json.dumps(fit.to_dict())


def test_global_random_state_is_left_alone(planted):
    E, _ = planted
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    sp.TableSpectrum(null_draws=1, repetitions=0).fit(E)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_white_null_on_white_noise():
    rng = np.random.default_rng(2)
    fit = sp.TableSpectrum(null_draws=2, repetitions=0).fit(rng.standard_normal((1000, 100)))
    assert fit.n_outliers_ == 0
    assert fit.counts_["white"] <= 1
    assert fit.counts_["row_norm"] <= 1
    assert fit.counts_["permuted"] <= 1
    assert "No eigenvalues stand" in fit.verdict_


def test_permutation_keeps_columns_and_breaks_their_correlation():
    """Columns of unequal variance without correlation: nothing above the shuffled tables. Correlated: something."""
    rng = np.random.default_rng(3)
    E = rng.standard_normal((900, 60)) * np.geomspace(0.3, 3, 60)
    settings = {"null_draws": 3, "repetitions": 0}
    assert sp.TableSpectrum(**settings).fit(E).counts_["permuted"] <= 1
    E += rng.standard_normal((900, 1)) * 2
    assert sp.TableSpectrum(**settings).fit(E).counts_["permuted"] >= 1


def test_permuted_limit_law_stands_in_for_large_tables(monkeypatch):
    rng = np.random.default_rng(4)
    E = rng.standard_normal((900, 60)) * np.geomspace(0.3, 3, 60)
    drawn = sp.TableSpectrum(null_draws=3, repetitions=0).fit(E)
    monkeypatch.setattr(nulls, "PERMUTATION_BYTES", 0)
    limit = sp.TableSpectrum(null_draws=3, repetitions=0).fit(E)
    by_name = [{null.name: null for null in fit.nulls_}["permuted"] for fit in (drawn, limit)]
    assert "too large" in by_name[1].note
    # the largest of three draws and the 99 % point differ by a few Tracy-Widom scales, here 2 % of the edge each
    assert by_name[0].threshold == pytest.approx(by_name[1].threshold, rel=0.1)


def test_row_norms_are_kept():
    """Isotropic rows whose norms differ a hundredfold: their own null explains them, white noise does not."""
    rng = np.random.default_rng(5)
    E = rng.standard_normal((2000, 80)) * np.exp(rng.standard_normal(2000))[:, None]
    fit = sp.TableSpectrum(null_draws=3, repetitions=0).fit(E)
    assert fit.counts_["row_norm"] <= 1
    assert fit.counts_["white"] > 3


def test_a_planted_heavy_row_is_named():
    rng = np.random.default_rng(6)
    E = rng.standard_normal((1000, 60))
    E[417] += 40 * np.ones(60) / np.sqrt(60) * 5
    fit = sp.TableSpectrum(null_draws=0, repetitions=0, tokenizer=lambda i: f"token {i}").fit(E)
    heavy = fit.influential_rows_[0]
    assert (heavy.row, heavy.token, heavy.direction) == (417, "token 417", 1)
    centred = E - E.mean(axis=0)
    u = np.linalg.svd(centred, full_matrices=False)[2][0]
    assert heavy.share == pytest.approx((u @ centred[417]) ** 2 / np.sum((centred @ u) ** 2), rel=1e-8)
    assert "1 row carries" in fit.verdict_


def test_token_names():
    class Tokenizer:
        def id_to_token(self, row):
            return f"<{row}>"

    assert token_names(None, 2) is None
    assert token_names(Tokenizer(), 2)(3) == "<3>"
    assert token_names(["a", "b"], 2)(1) == "b"
    assert token_names({0: "a", 1: "b"}, 2)(1) == "b"


@pytest.mark.parametrize("tokenizer", [3, "names", b"names", ["a"] * 99, dict.fromkeys(range(99), "a")])
def test_tokenizers_that_cannot_name_the_rows_are_refused_before_the_table_is_read(tokenizer):
    E = np.random.default_rng(3).standard_normal((100, 40))
    read = []

    class Spy(Table):
        def blocks(self):
            read.append(self)
            return super().blocks()

    with pytest.raises(sp.InvalidInputError, match="tokenizer"):
        sp.TableSpectrum(null_draws=0, repetitions=0, tokenizer=tokenizer).fit(Spy(E))
    assert not read


@pytest.mark.parametrize("tokenizer", [lambda row: ["a"][row + 5], {-i: "a" for i in range(200)}])
def test_a_tokenizer_that_fails_on_a_row_is_named(tokenizer):
    E = np.random.default_rng(3).standard_normal((100, 40))
    E[:, 0] *= 10  # rows are named where a direction stands out
    with pytest.raises(sp.InvalidInputError, match="no name for a row"):
        sp.TableSpectrum(null_draws=0, repetitions=0, tokenizer=tokenizer).fit(E)


@pytest.mark.parametrize("table", ["abc", None, 10**400, [[1, 2], [3]], [["a"]]])
def test_what_is_no_table_is_named(table):
    with pytest.raises(sp.InvalidInputError, match=r"E must|E has|nothing at|rows of E"):
        sp.TableSpectrum().fit(table)


@pytest.mark.parametrize(
    "parameters",
    [
        {"center": "no"},
        {"center": 1},
        {"margin": "wide"},
        {"max_outliers": -1},
        {"max_outliers": "many"},
        {"null_draws": 1.5},
        {"influential": -1},
        {"progress": "yes"},
        {"random_state": "seed"},
    ],
)
def test_parameters_are_checked(parameters):
    E = np.random.default_rng(3).standard_normal((100, 40))
    with pytest.raises(sp.InvalidInputError, match=next(iter(parameters)).replace("random_state", "rng")):
        sp.TableSpectrum(**{"null_draws": 0, "repetitions": 0, **parameters}).fit(E)


@pytest.mark.slow
def test_wide_table_and_low_rank():
    rng = np.random.default_rng(7)
    fit = sp.TableSpectrum(null_draws=1, repetitions=19).fit(rng.standard_normal((80, 120)))
    assert fit.rank_ == 79  # centring costs one
    assert fit.n_outliers_ == 0
    low = rng.standard_normal((500, 50)) @ rng.standard_normal((50, 90))
    assert sp.TableSpectrum(null_draws=1, repetitions=19).fit(low).rank_ == 50


def test_without_centring_the_mean_is_an_outlier():
    E = np.random.default_rng(8).standard_normal((1000, 60)) + 2
    assert sp.TableSpectrum(null_draws=0, repetitions=0).fit(E).n_outliers_ == 0
    raw = sp.TableSpectrum(center=False, null_draws=0, repetitions=19).fit(E)
    np.testing.assert_allclose(raw.eigenvalues_, np.linalg.svd(E, compute_uv=False) ** 2 / 1000, rtol=1e-10)
    assert raw.n_outliers_ == 1


def test_plug_in_population_is_wider(planted):
    E, fit = planted
    naive = sp.TableSpectrum(population="plug-in", null_draws=0, repetitions=0).fit(E)
    assert naive.n_outliers_ == fit.n_outliers_
    assert np.var(naive.population_.atoms) > np.var(fit.population_.atoms)
    assert naive.edge_ > fit.edge_


def test_memory_maps_and_files_give_the_same(planted, tmp_path):
    E, _ = planted
    np.save(tmp_path / "a.npy", E)
    quick = sp.TableSpectrum(null_draws=0, repetitions=0)
    here = quick.fit(E).to_dict()
    other = clone(quick).fit(np.load(tmp_path / "a.npy", mmap_mode="r")).to_dict()
    np.testing.assert_allclose(other["eigenvalues"], here["eigenvalues"], rtol=1e-12)
    from_file = sp.TableSpectrum.from_file(tmp_path / "a.npy", null_draws=0, repetitions=0)
    assert from_file.n_outliers_ == here["n_outliers"]
    as_list = clone(quick).fit(E.tolist())
    np.testing.assert_allclose(as_list.eigenvalues_, here["eigenvalues"], rtol=1e-12)


def test_sparse_data_frame_and_foreign_tensors(planted):
    import pandas as pd
    from scipy import sparse

    class Foreign:  # a tensor whose dtype is not numpy's
        shape, dtype = (1200, 120), "theirs.float"

        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    E, fit = planted
    quick = sp.TableSpectrum(null_draws=0, repetitions=0)
    for table in (sparse.csr_matrix(E), sparse.csr_array(E), pd.DataFrame(E), Foreign(E)):
        np.testing.assert_allclose(clone(quick).fit(table).eigenvalues_, fit.eigenvalues_, rtol=1e-9)
    with pytest.raises(sp.InvalidInputError, match="masked"):
        quick.fit(np.ma.masked_greater(E, 3.0))


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (np.ones((50, 40)), sp.DomainError),
        (np.full((50, 40), 0.1), sp.DomainError),
        (np.ones(50), sp.ShapeError),
        (np.empty((0, 40)), sp.ShapeError),
        (np.random.default_rng(0).standard_normal((50, 10)), sp.SizeError),
        (np.full((50, 40), np.nan), sp.NonFiniteError),
        (np.ones((50, 40), dtype=complex), sp.InvalidInputError),
        ("a table", sp.InvalidInputError),
    ],
)
def test_bad_tables(table, error):
    with pytest.raises(error):
        sp.TableSpectrum(null_draws=0, repetitions=0).fit(table)


@pytest.mark.parametrize(
    "parameters",
    [
        {"margin": 0},
        {"margin": np.nan},
        {"population": "best"},
        {"null_draws": -1},
        {"repetitions": 5},
        {"max_outliers": -1},
        {"random_state": "seed"},
        {"influential": 1.5},
    ],
)
def test_bad_parameters(parameters):
    with pytest.raises(sp.InvalidInputError):
        sp.TableSpectrum(**parameters).fit(np.eye(40))


def test_conventions(planted):
    _, fit = planted
    assert clone(fit).get_params()["repetitions"] == 19
    assert "TableSpectrum" in repr(sp.TableSpectrum(margin=5))
    with pytest.raises(NotFittedError):
        sp.TableSpectrum().summary()


def test_report(planted):
    _, fit = planted
    text = fit.summary()
    for word in ("1200 tokens x 120", "outliers: 2", "held-out half", "screenot", "verdict:", "'w"):
        assert word in text
    back = json.loads(json.dumps(fit.to_dict()))
    assert back["counts"] == fit.counts_
    assert back["heldout"]["within_sampling_error"] is True
    assert len(back["eigenvalues"]) == 120


@pytest.mark.slow
def test_figure(planted, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    _, fit = planted
    figure = fit.plot()
    decay, bulk, bars = figure.axes
    assert decay.get_yscale() == "log"
    # the drawn density has mass one over the nonzero eigenvalues, and ends at the edge
    x, y = next(line for line in bulk.lines if len(line.get_xdata()) > 10).get_data()
    assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)
    assert x[-1] == pytest.approx(fit.edge_, rel=0.02)
    assert sorted(patch.get_width() for patch in bars.patches) == sorted(fit.counts_.values())
    values, k = fit.singular_values_[: fit.rank_], fit.n_outliers_
    drawn = {line.get_label(): np.asarray(line.get_ydata()) for line in decay.lines}
    np.testing.assert_array_equal(drawn["bulk"], values[k:])
    np.testing.assert_array_equal(drawn[f"outliers ({k})"], values[:k])
    assert set(drawn["bulk edge"]) == {np.sqrt(fit.shape_[0] * fit.edge_)}
    heights = np.array([patch.get_height() for patch in bulk.patches])
    widths = np.array([patch.get_width() for patch in bulk.patches])
    assert heights @ widths == pytest.approx(1), "the histogram has all of the bulk"
    figure.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_verdict_does_not_depend_on_how_many_nulls_are_drawn():
    E = np.random.default_rng(0).standard_normal((300, 40))
    found = [sp.TableSpectrum(null_draws=draws, repetitions=19).fit(E).heldout_ for draws in (0, 2)]
    assert found[0].distance == found[1].distance
    assert found[0].p_value == found[1].p_value


@pytest.mark.parametrize("repetitions", [19, 39, 99])
def test_the_limit_says_what_the_p_value_says(repetitions):
    """An interpolated quantile would let a distance beyond the limit pass at the same level."""
    from spikepool.tables.heldout import _limit

    repeated = np.random.default_rng(1).exponential(size=repetitions)
    for distance in np.concatenate([repeated, np.linspace(0, repeated.max() + 1, 400)]):
        p_value = (1 + np.sum(repeated >= distance)) / (1 + repetitions)
        assert (distance > _limit(repeated)) == (p_value <= 0.05)


def test_rows_given_four_times_are_not_trusted():
    E = np.random.default_rng(0).standard_normal((300, 60)) * np.arange(1, 61) ** -0.3
    once, four = (sp.TableSpectrum(null_draws=1).fit(np.repeat(E, times, axis=0)) for times in (1, 4))
    assert once.n_copies_ == 0
    assert "copies" not in once.verdict_
    assert not four.trusted_
    assert "900 of 1,200 rows are exact copies" in four.verdict_


def test_noise_that_the_bulk_does_not_predict_is_not_explained():
    found = sp.TableSpectrum(null_draws=1).fit(np.random.default_rng(0).standard_t(3, (1000, 80)))
    assert not found.trusted_
    assert "unequal variances explains" not in found.verdict_
