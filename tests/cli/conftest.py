import pytest

from spikepool.cli import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Run in this process; (exit code, standard output, standard error)."""
    # whether a command says how long it will take depends on how busy the machine is
    monkeypatch.setattr("spikepool.kit.progress.LONG_SECONDS", float("inf"))
    # another test of this process may have imported the kernel of notebooks
    monkeypatch.setattr("spikepool.kit.progress._in_notebook", lambda: False)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        output = capsys.readouterr()
        return stop.value.code, output.out, output.err

    return call
