"""Spectra of embedding tables: safe loading, streaming, bulk law, outliers, nulls and a verdict.

Everything starts at :class:`TableSpectrum`; :func:`compare_tables` sets two tables side by side,
:func:`compare_checkpoints` every weight of two checkpoints; :func:`open_table` gives the rows of a file without the
analysis.
"""

from __future__ import annotations

from spikepool.data.table_input import open_table
from spikepool.tables.checkpoints import CheckpointComparison, compare_checkpoints
from spikepool.tables.compare import TableComparison, compare_tables
from spikepool.tables.spectrum import TableSpectrum

__all__ = [
    "CheckpointComparison",
    "TableComparison",
    "TableSpectrum",
    "compare_checkpoints",
    "compare_tables",
    "open_table",
]
