"""Spectral laws with one contract; see :mod:`spikepool.laws.base`."""
