"""Draws: what each field of the model does to them, and that seeds mean the same thing everywhere."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.kit import memory as _memory
from spikepool.world import sampling
from spikepool.world import tokens as tokens_module
from spikepool.world.sampling import draw_noise, draw_sample
from spikepool.world.tokens import draw_tokens

R = sp.prefix_correlation(T=6, L=3)


def model(**options):
    return sp.SequenceModel(**{"d": 30, "V": 50, "N": 40, "R": R, "mu": 1.5, **options})


def twins():
    return np.random.PCG64(1), np.random.Generator(np.random.PCG64(1))


class TestSeeds:
    def test_same_seed_same_draw(self):
        first, second = draw_sample(model(), rng=3), draw_sample(model(), rng=3)
        for name in ("direction", "noise", "tokens", "latent"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))

    def test_int_and_seed_sequence_agree(self):
        a, b = draw_sample(model(), rng=3), draw_sample(model(), rng=np.random.SeedSequence(3))
        np.testing.assert_array_equal(a.noise, b.noise)

    def test_a_seed_sequence_is_not_consumed(self):
        root = np.random.SeedSequence(5)
        a, b = draw_sample(model(), rng=root), draw_sample(model(), rng=root)
        np.testing.assert_array_equal(a.tokens, b.tokens)

    def test_a_generator_advances(self):
        generator = np.random.default_rng(3)
        a, b = draw_sample(model(), rng=generator), draw_sample(model(), rng=generator)
        assert not np.array_equal(a.noise, b.noise)
        again = draw_sample(model(), rng=np.random.default_rng(3))
        np.testing.assert_array_equal(a.noise, again.noise)

    @pytest.mark.parametrize("make", [np.random.PCG64, np.random.MT19937, np.random.RandomState])
    def test_bit_generators_are_taken_and_advance(self, make):
        stream = make(1)
        a, b = draw_sample(model(), rng=stream), draw_sample(model(), rng=stream)
        assert not np.array_equal(a.noise, b.noise)
        again = draw_sample(model(), rng=make(1))
        for name in ("direction", "noise", "tokens", "latent"):
            np.testing.assert_array_equal(getattr(a, name), getattr(again, name))

    def test_a_bit_generator_draws_what_its_generator_draws(self):
        a, b = (model().simulate(np.full(6, 1 / 6), trials=2, rng=stream) for stream in twins())
        np.testing.assert_array_equal(a.alignment, b.alignment)
        law = sp.MarchenkoPastur(0.5)
        np.testing.assert_array_equal(*(law.rvs(3, rng=stream) for stream in twins()))

    def test_signal_does_not_touch_the_noise_nor_noise_the_tokens(self):
        base = draw_sample(model(), rng=3)
        np.testing.assert_array_equal(base.noise, draw_sample(model(mu=0.0), rng=3).noise)
        other = draw_sample(model(d=77, noise="laplace"), rng=3)
        np.testing.assert_array_equal(base.tokens, other.tokens)
        tokens, latent = draw_tokens(model(), 3)
        np.testing.assert_array_equal(base.tokens, tokens)
        np.testing.assert_array_equal(base.latent, latent)

    def test_single_precision_rounds_the_same_table(self):
        exact, rounded = (draw_noise(model(), 3, dtype) for dtype in (np.float64, np.float32))
        assert rounded.dtype == np.float32
        np.testing.assert_array_equal(exact.astype(np.float32), rounded)

    def test_threads_do_not_change_the_table(self, monkeypatch):
        monkeypatch.setattr(tokens_module, "_BLOCK_ELEMENTS", 300)
        monkeypatch.setattr(sampling, "thread_count", lambda: 1)
        alone = draw_noise(model(), 3)
        monkeypatch.setattr(sampling, "thread_count", lambda: 4)
        np.testing.assert_array_equal(alone, draw_noise(model(), 3))

    def test_global_state_is_not_touched(self):
        before = np.random.get_state()[1].copy()  # noqa: NPY002  the legacy state is what must not change
        draw_sample(model(), rng=0)
        np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


class TestTokens:
    def test_class_of_each_token_is_the_latent_sign(self):
        s = draw_sample(model(), rng=0)
        assert s.tokens.dtype == np.int32
        np.testing.assert_array_equal(s.signs[s.tokens], s.latent)
        assert s.tokens.min() >= 0
        assert s.tokens.max() < 50

    def test_correlation_of_the_latents(self):
        n = 20_000
        _, latent = draw_tokens(model(N=n), 0)
        found = latent.T.astype(float) @ latent / n
        assert np.abs(found - R).max() < 5 / np.sqrt(n)
        np.testing.assert_array_equal(latent[:, 0], latent[:, 2])

    def test_gaussian_latents(self):
        spiked = sp.spiked_correlation(6, 3.0, 4)
        n = 40_000
        tokens, latent = draw_tokens(model(N=n, R=spiked, latent="gaussian"), 0)
        found = latent.T @ latent / n
        # the variance of a product of N(0, R) entries is R_ii R_jj + R_ij², at most 2 max(R)²
        assert np.abs(found - spiked).max() < 5 * np.sqrt(2) * spiked.max() / np.sqrt(n)
        parity = np.where(tokens % 2 == 0, 1.0, -1.0)
        assert abs(np.mean(parity * latent)) < 5 * np.sqrt(spiked.max() / (6 * n))

    def test_frequencies_hold_within_each_class(self):
        weights = 1.0 / np.arange(1, 51)
        m = model(N=30_000, frequencies=weights)
        tokens, latent = draw_tokens(m, 0)
        counts = np.bincount(tokens.ravel(), minlength=50)
        for sign in (0, 1):
            expected = weights[sign::2] / weights[sign::2].sum() * np.sum(latent == (1 - 2 * sign))
            assert np.abs((counts[sign::2] - expected) / np.sqrt(expected)).max() < 5
        np.testing.assert_array_equal(m.signs[tokens], latent)

    def test_a_token_of_zero_frequency_is_never_drawn(self):
        frequencies = np.ones(50)
        frequencies[[0, 17, 48, 49]] = 0
        for options in ({}, {"latent": "gaussian"}):
            tokens, _ = draw_tokens(model(N=5000, frequencies=frequencies, **options), 0)
            assert not np.isin(tokens, [0, 17, 48, 49]).any()


class TestNoise:
    @pytest.mark.parametrize("law", ["gaussian", "rademacher", "uniform", "laplace", "student-t"])
    def test_unit_variance(self, law):
        noise = draw_noise(model(d=200, V=1000, noise=law, noise_df=10.0), 0)
        n = noise.size
        kurtosis = {"gaussian": 3, "rademacher": 1, "uniform": 1.8, "laplace": 6, "student-t": 4}[law]
        assert abs(noise.mean()) < 5 / np.sqrt(n)
        # rademacher has no variance of its square: exact
        assert abs(np.mean(noise**2) - 1) <= 5 * np.sqrt((kurtosis - 1) / n) + 1e-12
        assert abs(np.mean(noise**4) - kurtosis) < 0.1 * kurtosis

    @pytest.mark.parametrize("diagonal", [True, False])
    def test_covariance(self, diagonal):
        d = 12
        A = np.linspace(0.2, 3.0, d) if diagonal else 0.6 ** np.abs(np.subtract.outer(range(d), range(d)))
        noise = draw_noise(model(d=d, V=60_000, covariance=A), 0)
        target = np.diag(A) if diagonal else A
        assert np.abs(noise.T @ noise / 60_000 - target).max() < 5 * np.sqrt(2) * target.max() / np.sqrt(60_000)

    def test_class_centred_tables_have_no_class_means(self):
        noise = draw_noise(model(table="class_centered"), 0)
        assert np.abs(noise[0::2].mean(axis=0)).max() < 1e-15
        assert np.abs(noise[1::2].mean(axis=0)).max() < 1e-15
        free = draw_noise(model(), 0)
        np.testing.assert_allclose(noise[0::2], free[0::2] - free[0::2].mean(axis=0), atol=1e-14)

    def test_direction_is_kept_or_drawn(self):
        given = np.arange(1.0, 31.0)
        s = draw_sample(model(direction=given), rng=0)
        np.testing.assert_allclose(s.direction, given / np.linalg.norm(given))
        assert np.linalg.norm(draw_sample(model(), rng=0).direction) == pytest.approx(1.0)


class TestSample:
    def test_table_and_pooled_follow_the_definition(self):
        s = draw_sample(model(), rng=0)
        table = 1.5 * np.outer(s.direction, s.signs) + s.noise.T
        np.testing.assert_allclose(s.table, table, atol=1e-14)
        w = sp.causal_weights(6)
        np.testing.assert_allclose(s.pooled(w), table[:, s.tokens] @ w, atol=1e-13)
        np.testing.assert_allclose(s.gain(w), s.latent @ w, atol=1e-14)

    def test_pooled_with_gaussian_latents(self):
        s = draw_sample(model(latent="gaussian"), rng=0)
        np.testing.assert_array_equal(s.table, s.noise.T)
        w = sp.causal_weights(6)
        expected = s.noise.T[:, s.tokens] @ w + 1.5 * np.outer(s.direction, s.latent @ w)
        np.testing.assert_allclose(s.pooled(w), expected, atol=1e-13)

    def test_attention_weights_are_those_of_the_gathered_sequences(self, monkeypatch):
        monkeypatch.setattr(tokens_module, "_BLOCK_ELEMENTS", 1000)  # several blocks
        s = draw_sample(model(), rng=0)
        X = s.table.T[s.tokens]
        np.testing.assert_allclose(
            s.attention_weights(1.3, "sqrt_d"), sp.attention_weights(X, 1.3, "sqrt_d"), atol=1e-13
        )

    def test_per_sequence_weights(self):
        s = draw_sample(model(), rng=0)
        w = s.attention_weights()
        expected = np.einsum("dnt,nt->dn", s.table[:, s.tokens], w)
        np.testing.assert_allclose(s.pooled(w), expected, atol=1e-13)
        np.testing.assert_allclose(s.gain(w), np.sum(w * s.latent, axis=1), atol=1e-13)


class TestRefusals:
    @pytest.mark.parametrize("rng", ["seed", -1, 1.5, {}, np.random.PCG64])
    def test_seeds(self, rng):
        with pytest.raises(sp.InvalidInputError, match="rng must be"):
            draw_sample(model(), rng=rng)

    @pytest.mark.parametrize("dtype", ["float16", int, "nonsense"])
    def test_dtypes(self, dtype):
        with pytest.raises(sp.InvalidInputError, match="float32 or float64"):
            draw_sample(model(), rng=0, dtype=dtype)

    def test_memory(self):
        with pytest.raises(sp.MemoryBudgetError, match=r"needs about .* GiB .* Lower V or d"):
            draw_sample(model(d=10**6, V=10**7), rng=0)

    def test_memory_is_measured_against_what_is_available(self, monkeypatch):
        larger = model(d=300, V=500)  # 1.2 MB; what needs less than a mebibyte is not asked about
        monkeypatch.setattr(_memory, "available_bytes", lambda: 10_000)
        with pytest.raises(sp.MemoryBudgetError, match=r"9\.31e-06 GiB are available"):
            draw_sample(larger, rng=0)
        assert draw_sample(model(), rng=0).noise.shape == (50, 30)
        monkeypatch.setattr(_memory, "available_bytes", lambda: None)  # a system that does not say
        assert draw_sample(larger, rng=0).noise.shape == (500, 300)

    def test_available_memory_is_plausible(self):
        available = _memory.available_bytes()
        assert available is None or 2**20 < available < 2**50

    @pytest.mark.parametrize(
        ("w", "error"),
        [
            (np.ones(5) / 5, sp.WeightsError),
            (np.ones(6), sp.WeightsError),
            (np.full((40, 5), 0.2), sp.WeightsError),
            (np.ones((40, 6)), sp.WeightsError),
            ([np.nan] * 6, sp.NonFiniteError),
        ],
    )
    def test_weights(self, w, error):
        with pytest.raises(error):
            draw_sample(model(), rng=0).pooled(w)
