"""One answer to three questions about a user's own rows: which pooling to choose, what to trust, what to plan.

The work is done by the packages below (:mod:`spikepool.pooling`, :mod:`spikepool.trust`,
:mod:`spikepool.forecasting`); here they are asked in order, and what they found is put in sentences.
"""

from __future__ import annotations

from spikepool.answers.report import report
from spikepool.answers.result import Answer, DataReport

__all__ = ["Answer", "DataReport", "report"]
