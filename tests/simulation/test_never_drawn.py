"""The table that is never drawn, proved on a computer: complete it after a run, test its entries, decompose it densely.

The dense side is written from the definition and shares nothing with the Krylov spaces it checks.
"""

import numpy as np
import pytest
from scipy import stats

import spikepool as sp
from spikepool.simulation.lazy_gaussian import LazyGaussian, RotatedTable
from spikepool.simulation.simulate import simulate_draw
from spikepool.simulation.top_pairs import top_pairs, top_pairs_together
from spikepool.simulation.undrawn import UndrawnNoise, UndrawnSource, apply_together

R = sp.prefix_correlation(T=10, L=3)
MUS = np.array([0.0, 1.0, 1.6, 4.0])
rng = np.random.default_rng(0)
PER_SEQUENCE = rng.dirichlet(np.ones(10), size=300)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
DENSE_ROOT = rng.standard_normal((150, 150)) / 12
CASES = {
    "sampled": {},
    "uncentered": {"centered": False},
    "class-centred": {"table": "class_centered"},
    "class-centred-uncentred": {"table": "class_centered", "centered": False},
    "gaussian-latent": {"latent": "gaussian"},
    "gaussian-latent-uncentred": {"latent": "gaussian", "centered": False},
    "frequencies": {"frequencies": 1 / np.arange(1, 241)},
    "covariance": {"covariance": np.linspace(0.1, 3.0, 150)},
    "dense-covariance": {"covariance": DENSE_ROOT @ DENSE_ROOT.T, "direction": np.eye(150)[3]},
    "covariance-class-centred": {"covariance": np.linspace(0.1, 3.0, 150), "table": "class_centered"},
    "direction": {"direction": np.arange(1.0, 151.0)},
    "fewer-sequences-than-dimensions": {"N": 110},
    "fewer-tokens-than-dimensions": {"V": 120},
    "markov": {"R": sp.markov_correlation(10, 0.8)},
}


def model(**options):
    return sp.SequenceModel(**{"d": 150, "V": 240, "N": 300, "R": R, "mu": 1.6, **options})


def dense_top(sample, w, mus, k):
    """From the definition, for each mu: pool the gathered columns, form S, decompose."""
    m = sample.model
    C = np.zeros((m.d, m.N))
    for t in range(m.T):
        C += np.broadcast_to(w, sample.tokens.shape)[:, t] * sample.noise.T[:, sample.tokens[:, t]]
    gains = np.sum(sample.latent * w, axis=1)
    values, alignments = [], []
    for mu in mus:
        X = C + mu * np.outer(sample.direction, gains)
        if m.centered:
            X -= X.mean(axis=1, keepdims=True)
        found, vectors = np.linalg.eigh(X @ X.T / m.N)
        values.append(found[::-1][:k])
        alignments.append((sample.direction @ vectors[:, ::-1][:, :k]) ** 2)
    return np.array(values), np.array(alignments)


def together(draw, weights):
    """Top two pairs for every mu, of all weights step by step together, as a simulation does it."""
    return top_pairs_together([UndrawnNoise(draw, w) for w in weights.values()], MUS, 2, apply_together)


def assert_standard_normal(entries):
    """Moments, correlations of neighbours and the whole law of what should be independent N(0, 1)."""
    n = entries.size
    assert abs(entries.mean()) < 4 / np.sqrt(n)
    assert abs((entries**2).mean() - 1) < 4 * np.sqrt(2 / n)
    assert abs((entries**4).mean() - 3) < 4 * np.sqrt(96 / n)
    for lagged in (entries[1:] * entries[:-1], entries[:, 1:] * entries[:, :-1]):
        assert abs(lagged.mean()) < 4 / np.sqrt(lagged.size)
    assert stats.kstest(entries.ravel(), "norm").pvalue > 1e-3


