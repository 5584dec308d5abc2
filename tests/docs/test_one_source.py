"""Numbers of the report on pages are those that ``make reproduce`` computes."""

import re

import pytest

from spikepool.reproduce.errata import published_table


@pytest.mark.slow
def test_pages_quote_the_simulated_numbers_of_the_report(repository):
    """The report's 30 draws are deterministic, so a page may differ by the last digit of another BLAS only."""
    rows = {}
    for row in published_table(trials=30):
        found = re.fullmatch(r"alignment, (\w+) weights, mu = ([\d.]+)", row.quantity)
        if found:
            rows[found[1], float(found[2])] = row
    assert len(rows) == 5
    quoted = re.findall(
        r"^\| (mean|causal|optimal) \| ([\d.]+) \| ([\d.]+) \| \**([\d.]+)\** \| ([\d.]+) \|",
        (repository / "docs" / "errata.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(quoted) >= 5
    for weights, mu, *numbers in quoted:
        row = rows[weights, float(mu)]
        for shown, computed in zip(numbers, (row.published, row.exact, row.simulated), strict=True):
            assert abs(float(shown) - computed) < 0.0016, (weights, mu, shown, computed)
    paper = (repository / "paper" / "paper.md").read_text(encoding="utf-8")
    assert f"the simulated one {rows['causal', 1.3].simulated:.3f}".replace(" 0.", " .") in paper
    readme = (repository / "README.md").read_text(encoding="utf-8")
    predicted, simulated, printed = re.search(
        r"\.(\d+) predicted, \.(\d+) simulated, \.(\d+) printed \(causal, μ = 1\.3\)", readme
    ).groups()
    row = rows["causal", 1.3]
    for shown, computed in zip((predicted, simulated, printed), (row.exact, row.simulated, row.published), strict=True):
        assert abs(float(f".{shown}") - computed) < 0.0016
