"""Numerics of the free product of two Marchenko–Pastur laws: one cubic, solved without cancellation.

With unit scale and q = delta·gamma, r0 = delta + gamma + q, the Stieltjes transform is rational in one variable,

    z = (omega+1)(omega+delta)(omega+gamma)/omega²,     m(z) = −(omega+1)/(omega z),

so that omega solves omega³ − a omega² + r0 omega + q = 0 with a = (z−1) − delta − gamma. On the right of the support
omega is the spike variable x of :mod:`spikepool.theory.spikes`. Four facts keep every digit:

* z enters through y = z − 1, which is exact where the law is narrow (small ratios);
* near z = 0 the same cubic is solved for v = 1 + omega, whose coefficients hold z itself;
* ratios above one are reduced to ratios of at most one: z is homogeneous in (1, delta, gamma), so that dividing by the
  largest of the three, M, leaves a law of mass 1/M and scale M beside the atom;
* the discriminant is a product over the support's edges, 4(e1−x)(x−e2)(q x + g0), and the edges are known to more
  than double precision, so that the density is accurate right up to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import ComplexArray, FloatArray

# |z| below this (in units of the scale) is solved in the variable v = 1 + omega.
_SMALL_Z = 0.25
# |z| below this is the origin: far below the smallest left edge of two ratios below one, and powers still have digits.
_ORIGIN = 1e-100
_DIGITS = 80
_NEWTON_STEPS = 60


@dataclass(frozen=True)
class Reduced:
    """A law reduced to ratios of at most one, with its edges at more than double precision.

    `delta`, `gamma` are the smaller two of (1, delta, gamma) over the largest, `mass` is one over the largest. Scale
    and edges are unevaluated sums of two doubles; `g0` = −q·e3 with unit scale, e3 <= 0 being the third root of the
    discriminant.
    """

    delta: float
    gamma: float
    mass: float
    scale: float
    scale_low: float
    right: float
    right_low: float
    left: float
    left_low: float
    g0: float


@lru_cache(maxsize=4096)
def reduce_law(delta: float, gamma: float, scale: float) -> Reduced:
    """Reduce the ratios and find the edges at eighty digits.

    The critical points of z(omega) are the roots of t³ − r0 t − 2q = 0. The positive one is polished by Newton; the
    other two follow from it in closed form, which stays exact when they coincide (both reduced ratios 1).
    """
    with localcontext() as context:
        context.prec = _DIGITS
        # the exponent range of Decimal is far wider than that of doubles: nothing underflows here
        small, large, largest = sorted((Decimal(1), Decimal(delta), Decimal(gamma)))
        d, g, k = small / largest, large / largest, Decimal(scale) * largest
        q, r0 = d * g, d + g + d * g
        if r0 == 0:
            return Reduced(0.0, 0.0, 1.0, scale, 0.0, scale, 0.0, scale, 0.0, 0.0)
        t = (r0 * 4 / 3).sqrt()  # an upper bound of the positive root: Newton descends to it
        for _ in range(_NEWTON_STEPS):
            step = (t * t * t - r0 * t - 2 * q) / (3 * t * t - r0)
            t -= step
            if abs(step) <= abs(t) * Decimal(10) ** (10 - _DIGITS):
                break
        gap = max(t * t - 8 * q / t, Decimal(0)).sqrt()
        second = -(t + gap) / 2
        third = 2 * q / t / second

        def image(s: Decimal) -> Decimal:
            return (s + 1) * (1 + d / s) * (1 + g / s)

        left = Decimal(0) if g == 1 else k * image(second)  # a ratio of one puts the edge at the origin
        g0 = r0 * r0 / 4 if q == 0 else max(-q * image(third), Decimal(0))
        if d == g or d == 1:
            g0 = Decimal(0)
        pairs = (_split(value) for value in (k, k * image(t), left))
        (k_high, k_low), (right, right_low), (left_high, left_low) = pairs
        return Reduced(
            float(d),
            float(g),
            float(1 / largest),
            k_high,
            k_low,
            right,
            right_low,
            left_high,
            left_low,
            float(g0),
        )


def _split(value: Decimal) -> tuple[float, float]:
    """`value` as an unevaluated sum of two doubles."""
    high = float(value)
    return high, float(value - Decimal(high))


@dataclass(frozen=True)
class BulkPoint:
    """The upper-half-plane root omega at real points inside the support.

    `real`, `imag` are its parts, `modulus2` its squared modulus, and `shifted_real` the real part of 1 + omega,
    each accurate where the others cancel.
    """

    real: FloatArray
    imag: FloatArray
    modulus2: FloatArray
    shifted_real: FloatArray


def bulk_root(x: FloatArray, law: Reduced) -> BulkPoint:
    """Solve for omega at points strictly inside the support.

    The real root −s of the cubic is found first, through P = q/s = |omega|², the largest root of
    P³ − r0 P² − a q P − q² = 0 (which is r0 when q = 0); the complex pair follows by Vieta's formulas.
    """
    delta, gamma = law.delta, law.gamma
    q, r0 = delta * gamma, delta + gamma + delta * gamma
    x1 = x / law.scale
    a = ((x - law.scale) - law.scale_low) / law.scale - delta - gamma
    from_right = ((law.right - x) + law.right_low) / law.scale
    from_left = ((x - law.left) - law.left_low) / law.scale
    root_disc = np.sqrt(from_right * from_left * (q * x1 + law.g0))
    # P = r0 p: p³ − p² − B p − C = 0; Cardano with the discriminant already known
    B = a * (q / r0 / r0)
    C = (q / r0) * (q / r0) / r0
    h = (1 / 27 + C / 2) + B / 6
    g = 1 / 9 + B / 3
    A = np.cbrt(h + root_disc * (q / r0 / r0 / r0 / np.sqrt(27.0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        P = r0 * (1 / 3 + A + np.where(A == 0, 0.0, g / A))
    s = q / P
    gap2 = P + s * (a + 2 * s)  # squared distance of the pair from the real root
    real = (a + s) / 2
    shifted = 1 + real
    near = s > 0.5
    if near.any():
        v, gap2_near = _shifted_real_root(x1[near], delta, gamma, root_disc[near])
        P[near] = q / (1 - v)
        gap2[near] = gap2_near
        shifted[near] = ((1 - delta) + (1 - gamma) + x1[near] - v) / 2
        real[near] = shifted[near] - 1
    return BulkPoint(real, root_disc / gap2, P, shifted)


def _shifted_real_root(
    x1: FloatArray, delta: float, gamma: float, root_disc: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Real root v of v³ + b v² + c v − x = 0 (v = 1 + omega) and the squared distance of the pair from it."""
    b = (delta - 1) + (gamma - 1) - x1
    c = (1 - delta) * (1 - gamma) + 2 * x1
    h = x1 / 2 + b * c / 6 - b * b * b / 27
    g = b * b / 9 - c / 3
    A = np.cbrt(h + np.copysign(root_disc / np.sqrt(27.0), h))
    with np.errstate(divide="ignore", invalid="ignore"):
        v = A + np.where(A == 0, 0.0, g / A) - b / 3
    # the root lies in (0, 1); Newton removes the cancellation of the explicit formula
    v = np.clip(v, 1e-300, 1.0)
    for _ in range(_NEWTON_STEPS):
        step = (((v + b) * v + c) * v - x1) / ((3 * v + 2 * b) * v + c)
        new = np.where(v - step > 0, v - step, v / 2)
        done = np.abs(new - v) <= 4e-16 * np.abs(v)
        v = new
        if done.all():
            break
    else:
        worst = int(np.argmax(np.abs(step / v)))
        if abs(step[worst]) > 1e-12 * v[worst]:
            raise ConvergenceError(
                "the bulk cubic was not solved",
                remedy="Report these parameters",
                point=float(x1[worst]),
                residual=float(abs(step[worst])),
            )
    return v, x1 / v + v * (2 * v + b)


