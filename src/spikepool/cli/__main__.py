"""Makes ``python -m spikepool.cli`` the same as the ``spikepool`` command."""

from spikepool.cli import main

if __name__ == "__main__":
    main()
