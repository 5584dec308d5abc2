"""The README's quickstart runs, and what it prints is what it promises."""

import re
import subprocess
import sys


def quickstart(repository):
    text = (repository / "README.md").read_text()
    return re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)


def test_quickstart_runs(repository):
    code = quickstart(repository)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"(\w+) +predicted ([\d.]+) +simulated ([\d.]+)", done.stdout)
    assert [row[0] for row in rows] == ["mean", "causal", "optimal"]
    for _, predicted, simulated in rows:
        # five draws: standard error of about .02 near the thresholds
        assert abs(float(predicted) - float(simulated)) < 0.08


def test_readme_table_is_what_the_library_says(repository):
    import spikepool as sp

    R = sp.prefix_correlation(10, 3)
    weights = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
    rows = re.findall(
        r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| \*\*([\d.]+)\*\* \|",
        (repository / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == 5
    for name, mu, published, exact in rows:
        model = sp.SequenceModel(500, 800, 1000, R, float(mu))
        assert abs(model.predict(weights[name]).alignment - float(exact)) < 1e-3
        assert abs(model.replace(table="class_centered").predict(weights[name]).alignment - float(published)) < 1e-3
