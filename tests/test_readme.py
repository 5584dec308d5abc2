"""The README's code runs, and its numbers are measured again."""

import importlib.util
import re
import subprocess
import sys

import pytest


def readme(repository):
    return (repository / "README.md").read_text()


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_it_is_short(repository):
    assert len(readme(repository).splitlines()) <= 120


@pytest.mark.slow
def test_three_answers_in_a_few_lines(repository):
    code = blocks((repository / "docs" / "tutorials" / "your-data.md").read_text())[-1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 7
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^[A-Z]{4,}", done.stdout, re.MULTILINE) == ["CHOOSE", "TRUST", "PLAN"]
    assert "all tokens side by side" in done.stdout
    assert done.stdout.count("Next: ") == 3


@pytest.mark.slow
def test_the_win_is_measured_again(repository):
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    spec = importlib.util.spec_from_file_location("real_win", repository / "examples" / "real_win.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    fitted, tried, n = example.measure()
    pattern = r"^\| class of ([\d,]+) DNA .* \| ([\d.]+) against ([\d.]+) and ([\d.]+) \|"
    row = re.search(pattern, readme(repository), re.MULTILINE)
    assert int(row[1].replace(",", "")) == n
    chosen, mean, flat = map(float, row.groups()[1:])
    assert fitted.decision_ in ("flat", "positions")
    # an optimiser's last digits may move a sequence or two over the border
    assert abs(tried["mean"] - mean) < 0.003
    assert abs(tried["flat"] - flat) < 0.003
    assert abs(tried["auto"] - chosen) < 0.006


@pytest.mark.slow
def test_quickstart_runs(repository):
    code = blocks(readme(repository))[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"(\w+) +predicted ([\d.]+) +simulated ([\d.]+)", done.stdout)
    assert [row[0] for row in rows] == ["mean", "causal", "optimal"]
    for _, predicted, simulated in rows:
        # five draws: standard error of about .02 near the thresholds
        assert abs(float(predicted) - float(simulated)) < 0.08


def test_published_and_closed_form_are_what_the_library_says(repository):
    import spikepool as sp

    R = sp.prefix_correlation(10, 3)
    weights = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
    rows = re.findall(
        r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| \*\*([\d.]+)\*\* \|",
        (repository / "docs" / "errata.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == 5
    for name, mu, published, exact in rows:
        model = sp.SequenceModel(500, 800, 1000, R, float(mu))
        assert abs(model.predict(weights[name]).alignment - float(exact)) < 1e-3
        assert abs(model.replace(table="class_centered").predict(weights[name]).alignment - float(published)) < 1e-3