def stieltjes(z: ComplexArray, law: Reduced) -> ComplexArray:
    """Transform of the reduced law (unit mass) at a flat array of points off the support."""
    delta, gamma, scale = law.delta, law.gamma, law.scale
    flip = z.imag < 0
    z = np.asarray(np.where(flip, z.conj(), z), dtype=np.complex128)
    z1 = z / scale
    small = np.abs(z1) < _SMALL_Z
    m = np.empty_like(z)
    if not small.all():
        a = ((z[~small] - scale) - law.scale_low) / scale - (delta + gamma)
        omega = _physical_root(-a, delta + gamma + delta * gamma, delta * gamma, shift=0.0)
        m[~small] = -(1 + 1 / omega) / z1[~small]
    if small.any():
        zs = z1[small]
        b = ((delta - 1) + (gamma - 1)) - zs
        v = _physical_root(b, (1 - delta) * (1 - gamma) + 2 * zs, -zs, shift=1.0)
        # the support stays away from the origin when both ratios are below one: so close to it m has its value there
        origin = (np.abs(zs) < _ORIGIN) & (gamma < 1)
        zs[origin] = 1.0
        m[small] = v / ((1 - v) * zs)
        if origin.any():
            m[np.flatnonzero(small)[origin]] = 1 / ((1 - delta) * (1 - gamma))
    m[z.imag == 0] = m[z.imag == 0].real
    return np.asarray(np.where(flip, m.conj(), m) / scale, dtype=np.complex128)


