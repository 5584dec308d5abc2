"""The simulation engine against dense linear algebra on the gathered definition, its seeds and its refusals."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import spikepool as sp
from spikepool.simulation import drawn
from spikepool.simulation import simulate as simulation
from spikepool.simulation import top_pairs as solver
from spikepool.simulation.drawn import maximal_rank, sample_grid, spectrum
from spikepool.simulation.simulate import simulate, simulate_grid
from spikepool.world.sampling import draw_sample
from spikepool.world.seeds import child_seed

R = sp.prefix_correlation(T=10, L=3)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}


def model(**options):
    return sp.SequenceModel(**{"d": 150, "V": 240, "N": 300, "R": R, "mu": 1.5, **options})


def reference(sample, w, mu, k):
    """Gather, pool, form S, decompose."""
    m = sample.model
    E = sample.noise.T.astype(np.float64)
    C = np.einsum("dnt,nt->dn", E[:, sample.tokens], np.broadcast_to(w, sample.tokens.shape))
    C += mu * np.outer(sample.direction, np.sum(sample.latent * w, axis=1))
    if m.centered:
        C -= C.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(C @ C.T / m.N)
    return values[::-1][:k], (sample.direction @ vectors[:, ::-1][:, :k]) ** 2


MODELS = {
    "plain": {},
    "uncentered": {"centered": False},
    "class-centred": {"table": "class_centered"},
    "gaussian-latent": {"latent": "gaussian"},
    "fewer-sequences-than-dimensions": {"N": 110},
    "fewer-tokens-than-dimensions": {"V": 120},
    "tiny": {"d": 20, "V": 30, "N": 25},
    "tiny-N": {"d": 200, "V": 300, "N": 7},
    "tiny-V": {"d": 200, "V": 4, "N": 300, "R": np.eye(10)},
    "zipf": {"frequencies": 1 / np.arange(1, 241)},
    "anisotropic": {"covariance": np.linspace(0.0, 3.0, 150)},
    "heavy-tails": {"noise": "student-t", "noise_df": 4.5},
}


class TestAgainstDense:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", MODELS)
    def test_every_mu_and_weights(self, name):
        m = model(**MODELS[name])
        k = min(2, maximal_rank(m))
        mus = np.array([0.0, 1e-7, 0.2, 0.7, 1.0, 1.4, 2.5, 20.0])
        sample = draw_sample(m, rng=5)
        values, alignments = sample_grid(sample, WEIGHTS, mus, k)
        for i, w in enumerate(WEIGHTS.values()):
            for j, mu in enumerate(mus):
                expected, aligned = reference(sample, w, mu, k)
                np.testing.assert_allclose(values[i, j], expected, rtol=1e-7)
                np.testing.assert_allclose(alignments[i, j], aligned, atol=1e-6)
                # one mu takes another route: the Krylov space of S itself
                alone = sample_grid(sample, [w], [mu], k)
                np.testing.assert_allclose(alone[0][0, 0], expected, rtol=1e-7)
                np.testing.assert_allclose(alone[1][0, 0], aligned, atol=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("centered", [True, False])
    def test_no_draw_converges_to_the_wrong_pair(self, centered):
        """Many draws near the threshold, where the top pair is close and a Krylov space is most easily misled."""
        m = model(d=100, V=160, N=200, centered=centered, mu=1.1)
        worst = 0.0
        for seed in range(60):
            sample = draw_sample(m, rng=seed)
            grid = sample_grid(sample, [WEIGHTS["mean"]], [0.9, 1.1], 2)
            alone = sample_grid(sample, [WEIGHTS["mean"]], [1.1], 1)
            expected, aligned = reference(sample, WEIGHTS["mean"], 1.1, 2)
            worst = max(
                worst,
                np.abs(grid[0][0, 1] / expected - 1).max(),
                np.abs(grid[1][0, 1] - aligned).max(),
                abs(alone[0].item() / expected[0] - 1),
                abs(alone[1].item() - aligned[0]),
            )
        assert worst < 1e-6

    def test_many_eigenpairs(self):
        sample = draw_sample(model(), rng=0)
        values, alignments = sample_grid(sample, [WEIGHTS["causal"]], [1.5], 12)
        expected, aligned = reference(sample, WEIGHTS["causal"], 1.5, 12)
        np.testing.assert_allclose(values[0, 0], expected, rtol=1e-7)
        np.testing.assert_allclose(alignments[0, 0], aligned, atol=1e-6)

    def test_whole_spectrum_as_pairs(self):
        m = model(d=90, V=120, N=100)
        sample = draw_sample(m, rng=0)
        values, alignments = sample_grid(sample, [WEIGHTS["causal"]], [0.5, 1.5], 90)
        expected, aligned = reference(sample, WEIGHTS["causal"], 1.5, 90)
        np.testing.assert_allclose(values[0, 1], expected, atol=1e-9 * expected[0])
        np.testing.assert_allclose(alignments[0, 1], aligned, atol=1e-6)
        assert alignments[0].sum(axis=1) == pytest.approx([1.0, 1.0])

    def test_attention_forward_pass(self):
        m = model()

        def attention(sample):
            return sample.attention_weights(tau=1.0)

        result = simulate(m, attention, trials=2, k=2, rng=4)
        for i in range(2):
            sample = draw_sample(m, rng=child_seed(np.random.SeedSequence(4), i))
            X = sample.table.T[sample.tokens]
            expected, aligned = reference(sample, sp.attention_weights(X, 1.0, "sqrt_d"), m.mu, 2)
            np.testing.assert_allclose(result.eigenvalues[i], expected, rtol=1e-7)
            np.testing.assert_allclose(result.alignments[i], aligned, atol=1e-6)
        fixed = sample_grid(sample, [attention(sample)], [m.mu, 0.3], 2)
        np.testing.assert_allclose(fixed[0][0, 0], result.eigenvalues[1], rtol=1e-7)

    def test_single_precision(self):
        exact = simulate(model(), WEIGHTS["causal"], trials=3, rng=0, table_drawn=True)
        rounded = simulate(model(), WEIGHTS["causal"], trials=3, rng=0, table_drawn=True, dtype=np.float32)
        np.testing.assert_allclose(rounded.eigenvalues, exact.eigenvalues, rtol=1e-5)
        np.testing.assert_allclose(rounded.alignments, exact.alignments, atol=1e-4)

    @pytest.mark.parametrize("options", [{}, {"N": 100}, {"centered": False}, {"latent": "gaussian"}])
    def test_spectrum(self, options):
        m = model(**options)
        values = spectrum(m, WEIGHTS["causal"], rng=3)
        sample = draw_sample(m, rng=child_seed(np.random.SeedSequence(3), 0))
        expected, _ = reference(sample, WEIGHTS["causal"], m.mu, m.d)
        np.testing.assert_allclose(values, expected[::-1], atol=1e-11)
        top = simulate(m, WEIGHTS["causal"], trials=1, k=2, rng=3, table_drawn=True)
        np.testing.assert_allclose(values[::-1][:2], top.eigenvalues[0], rtol=1e-7)
        assert values.shape == (m.d,)
        assert np.all(np.diff(values) >= 0)

    def test_dense_answers_when_the_krylov_space_does_not(self, monkeypatch):
        sample = draw_sample(model(), rng=0)
        usual = sample_grid(sample, [WEIGHTS["mean"]], [0.5, 1.5], 2)
        monkeypatch.setattr(solver, "KRYLOV_LIMIT", 8)
        dense = sample_grid(sample, [WEIGHTS["mean"]], [0.5, 1.5], 2)
        np.testing.assert_allclose(usual[0], dense[0], rtol=1e-7)
        np.testing.assert_allclose(usual[1], dense[1], atol=1e-6)
        monkeypatch.setattr(solver, "DENSE_LIMIT", 10)
        with pytest.raises(sp.ConvergenceError, match="Lower k"):
            sample_grid(sample, [WEIGHTS["mean"]], [0.5], 2)

    @pytest.mark.parametrize("drawn", [True, None])
    def test_no_noise_at_all(self, drawn):
        """A spectrum of one eigenvalue: the Krylov space is invariant at once."""
        m = model(covariance=np.zeros(150), mu=2.0)
        result = simulate(m, WEIGHTS["mean"], trials=1, k=2, rng=0, table_drawn=drawn)
        sample = draw_sample(m, rng=child_seed(np.random.SeedSequence(0), 0))
        assert result.eigenvalues[0, 0] == pytest.approx(4 * np.var(sample.gain(WEIGHTS["mean"])))
        assert result.eigenvalues[0, 1] == pytest.approx(0.0, abs=1e-12)
        assert result.alignments[0, 0] == pytest.approx(1.0)


class TestSeeds:
    @pytest.mark.parametrize("drawn", [True, None])
    def test_a_trial_does_not_depend_on_the_number_of_trials(self, drawn):
        few, many = (simulate(model(), WEIGHTS["mean"], trials=n, rng=9, table_drawn=drawn) for n in (2, 4))
        np.testing.assert_array_equal(few.eigenvalues, many.eigenvalues[:2])
        np.testing.assert_array_equal(few.alignments, many.alignments[:2])

    def test_shapes_and_names(self):
        result = model().simulate(WEIGHTS["mean"], trials=3, k=4, rng=0)
        assert result.eigenvalues.shape == result.alignments.shape == (3, 4)
        np.testing.assert_array_equal(result.alignment, result.alignments[:, 0])
        np.testing.assert_array_equal(result.eigenvalue, result.eigenvalues[:, 0])
        assert np.all(np.diff(result.eigenvalues, axis=1) <= 0)

    def test_grid_is_simulate_at_each_mu(self):
        grid = simulate_grid(model(), WEIGHTS, [0.6, 1.5], trials=2, k=2, rng=1, table_drawn=True)
        assert grid.names == ("mean", "causal", "optimal")
        for i, w in enumerate(WEIGHTS.values()):
            for j, mu in enumerate(grid.mus):
                alone = simulate(model(mu=mu), w, trials=2, k=2, rng=1, table_drawn=True)
                np.testing.assert_allclose(grid.eigenvalues[i, j], alone.eigenvalues, rtol=1e-7)
                np.testing.assert_allclose(grid.alignments[i, j], alone.alignments, atol=1e-6)

    @pytest.mark.slow
    def test_number_of_threads_does_not_change_a_bit(self):
        code = textwrap.dedent(
            """
            import numpy as np, spikepool as sp
            from spikepool.world import pooling_matrix
            pooling_matrix._PANEL_ELEMENTS = 1 << 12
            from spikepool.simulation import row_stack
            row_stack._PANEL_COLUMNS = 1 << 11
            from spikepool.simulation import drawn, simulate as simulation
            simulation._THREADED_SIZE = 1 << 12
            R = sp.prefix_correlation(T=10, L=3)
            m = sp.SequenceModel(d=400, V=12000, N=900, R=R, mu=1.5)
            for options in ({"table_drawn": True}, {}, {"k": 1}):
                s = simulation.simulate(m, sp.causal_weights(10), trials=1, rng=0, **options)
                print(s.eigenvalues.tobytes().hex(), s.alignments.tobytes().hex())
            print(drawn.spectrum(m.replace(V=600), sp.causal_weights(10), rng=0).tobytes().hex()[-64:])
            """
        )
        printed = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for threads in ("1", "2", "3")
        }
        assert len(printed) == 1


class TestRefusals:
    """Every refusal comes before anything is drawn."""

    @pytest.fixture(autouse=True)
    def _nothing_is_drawn(self, monkeypatch):
        def drawing(*arguments, **options):
            pytest.fail("work had started")

        monkeypatch.setattr(simulation, "draw_sample", drawing)
        monkeypatch.setattr(drawn, "draw_sample", drawing)
        monkeypatch.setattr(simulation.UndrawnSource, "draw", drawing)

    @pytest.mark.parametrize("trials", [0, -3, 1.5, True])
    def test_trials(self, trials):
        with pytest.raises(sp.SizeError, match="trials"):
            simulate(model(), WEIGHTS["mean"], trials=trials)

    @pytest.mark.parametrize("k", [0, 151, 2.5])
    def test_k(self, k):
        with pytest.raises(sp.SizeError, match="k must be"):
            simulate(model(), WEIGHTS["mean"], k=k)

    @pytest.mark.parametrize(("options", "rank"), [({"N": 5}, 4), ({"N": 5, "centered": False}, 5), ({"V": 8}, 7)])
    def test_k_above_the_rank(self, options, rank):
        assert maximal_rank(model(**options)) == rank
        with pytest.raises(sp.SizeError, match=f"at most {rank}"):
            simulate(model(**options), WEIGHTS["mean"], k=rank + 1)

    @pytest.mark.parametrize(
        "w", [np.ones(9) / 9, np.ones(10), np.full((300, 9), 1 / 9), np.ones((300, 10)), np.ones((2, 2, 2))]
    )
    def test_weights(self, w):
        for run in (simulate, spectrum):
            with pytest.raises((sp.WeightsError, sp.ShapeError)):
                run(model(), w)

    @pytest.mark.parametrize("mus", [[], [-1.0], [np.nan], [[1.0]]])
    def test_mus(self, mus):
        with pytest.raises(sp.InvalidInputError):
            simulate_grid(model(), WEIGHTS, mus)

    def test_no_weights(self):
        with pytest.raises(sp.SizeError, match="at least one"):
            simulate_grid(model(), {}, [1.0])

    def test_seed(self):
        with pytest.raises(sp.InvalidInputError, match="rng"):
            simulate(model(), WEIGHTS["mean"], rng="today")

    def test_memory(self):
        huge = model(d=100_000, V=10_000_000)
        with pytest.raises(sp.MemoryBudgetError, match=r"needs about 7\.\d+e\+03 GiB.*Lower V or d.*float32"):
            simulate(huge, WEIGHTS["mean"], table_drawn=True)
        # a whole spectrum needs a d x d matrix beside the sample
        wide = model(d=1_000_000, V=2, N=2_000_000)
        with pytest.raises(sp.MemoryBudgetError):
            spectrum(wide, WEIGHTS["mean"])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_interrupt_stops_at_once():
    code = textwrap.dedent(
        """
        import numpy as np, spikepool as sp
        R = sp.prefix_correlation(T=10, L=3)
        m = sp.SequenceModel(d=1500, V=4000, N=3000, R=R, mu=1.5)
        print("started", flush=True)
        m.simulate(sp.mean_weights(10), trials=10_000, rng=0)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert errors.strip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in errors


