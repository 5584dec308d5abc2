"""Independent references: high-precision routes of the paper, and simulations written from the definition.

Nothing here calls the library. The high-precision functions follow the paper's implicit route (cubic, companion
transform, implicit derivative); the simulation gathers embeddings the slow way.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np

DIGITS = 40


def cubic_in_m(z, delta, gamma, kappa):
    """Coefficients of the bulk cubic in m, highest degree first."""
    return [
        delta * gamma * kappa * z * z,
        -kappa * z * (delta + gamma - 2 * delta * gamma),
        -(z + kappa * (delta - 1) * (1 - gamma)),
        mp.mpf(-1),
    ]


def stieltjes_reference(z, delta, gamma, kappa):
    """m(z) for Im z > 0 from the cubic: the root with Im m > 0 and Im zm > 0, by continuation from far above.

    The candidate conditions are those of a Stieltjes transform of a law on the half line; where two roots meet them
    the one continuous in z from i·infinity is taken.
    """
    with mp.workdps(2 * DIGITS + 40):
        z, delta, gamma, kappa = mp.mpc(z), mp.mpf(delta), mp.mpf(gamma), mp.mpf(kappa)
        coefficients = cubic_in_m(z, delta, gamma, kappa)
        while coefficients[0] == 0:
            coefficients = coefficients[1:]
        roots = mp.polyroots(coefficients[::-1], asc=True, maxsteps=1000, extraprec=600)
        valid = [m for m in roots if mp.im(m) > 0 and mp.im(z * m) > 0]
        if len(valid) == 1:
            return valid[0]
        far = mp.mpc(mp.re(z), 1000 * (abs(z) + kappa * (1 + delta) * (1 + gamma)))
        m = -1 / far
        for step in range(401):
            point = mp.mpc(mp.re(z), far.imag * (z.imag / far.imag) ** (mp.mpf(step) / 400))
            near = mp.polyroots(cubic_in_m(point, delta, gamma, kappa)[::-1], asc=True, maxsteps=1000, extraprec=600)
            m = min(near, key=lambda root: abs(root - m))
        return m


def density_reference(x, delta, gamma, kappa):
    """Density at a real x from the discriminant: Im of the complex root pair of the cubic, exactly at Im z = 0."""
    with mp.workdps(2 * DIGITS + 40):
        x, delta, gamma, kappa = (mp.mpf(v) for v in (x, delta, gamma, kappa))
        roots = mp.polyroots(cubic_in_m(x, delta, gamma, kappa)[::-1], asc=True, maxsteps=1000, extraprec=800)
        return max(mp.im(root) for root in roots) / mp.pi


def paper_alignment(theta, delta, gamma, kappa):
    """(lambda_out, total alignment) by the paper's Theorems 2 to 4, with the smaller root of the quadratic.

    beta from the population formula, lambda from the quadratic, m from the companion relation, m' by implicit
    differentiation of the cubic.
    """
    with mp.workdps(DIGITS + 40):
        theta, delta, gamma, kappa = (mp.mpf(v) for v in (theta, delta, gamma, kappa))
        rho = theta / kappa
        beta = kappa * rho * (rho - delta + 1) / (rho - delta)
        a = delta * kappa
        b = -(beta**2) * gamma + beta * kappa * (gamma * (1 + delta) - 2 * delta)
        c = beta**2 * (beta * gamma + kappa * (1 - gamma) * (delta - gamma))
        lam = (-b - mp.sqrt(b * b - 4 * a * c)) / (2 * a)
        m = (1 - gamma) / (gamma * lam) - 1 / (gamma * beta)
        dz = 2 * delta * gamma * kappa * lam * m**3 - kappa * (delta + gamma - 2 * delta * gamma) * m**2 - m
        dm = (
            3 * delta * gamma * kappa * lam**2 * m**2
            - 2 * kappa * lam * (delta + gamma - 2 * delta * gamma) * m
            - (lam + kappa * (delta - 1) * (1 - gamma))
        )
        companion = (1 - gamma) / lam**2 + gamma * (-dz / dm)
        return lam, (1 - delta / (rho - delta) ** 2) / (beta * lam * companion)


def paper_edge(delta, gamma):
    """Right edge by the paper's Proposition 1, in double precision exactly as printed."""
    q, r0 = delta * gamma, delta + gamma + delta * gamma
    d0 = r0 * (r0**3 + 216 * q**2)
    d1 = 2 * (r0**6 - 540 * q**2 * r0**3 - 5832 * q**4)
    phi = np.arccos(np.clip(d1 / (2 * d0**1.5), -1, 1))
    k = np.arange(3)
    roots = -(r0**2 - 12 * q * r0 + 12 * q**2 - 12 * q + 2 * np.sqrt(d0) * np.cos((phi + 2 * np.pi * k) / 3)) / (12 * q)
    return roots.max()


