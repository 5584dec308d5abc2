"""Where the law of sequences pooled by a query holds: the mean of draws at finite size, and what speaks against it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.theory.query_spectrum import QuerySpectrum
from spikepool.theory.validity import WORTH, Caution, Draws
from spikepool.world.query import QueryWorld


def finite_draws(spectra: Sequence[QuerySpectrum]) -> Draws | None:
    """Alignments of draws in d dimensions (:mod:`spikepool.theory.finite_size`): the mean over draws of the tokens."""
    found = [one.draws() for one in spectra]
    if all(draws is None for draws in found):
        return None
    known = [Draws(one.top, 0.0) if draws is None else draws for one, draws in zip(spectra, found, strict=True)]
    means, scatters = np.array(known).T
    return Draws(float(means.mean()), float(np.sqrt(np.mean(scatters**2) + means.var())))


def uncertain_mean(tops: FloatArray, drawn: str = "tokens") -> Caution | None:
    """Why the mean over draws of the tokens, or of the sequences, is uncertain."""
    if len(tops) < 2 or (error := float(tops.std(ddof=1) / np.sqrt(len(tops)))) <= WORTH:
        return None
    return Caution(
        f"the alignment scatters by {tops.std(ddof=1):.2g} over draws of the {drawn}; its mean over {len(tops)} draws "
        f"is uncertain by {error:.2g}",
        error,
    )


def finite_cause(world: QueryWorld, spectrum: QuerySpectrum) -> str | None:
    """What changes the mean of draws most, where it is not the threshold."""
    if world.V is not None:
        mixed = abs(spectrum.mixing) > WORTH
        return "outliers of frequent tokens lie so close to the largest that they mix" if mixed else None
    signal = next((outlier for name, outlier, _ in spectrum.named if name == "signal"), None)
    if signal is None:
        return None
    bend, loss = abs(spectrum.bend[0]), spectrum.top * spectrum.key_loss(signal)
    crossover = 0.0 if spectrum.crossover is None else abs(spectrum.crossover.mean - spectrum.top)
    if max(bend, loss) < crossover:
        return None
    if loss > bend:
        return "the part of the key that the query misses mixes with the signal"
    return f"few sequences carry the signal, and its gain scatters over draws of {world.N} sequences"


def single_sequences(world: QueryWorld, spectrum: QuerySpectrum, rng: int) -> Caution | None:
    """Why quantiles are not what draws show: single sequences whose attention falls on one token."""
    count = sum(name == "sequence" for name, _, _ in spectrum.named)
    if count == 0:
        return None
    spectra = [QuerySpectrum(world, rng, draw=i) for i in range(1, 17)]
    drawn = np.array([one.top if (draws := one.draws()) is None else draws.mean for one in spectra])
    error = abs(float(drawn.mean()) - spectrum.top)
    if error <= max(WORTH, 0.375 * float(drawn.std(ddof=1))):  # 1.5 standard errors of a mean of sixteen
        top = max(spectrum.named, key=lambda one: one[1].eigenvalue)[0]
        return uncertain_mean(drawn, "sequences") if top == "sequence" else None
    return Caution(
        f"{count} outlier{'s are' if count > 1 else ' is'} made of single sequences whose attention falls on one "
        f"token: the alignment is off by about {error:.2g}; a smaller beta or a bounded gate avoids them",
        error,
    )