class TestCompletion:
    @pytest.mark.parametrize("name", CASES)
    def test_dense_decomposition_of_the_completed_table(self, name):
        """Every weighting and every mu of one draw is that of one and the same table."""
        m = model(**CASES[name])
        weights = dict(WEIGHTS)
        if m.N == 300:
            weights["per-sequence"] = PER_SEQUENCE
        draw = UndrawnSource(m).draw(np.random.SeedSequence(3))
        found = together(draw, weights)
        alone = top_pairs(UndrawnNoise(draw, WEIGHTS["causal"]), MUS[2:3], 1)
        sample = draw.sample()
        for w, (values, alignments) in zip(weights.values(), found, strict=True):
            expected, aligned = dense_top(sample, w, MUS, 2)
            np.testing.assert_allclose(values, expected, rtol=1e-9)
            np.testing.assert_allclose(alignments, aligned, atol=1e-9)
        expected, aligned = dense_top(sample, WEIGHTS["causal"], MUS[2:3], 1)
        np.testing.assert_allclose(alone[0], expected, rtol=1e-9)
        np.testing.assert_allclose(alone[1], aligned, atol=1e-9)

    @pytest.mark.parametrize("name", CASES)
    def test_entries_are_independent_and_normal(self, name):
        """After a run that chose its products by what it saw; class means and covariance taken out again."""
        m = model(**{**CASES[name], "table": "sampled"})
        draw = UndrawnSource(m).draw(np.random.SeedSequence(11))
        together(draw, WEIGHTS)
        noise = draw.sample().noise
        if (
            m.covariance is None
        ):  # in axes that the products chose; rotate them to axes that do not depend on the products
            noise = draw.table._Z.turned(np.eye(1, m.d))
            assert np.linalg.norm(draw.sample().noise[:, 0] - noise[:, 0]) < 1e-9
        else:
            values, vectors = np.linalg.eigh(np.diag(m.covariance) if m.covariance.ndim == 1 else m.covariance)
            noise = noise @ (vectors / np.sqrt(values)) @ vectors.T
        assert_standard_normal(noise)

    def test_one_weighting_after_the_other_sees_one_table_too(self):
        m = model()
        draw = UndrawnSource(m).draw(np.random.SeedSequence(5))
        found = [top_pairs(UndrawnNoise(draw, w), MUS, 2) for w in WEIGHTS.values()]
        again = together(draw, WEIGHTS)
        sample = draw.sample()
        for w, one, other in zip(WEIGHTS.values(), found, again, strict=True):
            expected, aligned = dense_top(sample, w, MUS, 2)
            for values, alignments in (one, other):
                np.testing.assert_allclose(values, expected, rtol=1e-9)
                np.testing.assert_allclose(alignments, aligned, atol=1e-9)

    @pytest.mark.slow
    def test_the_singular_values_are_those_of_a_gaussian_matrix(self):
        """Moments of the whole spectrum, over draws: what entries one by one would not show."""
        m = model(d=100, V=160, N=200)
        powers = []
        for seed in range(40):
            draw = UndrawnSource(m).draw(np.random.SeedSequence(seed))
            top_pairs(UndrawnNoise(draw, WEIGHTS["causal"]), MUS, 2)
            noise = draw.sample().noise
            G = noise.T @ noise / 160
            powers.append([np.trace(G) / 100, np.trace(G @ G) / 100, np.trace(G @ G @ G) / 100])
        d, V = 100, 160
        # exact moments of a Wishart matrix
        expected = [1, (d + V + 1) / V, (d**2 + V**2 + 3 * d * V + 3 * d + 3 * V + 4) / V**2]
        error = np.std(powers, axis=0, ddof=1) / np.sqrt(len(powers))
        assert np.all(np.abs(np.mean(powers, axis=0) - expected) < 4 * error)

    @pytest.mark.parametrize("centered", [True, False])
    @pytest.mark.parametrize("table", ["sampled", "class_centered"])
    def test_classes(self, table, centered, monkeypatch):
        from spikepool.simulation import classes

        kept = []
        top = classes._UndrawnClasses.top
        monkeypatch.setattr(
            classes._UndrawnClasses,
            "top",
            lambda self, directions, k: kept.append((self, top(self, directions, k))) or kept[-1][1],
        )
        means = np.array([[3.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 2.5, 1.0]])
        world = sp.ClassModel(
            150, 240, 300, sp.markov_correlation(10, 0.7), means, [0.4, 0.3, 0.2, 0.1], table=table, centered=centered
        )
        result = world.simulate(WEIGHTS["mean"], trials=2, rng=0)
        assert not result.table_drawn
        for trial, (draw, _) in enumerate(kept):
            noise = draw.table.to_dense()
            if table == "sampled":
                assert_standard_normal(draw.table._Z.turned(np.eye(3, 150)))
            axes = draw._means
            E = noise.copy()
            E[:, :3] += axes.T[np.repeat(np.arange(4), world.class_sizes())]
            C = np.stack([E[block.indices].reshape(-1, 10, 150).mean(axis=1) for block in draw.pooling._blocks])[0]
            if centered:
                C = C - C.mean(axis=0)
            values, vectors = np.linalg.eigh(C.T @ C / 300)
            np.testing.assert_allclose(result.eigenvalues[trial], values[::-1][:4], rtol=1e-9)
            # squared projection on the span of the class differences, in whichever coordinates
            q, _ = np.linalg.qr((axes - axes[:, :1])[:, 1:])
            inside = np.sum((vectors[:3, ::-1][:, :4].T @ q) ** 2, axis=1)
            np.testing.assert_allclose(result.alignments[trial], inside, atol=1e-9)


