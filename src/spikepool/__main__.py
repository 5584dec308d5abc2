"""``python -m spikepool``: the command line, where the script ``spikepool`` is not on the path."""

from spikepool.cli import main

main()
