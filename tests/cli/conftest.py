import pytest

from spikepool.cli import main


@pytest.fixture
def run(capsys):
    """Run in this process; (exit code, standard output, standard error)."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        output = capsys.readouterr()
        return stop.value.code, output.out, output.err

    return call
