"""Two thousand atoms, a thousand points: forty digits, edges, mass."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import spikepool as sp

BITS = 150  # 45 decimal digits after the point


class FixedPoint:
    """Sums over atoms in integers with 150 binary digits, an order of magnitude faster than mpmath.

    For y = 1/e: s = mean t/(t+y) and Q = mean t²/(t+y)². `residual` is that of x = s·y − delta·y, the equation for
    isotropic noise, with its derivative in y at double precision.
    """

    def __init__(self, t, delta):
        self.t, self.delta = t, delta
        self.whole = [int(v * 2.0**60) << (BITS - 60) for v in t]  # exact: 0 <= v < 2^-7 ulps apart
        for v, w in zip(t[:50], self.whole[:50], strict=True):
            assert mpmath.mpf(w) / mpmath.mpf(2) ** BITS == pytest.approx(mpmath.mpf(v), rel=1e-15)

    def transform(self, y):
        """s(y), for y a pair of integers."""
        real, imag = y
        square, g, h = imag * imag, 0, 0
        for v in self.whole:
            a = v + real
            k = (v << (2 * BITS)) // (a * a + square)
            h += k
            g += a * k
        n = len(self.whole)
        return (g >> BITS) // n, -(imag * h >> BITS) // n

    def solve(self, x, e):
        """Newton from `e`; returns e as a pair of mpmath numbers and the last step."""
        with mpmath.workdps(45):
            unit = mpmath.mpf(2) ** BITS
            y, X = 1 / mpmath.mpc(e), mpmath.mpf(x)
            for _ in range(8):
                s_int = self.transform((int(y.real * unit), int(y.imag * unit)))
                s = mpmath.mpc(s_int[0], s_int[1]) / unit
                small = complex(y)
                slope = complex(s) - self.delta + small * -(self.t / (self.t + small) ** 2).mean()
                step = (s * y - self.delta * y - X) / mpmath.mpc(slope)
                y -= step
                if abs(step) < mpmath.mpf("1e-35") * abs(y):
                    break
            return 1 / y, abs(step) / abs(y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smooth", "rough"])
def test_density_equals_forty_digit_newton_at_a_thousand_points(name):
    rng = np.random.default_rng(3)
    if name == "smooth":
        t, points = rng.gamma(2.0, 0.5, 2000) + 0.01, 730
    else:  # three groups, of which one is a tight cluster
        t = np.concatenate([0.5 + 0.1 * rng.random(900), 1 + 1e-7 * rng.random(100), rng.uniform(4, 9, 1000)])
        points = 300
    t = np.round(t * 2.0**45) / 2.0**45  # exact in fixed point
    delta = 0.625
    law = sp.GeneralizedLaw(sp.AtomicLaw([1.0]), sp.AtomicLaw(t), delta)
    left, right = law.support()
    x = np.sort(rng.uniform(left, right, points))
    x = x[law.pdf(x) > 0]
    assert len(x) > 0.9 * points
    e, _ = law.boundary_values(x)
    fixed = FixedPoint(t, delta)
    worst = 0.0
    for point, ours, density in zip(x, e, law.pdf(x), strict=True):
        # the start is off by a part in a thousand: the reference has to find its own way
        exact, step = fixed.solve(float(point), ours * (1 + 1e-3))
        assert step < mpmath.mpf("1e-35")
        assert exact.imag > 0  # with the residual, this makes it the only solution
        reference = float(exact.imag / (mpmath.pi * delta))  # m = e/delta
        worst = max(worst, abs(density - reference))
        assert density == pytest.approx(reference, rel=1e-9, abs=1e-12)
    print(f"{name}: largest error {worst:.1e} over {len(x)} points")


def test_fixed_point_reference_agrees_with_mpmath():
    t = np.round(np.linspace(0.1, 2, 40) * 2.0**45) / 2.0**45
    with mpmath.workdps(45):
        y = mpmath.mpc("-0.7", "-0.4")
        unit = mpmath.mpf(2) ** BITS
        s = FixedPoint(t, 0.5).transform((int(y.real * unit), int(y.imag * unit)))
        exact = mpmath.fsum(mpmath.mpf(float(v)) / (mpmath.mpf(float(v)) + y) for v in t) / len(t)
        assert abs(mpmath.mpc(*s) / unit - exact) < mpmath.mpf("1e-42")


def test_two_laws_of_two_thousand_atoms_against_mpmath():
    a, t, delta = np.linspace(0.25, 1.75, 2000), np.linspace(0.1, 3.0, 2000) ** 2, 0.5
    law = sp.GeneralizedLaw(a, t, delta)
    left, right = law.support()
    x = left + (right - left) * np.array([1e-4, 0.02, 0.4, 0.97])
    e, et = law.boundary_values(x)
    with mpmath.workdps(40):
        A, T = [mpmath.mpf(float(v)) for v in a], [mpmath.mpf(float(v)) for v in t]
        for k, point in enumerate(x):
            X = mpmath.mpf(float(point))
            ek, etk = mpmath.mpc(e[k]), mpmath.mpc(et[k])
            first = ek + mpmath.mpf(delta) * mpmath.fsum(v / (1 + etk * v) for v in A) / len(A) / X
            second = etk + mpmath.fsum(v / (1 + ek * v) for v in T) / len(T) / X
            # Newton's correction of the pair, from the residuals at forty digits
            j12 = complex(-delta * np.mean((a / (1 + et[k] * a)) ** 2) / point)
            j21 = complex(-np.mean((t / (1 + e[k] * t)) ** 2) / point)
            r1, r2 = complex(first), complex(second)
            correction = (r1 - j12 * r2) / (1 - j12 * j21)
            assert abs(correction) < 1e-9 * abs(e[k])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.3, 3.0])
def test_edges_to_ten_digits_at_forty(delta):
    """Edges of a law of 2,000 atoms: Q(y) = delta at forty digits, then x = (s − delta) y."""
    rng = np.random.default_rng(5)
    t = np.concatenate([rng.uniform(0.5, 1.0, 1000), rng.uniform(20.0, 30.0, 1000)])
    law = sp.GeneralizedLaw([1.0], t, delta)
    edges = law.intervals().ravel()
    assert len(edges) == (2 if delta < 1 else 4)
    with mpmath.workdps(40):
        T = [mpmath.mpf(float(v)) for v in t]
        for edge in edges:
            # beside the edge, outside the support, the real solution is close to that of the edge
            outside = edge + 1e-6 * (1 if law.pdf(edge + 1e-6) == 0 else -1)
            y = mpmath.mpf(float(law.real_solution(np.array([outside]))[0][0]))
            for _ in range(12):
                inverse = [1 / (v + y) for v in T]
                Q = mpmath.fsum((v * r) ** 2 for v, r in zip(T, inverse, strict=True)) / len(T)
                C = mpmath.fsum(v * v * r**3 for v, r in zip(T, inverse, strict=True)) / len(T)
                step = (Q - delta) / (-2 * C)
                y -= step
                if abs(step) < mpmath.mpf("1e-25") * abs(y):
                    break
            s = mpmath.fsum(v / (v + y) for v in T) / len(T)
            assert float((s - delta) * y) == pytest.approx(edge, rel=1e-10)


def test_total_mass_with_two_thousand_atoms():
    rng = np.random.default_rng(6)
    t = np.concatenate([rng.uniform(0.5, 1.0, 1000), rng.uniform(20.0, 30.0, 1000)])
    law = sp.GeneralizedLaw([1.0], t, 3.0)
    node, weight = np.polynomial.legendre.leggauss(200)
    angle = np.pi * (node + 1) / 2
    total = law.atom
    for a, b in law.intervals():
        x = a + (b - a) * np.sin(angle / 2) ** 2
        total += float((law.pdf(x) * np.sin(angle)) @ weight) * (b - a) / 2 * np.pi / 2
    assert total == pytest.approx(1.0, abs=1e-8)
