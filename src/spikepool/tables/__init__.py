"""Spectra of embedding tables: safe loading, bulk law, outliers, nulls and a verdict.

Everything starts at :class:`TableSpectrum`; :func:`open_table` gives the rows of a file without the analysis.
"""

from __future__ import annotations

from spikepool.data.table_input import open_table
from spikepool.tables.spectrum import TableSpectrum

__all__ = ["TableSpectrum", "open_table"]