class TestProducts:
    def test_both_sides_agree_with_the_completed_matrix(self):
        lazy = LazyGaussian(30, 50, np.random.default_rng(1))
        asked = np.random.default_rng(2)
        right, left = [], []
        for i in range(6):
            v, x = asked.standard_normal((1 + i % 3, 50)), asked.standard_normal((1 + i % 2, 30))
            right.append((v, lazy.forward(v)))
            left.append((x, lazy.adjoint(x + right[-1][1][:1])))
            left[-1] = (x + right[-1][1][:1], left[-1][1])
        again = right[0][0] @ np.eye(50)
        np.testing.assert_allclose(lazy.forward(again), right[0][1], atol=1e-12)
        Z = lazy.to_dense().T
        for v, image in right:
            np.testing.assert_allclose(image, v @ Z.T, atol=1e-11)
        for x, image in left:
            np.testing.assert_allclose(image, x @ Z, atol=1e-11)
        v = asked.standard_normal((2, 50))
        np.testing.assert_allclose(lazy.forward(v), v @ Z.T)

    @pytest.mark.parametrize(("d", "V"), [(5, 40), (40, 5), (6, 6), (1, 3), (3, 1)])
    def test_more_products_than_dimensions(self, d, V):
        """All entries get drawn, and dependent vectors need no further draws."""
        asked = np.random.default_rng(3)
        lazy, rotated = LazyGaussian(d, V, np.random.default_rng(1)), RotatedTable(d, V, np.random.default_rng(1))
        rotated.new_axis()
        right = []
        for _ in range(5):
            v = asked.standard_normal((2, V))
            v = np.concatenate([v, v[:1] * 3, np.zeros((1, V))])
            lazy.adjoint(lazy.forward(v))
            image = rotated.forward(v)
            rotated.adjoint(image)
            right.append((v, lazy.forward(v), image))
        Z, turned = lazy.to_dense().T, rotated.to_dense().T
        assert turned.shape == (d, V)
        for v, image, coordinates in right:
            np.testing.assert_allclose(image, v @ Z.T, atol=1e-11)
            np.testing.assert_allclose(
                np.pad(coordinates, ((0, 0), (0, d - coordinates.shape[1]))), v @ turned.T, atol=1e-11
            )

    def test_nearly_dependent_vectors(self):
        """What is left of a vector after its probes are taken out may be tiny: the second pass keeps it orthogonal."""
        asked = np.random.default_rng(4)
        table = RotatedTable(200, 300, np.random.default_rng(1))
        v = asked.standard_normal((1, 300))
        for power in range(3, 13):
            v = v + 10.0**-power * asked.standard_normal((1, 300))
            table.forward(v)
        probes = table._probes.array()
        np.testing.assert_allclose(probes @ probes.T, np.eye(len(probes)), atol=1e-13)

    def test_the_rotated_table_has_the_law_of_the_plain_one(self):
        """Lengths and inner products of images, which no rotation changes, over draws."""
        asked = np.random.default_rng(5)
        v = asked.standard_normal((3, 20))
        gram = v @ v.T
        plain, turned = [], []
        for seed in range(400):
            lazy, rotated = (
                LazyGaussian(12, 20, np.random.default_rng(seed)),
                RotatedTable(12, 20, np.random.default_rng(seed)),
            )
            rotated.new_axis()
            for table, into in ((lazy, plain), (rotated, turned)):
                image = table.forward(v)
                second = table.forward(table.adjoint(image))
                into.append(
                    [
                        image[0] @ image[0],
                        image[0] @ image[1],
                        image[2] @ second[2][: image.shape[1]],
                        second[1] @ second[1],
                    ]
                )
        plain, turned = np.array(plain), np.array(turned)
        error = np.sqrt((plain.var(axis=0) + turned.var(axis=0)) / len(plain))
        assert np.all(np.abs(plain.mean(axis=0) - turned.mean(axis=0)) < 4 * error)
        assert abs(turned[:, 0].mean() - 12 * gram[0, 0]) < 4 * turned[:, 0].std() / 20
        np.testing.assert_allclose(turned.std(axis=0), plain.std(axis=0), rtol=0.25)


