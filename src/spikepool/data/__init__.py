"""A user's sequences, features, labels and files, read safely and in blocks."""

from spikepool.data.blocks import BlockSource
from spikepool.data.opening import open_blocks

__all__ = ["BlockSource", "open_blocks"]