def noncrossing_partitions(n):
    """All noncrossing partitions of range(n), by brute force over set partitions."""

    def partitions(items):
        if not items:
            yield []
            return
        first, rest = items[0], items[1:]
        for size in range(len(rest) + 1):
            for others in itertools.combinations(rest, size):
                remaining = [item for item in rest if item not in others]
                for tail in partitions(remaining):
                    yield [[first, *others], *tail]

    def crosses(p, q):
        return any(a < b < c < d for a, c in itertools.combinations(p, 2) for b, d in itertools.combinations(q, 2))

    for partition in partitions(list(range(n))):
        if not any(crosses(p, q) or crosses(q, p) for p, q in itertools.combinations(partition, 2)):
            yield partition


def free_product_moment(k, delta, gamma):
    """Moment of MP_delta ⊠ MP_gamma from the combinatorial formula, by brute force.

    The free cumulants of MP_c are c^(n−1), so moments of the free product are
    sum over pi of kappa_pi(MP_delta) · moment_{K(pi)}(MP_gamma), with K the Kreweras complement.
    """

    def complement(partition):
        # the Kreweras complement as a permutation: K = pi^{-1} composed with the long cycle
        successor = {}
        for block in partition:
            ordered = sorted(block)
            for i, item in enumerate(ordered):
                successor[item] = ordered[(i + 1) % len(ordered)]
        inverse = {v: u for u, v in successor.items()}
        permutation = {i: inverse[(i + 1) % k] for i in range(k)}
        seen, blocks = set(), []
        for start in range(k):
            if start not in seen:
                cycle, item = 0, start
                while item not in seen:
                    seen.add(item)
                    cycle, item = cycle + 1, permutation[item]
                blocks.append(cycle)
        return blocks

    def mp_moment(n, c):
        return sum(c ** (n - len(p)) for p in noncrossing_partitions(n))

    total = 0.0
    for partition in noncrossing_partitions(k):
        weight = delta ** (k - len(partition))
        for size in complement(partition):
            weight *= mp_moment(size, gamma)
        total += weight
    return total


def slow_simulation(d, V, N, R_draw, w, mu, *, rng, centered=True, class_centered=False):
    """Top eigenvalues (descending) and alignments of S, straight from the definition: gather, pool, decompose."""
    z = rng.standard_normal((d, V))
    s = np.repeat([1.0, -1.0], V // 2)
    if class_centered:
        for sign in (1, -1):
            z[:, s == sign] -= z[:, s == sign].mean(axis=1, keepdims=True)
    u = np.zeros(d)
    u[0] = 1.0
    table = mu * np.outer(u, s) + z
    xi = R_draw(N, rng)
    tokens = rng.integers(0, V // 2, size=xi.shape) + np.where(xi > 0, 0, V // 2)
    pooled = np.einsum("dnt,t->dn", table[:, tokens], w)
    if centered:
        pooled = pooled - pooled.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(pooled @ pooled.T / N)
    return values[::-1], (vectors[:, ::-1].T @ u) ** 2


def prefix_signs(T, L):
    """Draw function of the prefix model, written out."""

    def draw(n, rng):
        xi = rng.choice([-1, 1], size=(n, T))
        xi[:, :L] = xi[:, :1]
        return xi

    return draw