class TestRoute:
    @pytest.mark.slow
    def test_small_and_large_sizes_meet(self, monkeypatch):
        """Across the size at which a Krylov space takes over from a dense decomposition: the same law."""
        from spikepool.simulation import top_pairs as module

        m = model(d=90, V=150, N=200)
        krylov = m.simulate(WEIGHTS["causal"], trials=60, k=1, rng=0)
        monkeypatch.setattr(module, "DENSE_SIDE", 1000)
        dense = m.simulate(WEIGHTS["causal"], trials=60, k=1, rng=1)
        for name in ("eigenvalue", "alignment"):
            a, b = getattr(krylov, name), getattr(dense, name)
            assert abs(a.mean() - b.mean()) < 3.5 * np.sqrt((a.var() + b.var()) / 60)

    def test_a_krylov_space_that_stops_early_completes_the_table(self, monkeypatch):
        from spikepool.simulation import top_pairs as module

        monkeypatch.setattr(module, "KRYLOV_LIMIT", 8)
        m = model()
        draw = UndrawnSource(m).draw(np.random.SeedSequence(3))
        found = together(draw, WEIGHTS)
        sample = draw.sample()
        for w, (values, alignments) in zip(WEIGHTS.values(), found, strict=True):
            expected, aligned = dense_top(sample, w, MUS, 2)
            np.testing.assert_allclose(values, expected, rtol=1e-9)
            np.testing.assert_allclose(alignments, aligned, atol=1e-9)
        monkeypatch.setattr(module, "DENSE_LIMIT", 10)
        with pytest.raises(sp.ConvergenceError, match="Lower k"):
            m.simulate(WEIGHTS["mean"], trials=1, rng=0)

    def test_which_route(self):
        m = model(d=20, V=30, N=40)
        assert not m.simulate(WEIGHTS["mean"], trials=1, rng=0).table_drawn
        assert m.simulate(WEIGHTS["mean"], trials=1, rng=0, table_drawn=True).table_drawn
        assert m.replace(noise="laplace").simulate(WEIGHTS["mean"], trials=1, rng=0).table_drawn
        assert m.simulate(lambda s: s.attention_weights(), trials=1, rng=0).table_drawn
        with pytest.raises(sp.InvalidInputError, match="laplace"):
            m.replace(noise="laplace").simulate(WEIGHTS["mean"], table_drawn=False)
        with pytest.raises(sp.InvalidInputError, match="function of the draw"):
            m.simulate(lambda s: s.attention_weights(), table_drawn=False)
        with pytest.raises(sp.InvalidInputError, match="table_drawn"):
            m.simulate(WEIGHTS["mean"], table_drawn="no")

    def test_tokens_are_those_of_the_drawn_route(self):
        m = model()
        draw = UndrawnSource(m).draw(np.random.SeedSequence(5))
        sample = m.sample(rng=np.random.SeedSequence(5))
        np.testing.assert_array_equal(draw.tokens, sample.tokens)
        np.testing.assert_array_equal(draw.latent, sample.latent)

    def test_a_draw_is_a_trial(self):
        m = model()
        result = m.simulate(WEIGHTS["mean"], trials=2, rng=7)
        values, alignments = simulate_draw(m, [WEIGHTS["mean"]], [m.mu], rng=np.random.SeedSequence(7, spawn_key=(1,)))
        np.testing.assert_array_equal(values[0, 0], result.eigenvalues[1])
        np.testing.assert_array_equal(alignments[0, 0], result.alignments[1])
