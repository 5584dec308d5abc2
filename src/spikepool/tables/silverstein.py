r"""The law of a sample covariance over a discrete population, drawn as one curve.

A table with n independent rows (n = V − 1 after centring) of covariance Σ has sample eigenvalues whose law is
Silverstein's, with H the law of the eigenvalues of Σ and c = d/n. In the variable v = −1/m̲, m̲ the companion
transform, the equation reads

.. math:: z(v) = v + c \int \frac{t\, v}{v − t}\, dH(t),

and on the real line its complex solutions v = u + iy are those with (Ledoit and Wolf's QuEST parametrisation)

.. math:: \int \frac{t^2}{(t − u)^2 + y^2}\, dH(t) = \frac1c, \qquad
          f(x) = \frac{1}{\pi c} \frac{y}{u^2 + y^2}, \quad x = \mathrm{Re}\, z(u + iy).

The left side falls with y, so each point of the curve is one root of a monotone function: no branch to choose. The
distribution function is closed too, since ∫ m̲ dz = z m̲ − ∫ z dm̲:

.. math:: 1 − c + c F(x) = \frac1\pi \mathrm{Im}\Big[ x m̲ + \log m̲ − c \int \log(1 + t m̲)\, dH(t) \Big].

:class:`spikepool.GeneralizedLaw` is the same law at single points and for other noise; this curve is what the fits
of a table need, hundreds of times.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray

CURVE_POINTS = 400
NEWTON_STEPS = 100


def spike_map(ell: float, atoms: FloatArray, weights: FloatArray, ratio: float) -> float:
    """Where a population eigenvalue `ell` above the critical one puts its sample eigenvalue: z(ell)."""
    return float(ell + ratio * ell * np.sum(weights * atoms / (ell - atoms)))


def right_edge(atoms: FloatArray, weights: FloatArray, ratio: float, n: int) -> tuple[float, float, float]:
    r"""(right edge, critical population eigenvalue, Tracy-Widom scale) of the law.

    The critical value ℓ solves c ∫ t²/(ℓ − t)² dH = 1, the edge is z(ℓ), and the largest eigenvalue of n Gaussian
    rows fluctuates as edge + scale · TW₁ with scale = n^{-2/3} (ℓ³ + c ∫ t³ℓ³/(ℓ − t)³ dH)^{1/3} (El Karoui 2007).
    """
    top = float(atoms[weights > 0].max())
    share = float(weights[atoms == top].sum())
    # ℓ/top − 1 lies between the root for the top atom alone and the one for all the mass at the top.
    low, high = 1 + np.sqrt(ratio * share) * (1 - 1e-9), 1 + np.sqrt(ratio) * (1 + 1e-9)
    x = atoms / top
    ell = top * float(brentq(lambda s: 1 - ratio * np.sum(weights * (x / (s - x)) ** 2), low, high, xtol=1e-14))
    cube = ell**3 + ratio * np.sum(weights * (atoms * ell / (ell - atoms)) ** 3)
    return spike_map(ell, atoms, weights, ratio), ell, float(np.cbrt(cube) * n ** (-2 / 3))


def density_curve(
    atoms: FloatArray, weights: FloatArray, ratio: float, points: int = CURVE_POINTS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(x, density, distribution function) along the support, x increasing.

    The distribution function counts the mass at zero, the larger of 1 − 1/c and the population's own; the density does
    not.
    """
    # atoms at zero add nothing to any of the sums, and have no branch of their own
    atoms, weights = atoms[atoms > 0], weights[atoms > 0]
    u = _abscissae(atoms, weights, ratio, points)[:, None]
    y = np.sqrt(_heights(u, atoms, weights, ratio))
    gap2 = (atoms - u) ** 2 + y**2
    gap2 = np.where(gap2 > 0, gap2, np.finfo(float).tiny)
    x = (u + ratio * (weights * atoms * (1 + atoms * (u - atoms) / gap2)).sum(axis=1, keepdims=True))[:, 0]
    m = -1 / (u + 1j * y)  # the companion transform
    angles = (weights * np.angle(1 + atoms * m)).sum(axis=1)
    companion = (x * m.imag[:, 0] + np.angle(m[:, 0]) - ratio * angles) / np.pi
    cdf = (companion - (1 - ratio)) / ratio
    return np.maximum.accumulate(x), m.imag[:, 0] / (np.pi * ratio), np.maximum.accumulate(cdf)


def _abscissae(atoms: FloatArray, weights: FloatArray, ratio: float, points: int) -> FloatArray:
    """Real parts u of the curve, from the left end of the support to the right one."""
    low, high = float(atoms.min()), float(atoms.max())
    spread = float(np.sqrt(ratio * np.sum(weights * atoms**2)))

    def excess(u: float) -> float:
        return float(np.sum(weights * (atoms / (atoms - u)) ** 2) - 1 / ratio)

    u_max = right_edge(atoms, weights, ratio, 1)[1]
    # Below the smallest atom the integral falls away from it, and cannot reach 1/c further than `spread` off.
    u_min = float(brentq(excess, low - spread * (1 + 1e-9), low * (1 - 1e-12), xtol=1e-15 * high))
    # Square-root edges want points crowded at both ends; the inside is followed where the atoms are.
    crowded = u_min + (u_max - u_min) * (1 - np.cos(np.linspace(0, np.pi, points // 2))) / 2
    inside = np.quantile(atoms, np.linspace(0, 1, points - points // 2))
    return np.unique(np.concatenate([crowded, inside]))


def _heights(u: FloatArray, atoms: FloatArray, weights: FloatArray, ratio: float) -> FloatArray:
    """y² at each u: zero in gaps of the support, else the root of 1/Σ wt²/((t−u)²+y²) = c.

    As a function of y² the left side is increasing and concave (a parallel sum), so Newton's method started at
    zero climbs to the root without ever passing it.
    """
    squares, gap2 = weights * atoms**2, (atoms - u) ** 2
    scale = float(atoms.max()) ** 2
    w = np.full((len(u), 1), 1e-28 * scale)
    for _ in range(NEWTON_STEPS):
        inverse = 1 / (gap2 + w)
        total = (squares * inverse).sum(axis=1, keepdims=True)
        slope = (squares * inverse**2).sum(axis=1, keepdims=True) / total**2
        step = np.maximum((ratio - 1 / total) / slope, 0.0)
        w = w + step
        if np.all(step <= 1e-13 * w):
            return np.where(w > 1e-27 * scale, w, 0.0)
    raise ConvergenceError("the curve of the bulk density did not converge", float((step / w).max()))


def quantiles(atoms: FloatArray, weights: FloatArray, ratio: float, count: int) -> FloatArray:
    """Expected ordered nonzero eigenvalues, largest first: the law's quantiles at (i − 1/2)/count of its bulk."""
    x, _, cdf = density_curve(atoms, weights, ratio)
    own = float(weights[atoms == 0].sum())
    atom = max(own, 1 - 1 / ratio, 0.0)
    # of max(count, c·count) coordinates the population leaves a share `own` empty: these eigenvalues are zero
    filled = min(count, round(max(count, ratio * count) * (1 - own)))
    levels = atom + (1 - atom) * (np.arange(filled)[::-1] + 0.5) / filled
    return np.concatenate([np.interp(levels, cdf, x), np.zeros(count - filled)])
