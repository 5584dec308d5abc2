"""The explorer: sliders, live theory, and simulation on demand.

``spikepool explore`` runs it. It is served to this machine only; nothing is sent anywhere else.
"""

from spikepool.explorer.app import create_app, serve
from spikepool.explorer.worker import Limits

__all__ = ["Limits", "create_app", "serve"]
