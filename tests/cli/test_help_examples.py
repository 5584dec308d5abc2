"""The help of every command ends with an example that is right."""

import shlex

import pytest

pytest.importorskip("typer", reason="the cli extra is not installed")

from spikepool.cli import main
from spikepool.cli.application import EXAMPLES, app


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return left.value.code, capsys.readouterr().out


def test_every_command_has_one():
    assert sorted(EXAMPLES) == sorted(command.name or command.callback.__name__ for command in app.registered_commands)


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_it_is_shown_and_names_options_that_exist(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, text = run(capsys, command, "--help")
    assert code == 0
    program, name, *rest = shlex.split(EXAMPLES[command])
    assert (program, name) == ("spikepool", command)
    assert "Example: spikepool" in text
    for option in (word for word in rest if word.startswith("-")):
        assert option in text


@pytest.mark.parametrize("command", ["predict", "simulate"])
def test_examples_without_files_run(command, capsys):
    assert run(capsys, *shlex.split(EXAMPLES[command])[1:])[0] == 0
