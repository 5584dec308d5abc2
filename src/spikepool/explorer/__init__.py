"""The explorer: sliders, live theory, simulation on demand, and a page for one's own data.

``spikepool explore`` runs it. Everything is served from this machine; nothing is sent anywhere else.
"""

from spikepool.explorer.app import create_app, serve
from spikepool.explorer.security import Settings

__all__ = ["Settings", "create_app", "serve"]