def _physical_root(b: ComplexArray, c: ComplexArray | float, e: ComplexArray | float, *, shift: float) -> ComplexArray:
    """Root of t³ + b t² + c t + e on the Stieltjes branch, omega = t − shift.

    For Im z > 0 exactly two roots omega lie in the upper half plane, and only the physical one has
    |omega|² > delta·gamma; hence it is the one of larger modulus. Off the support on the real line the same rule
    selects the branch that is continuous from infinity.
    """
    b = np.asarray(b, dtype=np.complex128)
    c = np.broadcast_to(np.asarray(c, dtype=np.complex128), b.shape)
    e = np.broadcast_to(np.asarray(e, dtype=np.complex128), b.shape)
    roots = _cardano(b, c, e)
    # |omega|² up to a constant, without the cancellation of |t − shift|² − shift² when t is small
    size = np.abs(roots) ** 2 - 2 * shift * roots.real
    # a root near zero is the difference of larger numbers and carries their rounding, also in its imaginary part
    floor = np.abs(roots) * 1e-13 + 1e-15 * np.abs(roots).max(axis=0)
    size = np.where(roots.imag >= -floor, size, -np.inf)
    best = size.max(axis=0)
    # among roots that are equal to rounding (at an edge), the one truly in the upper half plane
    near = size >= best - 1e-9 * np.abs(best)
    t = np.take_along_axis(roots, np.argmax(np.where(near, roots.imag, -np.inf), axis=0)[None], axis=0)[0]
    return _polish(t, b, c, e)


def _cardano(b: ComplexArray, c: ComplexArray, e: ComplexArray) -> ComplexArray:
    """All three roots, shape (3, n); a rough start is enough, except for large |t|, where t ≈ −b."""
    # scaled so that the largest coefficient is of order one: no overflow for any finite z
    unit = np.maximum(np.maximum(np.abs(b), np.sqrt(np.abs(c))), np.cbrt(np.abs(e)))
    unit = np.where(unit == 0, 1.0, unit)
    b, c, e = b / unit, c / unit / unit, e / unit / unit / unit
    g = b * b / 9 - c / 3
    h = b * c / 6 - e / 2 - b * b * b / 27
    root = np.sqrt(h * h - g * g * g)
    root = np.where((h.conj() * root).real < 0, -root, root)
    A = (h + root) ** (1 / 3)
    turn = np.exp(2j * np.pi / 3 * np.arange(3))[:, None]
    A = A * turn
    with np.errstate(divide="ignore", invalid="ignore"):
        other = np.where(A == 0, 0.0, g / A)
    return np.asarray((A + other - b / 3) * unit, dtype=np.complex128)


def _polish(t: ComplexArray, b: ComplexArray, c: ComplexArray, e: ComplexArray) -> ComplexArray:
    """Newton from a root that is already nearly right; raises if any point has not settled."""
    active = np.arange(t.size)
    t = t.copy()
    for _ in range(_NEWTON_STEPS):
        s, bb, cc, ee = t[active], b[active], c[active], e[active]
        value = ((s + bb) * s + cc) * s + ee
        slope = (3 * s + 2 * bb) * s + cc
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(value == 0, 0.0, value / slope)
        # the rounding error of `value` itself; below it a step is noise (this matters only at a double root)
        noise = 4e-16 * (np.abs(s) ** 3 + np.abs(bb * s * s) + np.abs(cc * s) + np.abs(ee))
        moving = (np.abs(value) > noise) & (np.abs(step) > 2e-16 * np.abs(s))
        first = np.isfinite(step)
        t[active] = np.where(first, s - step, s)
        active = active[moving & first]
        if active.size == 0:
            return t
    worst = int(active[0])
    residual = abs(((t[worst] + b[worst]) * t[worst] + c[worst]) * t[worst] + e[worst])
    raise ConvergenceError(
        "the bulk cubic was not solved",
        remedy="Report these parameters",
        point=complex(t[worst]),
        residual=float(residual),
    )