def test_progress_counts_the_trials(monkeypatch, capsys):
    counted = []

    class Recorder(simulation.Progress):
        def __init__(self, total, description, *, show=None):
            counted.append((total, description, show))
            super().__init__(total, description, show=False)

        def advance(self, steps=1):
            counted.append(steps)

    monkeypatch.setattr(simulation, "Progress", Recorder)
    simulate(model(), WEIGHTS["mean"], trials=2, rng=0, progress=True)
    assert counted == [(2, "simulating", True), 1, 1]
    monkeypatch.undo()
    simulate(model(), WEIGHTS["mean"], trials=2, rng=0)  # not a terminal: silent
    assert capsys.readouterr().err == ""


def test_worlds_of_almost_nothing():
    # two tokens, three sequences: repeated tokens leave fewer directions than eigenvalues asked for
    model = sp.SequenceModel(5, 2, 3, np.eye(1), 1.0, latent="gaussian")
    result = model.simulate([1.0], trials=6, k=2, rng=0)
    assert np.isfinite(result.eigenvalues).all()
    assert (result.eigenvalues >= 0).all()
    assert ((result.alignments >= 0) & (result.alignments <= 1 + 1e-12)).all()
    flat = sp.SequenceModel(1, 2, 2, np.eye(1), 1.0).simulate([1.0], trials=3, k=1, rng=0)
    assert np.isfinite(flat.eigenvalues).all()


def test_tokens_that_do_not_fit_are_refused_before_any_draw():
    with pytest.raises(sp.MemoryBudgetError):
        sp.SequenceModel(5, 20, 10**12, np.eye(1), 1.0).predict([1.0], exact=True, rng=0)
    with pytest.raises(sp.SizeError):
        sp.SequenceModel(5, 2 * 10**13, 10, np.eye(1), 1.0).predict([1.0], exact=True, rng=0)
    with pytest.raises(sp.MemoryBudgetError):
        sp.zipf_frequencies(10**14, 1.0)
