"""Progress: silent unless asked for, told to a listener instead, and a bar within a bar is not heard."""

import pytest

from spikepool.errors import InvalidInputError
from spikepool.kit import progress
from spikepool.kit.progress import Progress, announced, heard_by


def test_a_listener_hears_the_outer_bar_alone(capsys):
    heard = []
    with heard_by(lambda text, share: heard.append((text, share))):
        with Progress(2, "outer", show=True) as outer:
            with Progress(10, "inner", show=True) as inner:
                inner.advance(10)
            outer.advance()
            outer.describe("later")
            outer.advance()
        with Progress(1, "next") as bar:
            bar.advance()
    assert heard == [("outer", 0.5), ("later", 1.0), ("next", 1.0)]
    with Progress(1, "after", show=False) as bar:
        bar.advance()
    assert len(heard) == 3
    assert capsys.readouterr().err == ""


def test_a_failure_leaves_no_listener_behind():
    heard = []
    with pytest.raises(ZeroDivisionError), heard_by(lambda text, share: heard.append(text)), Progress(2, "work"):
        raise ZeroDivisionError
    with Progress(1, "quiet", show=False) as bar:
        bar.advance()
    assert heard == []
    with pytest.raises(InvalidInputError, match="progress"):
        Progress(1, "work", show="yes")


def test_long_work_without_a_bar_says_once_how_long_it_takes(monkeypatch, capsys):
    """After the first seconds the whole is extrapolated; short work and inner bars say nothing."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "_in_notebook", lambda: False)  # another test may have imported its kernel

    def work(seconds, **options):
        with Progress(100, "reading", **options) as bar:
            for _ in range(100):
                clock[0] += seconds / 100
                with Progress(10, "inner") as inner, heard_by(lambda *_: None):
                    inner.advance(10)
                bar.advance()
        return capsys.readouterr().err

    assert work(300) == ""
    with announced():
        assert work(300) == "reading: about 5 min in all\n"
        assert work(40) == "reading: about 40 s in all\n"
        assert work(8) == ""
        assert work(300, show=False) == ""
    assert work(300) == ""


def test_a_bar_is_drawn_when_asked_for_and_gone_at_the_end(capsys):
    pytest.importorskip("tqdm")
    with Progress(3, "reading", show=True) as bar:
        bar.advance()
        bar.describe("counting")
        bar.advance(2)
    said = capsys.readouterr().err
    assert said.startswith("\rreading:   0%")
    assert said.split("\r")[-2].strip() == ""
