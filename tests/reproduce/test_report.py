"""The report says what happened, escapes what it prints, and needs no other file."""

import base64
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from spikepool.drawing.plotting import new_figure, plot_theory  # noqa: E402
from spikepool.errors import MissingDependencyError, SizeError  # noqa: E402
from spikepool.kit.results import plain  # noqa: E402
from spikepool.reproduce.base import FigureSpec, Settings, compare  # noqa: E402
from spikepool.reproduce.errata import PublishedRow, published_rows, row_variables  # noqa: E402
from spikepool.reproduce.report import make_report, save_dataset  # noqa: E402


def spec(number, gap=0.0, expected=True, failure=None, rows=()):
    def compute(settings):
        if failure is not None:
            raise failure
        return xr.Dataset(
            {"y": (("x",), [0.0, gap]), **row_variables(rows)},
            coords={"x": [0.0, 1.0]},
            attrs={"d": 10, "flag": True, "seed": settings.seed},
        )

    def draw(ds):
        figure, axes = new_figure()
        plot_theory(axes[0, 0], ds["x"].values, ds["y"].values, "mean")
        return figure

    def judge(ds):
        return (
            compare(
                "markers <b>", np.zeros(2), ds["y"].values, np.full(2, 0.1), expected=expected, note="because & so"
            ),
        )

    return FigureSpec(number, f"name-{number}", f"Title <{number}>", "A caption & more.", compute, draw, judge)


class Tags(HTMLParser):
    """Counts tags and collects what a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.images, self.links, self.other = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)
        if tag == "img":
            self.images.append(attributes["src"])
        if tag == "a":
            self.links.append(attributes["href"])
        if tag in ("script", "link", "iframe", "object"):
            self.other.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rows = (PublishedRow("alignment, x", 0.757, 0.666, 0.668, 0.0076, "why"),)
    specs = [
        spec(1),
        spec(2, gap=0.9),
        spec(3, failure=SizeError("too small", 3, "Use 4")),
        spec(5, failure=MissingDependencyError("needs the package 'x'")),
        spec(6, gap=0.9, expected=False),
        spec(8, rows=rows),
    ]
    return make_report(specs, Settings(seed=5), tmp_path_factory.mktemp("report"))


@pytest.mark.slow
def test_every_outcome_is_told_apart(report):
    assert [entry.status for entry in report.entries] == [
        "agrees",
        "disagrees",
        "failed",
        "skipped",
        "agrees",
        "agrees",
    ]
    assert [entry.agrees for entry in report.entries] == [True, False, False, False, True, True]
    disagreeing = report.entries[1]
    assert disagreeing.verdict == "1 of 2 disagree"
    assert disagreeing.worst_sigmas == pytest.approx(9)
    assert disagreeing.worst_share == pytest.approx(0.9 / 0.3)  # three standard errors of .1 are allowed
    assert disagreeing.counts == (1, 0, 0)
    assert report.entries[4].counts == (0, 0, 1)
    assert report.entries[4].markers == 0  # a comparison that is expected to fail does not count
    text = report.path.read_text()
    assert "4 of 6" not in text
    assert "2 of 3 comparisons that are expected to agree do so. 3 of 6 figures agree in all of theirs." in text
    assert "1 more comparisons are shown" not in text
    assert "1 more comparison is shown because it is known to differ" in text
    assert "≠ differs, as known" in text
    assert text.count("and 1 known to differ") == 1
    assert "Figure 2 disagrees somewhere." in text
    assert "Figure 3 failed." in text
    assert "Figure 5 was not drawn." in text
    assert "SizeError: too small (got 3). Use 4." in text
    assert "because &amp; so" in text


def test_two_processes_make_the_report_of_one(report, tmp_path):
    """Figures that fail, that miss a package and that disagree included."""
    beside = make_report([entry.spec for entry in report.entries], Settings(seed=5), tmp_path, n_jobs=2)
    assert [entry.error for entry in beside.entries] == [entry.error for entry in report.entries]
    for one, other in zip(report.entries, beside.entries, strict=True):
        assert (one.spec.number, one.checks, one.files) == (other.spec.number, other.checks, other.files)
        if one.dataset is not None:
            xr.testing.assert_identical(one.dataset, other.dataset)


def test_the_page_is_well_formed_escaped_and_self_contained(report):
    text = report.path.read_text()
    page = Tags()
    page.feed(text)
    assert page.open == []
    assert len(page.images) == 4
    for source in page.images:
        head, content = source.split(",", 1)
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(content)).tag == "{http://www.w3.org/2000/svg}svg"
    assert page.other == []
    for link in page.links:
        assert link.startswith("#") or (report.path.parent / link).is_file()
    assert "Title &lt;1&gt;" in text
    assert "markers &lt;b&gt;" in text
    assert "url(" not in re.sub(r"data:[^\"]*", "", text)


def test_it_says_how_to_run_each_part_again_and_with_what(report):
    text = report.path.read_text()
    assert "spikepool reproduce 2 --seed 5" in text
    assert "spikepool reproduce --seed 5" in text
    environment = dict(report.environment)
    assert environment["root seed"] == "5"
    assert environment["numpy"] == np.__version__
    assert "alignment, x" in text
    assert "0.757" in text
    assert "0.668 ± 0.0076" in text


def test_data_sets_are_saved_beside_it(report):
    path = report.path.parent / "data" / "figure-02-name-2.nc"
    with xr.open_dataset(path, engine="scipy") as loaded:
        assert loaded["y"].values.tolist() == [0.0, 0.9]
        assert loaded.attrs["seed"] == 5
    starts = {"png": b"\x89PNG", "svg": b"<?xml"}
    for extension, start in starts.items():
        assert (report.path.parent / "figures" / f"figure-02-name-2.{extension}").read_bytes().startswith(start)


def test_summary_is_plain_data(report):
    summary = json.loads(json.dumps(plain(report.summary())))
    assert [figure["verdict"] for figure in summary["figures"]][:3] == ["agrees", "disagrees", "failed"]
    assert summary["published"][0]["exact"] == 0.666
    assert summary["figures"][2]["error"].startswith("SizeError")


def test_rows_survive_the_data_set(tmp_path):
    rows = (PublishedRow("ä", 1.0, 2.0, 3.0, 0.1, "ω"), PublishedRow("b", 1.5, 2.5, 3.5, 0.2, "c"))
    save_dataset(xr.Dataset(row_variables(rows)), tmp_path / "rows.nc")
    with xr.open_dataset(tmp_path / "rows.nc", engine="scipy") as loaded:
        assert published_rows(loaded.load()) == rows


def test_a_report_that_cannot_be_written_fails_before_computing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    called = []
    with pytest.raises(OSError, match="file"):
        make_report([spec(1, failure=AssertionError(called.append(1)))], Settings(), blocked / "report")


def test_what_is_compared_across_figures_has_no_unit(report):
    """A distance with a limit and markers with standard errors meet in the share of what is allowed."""
    from spikepool.reproduce.base import within

    check = within("distance", 0.02, 0.05, "somewhere")
    assert check.share == pytest.approx(0.4)
    assert within("identity", 0.0, 0.0, "everywhere").share == 0  # an identity allows nothing
    assert check.sigmas is None
    biased = compare("x", [1.0, 2.0], [1.2, 2.0], [0.1, 0.1], bias=0.1)
    assert biased.share == pytest.approx(0.2 / (0.1 + 0.3))
    assert biased.sigmas == pytest.approx(1.0)
    text = report.path.read_text()
    assert "300 %" in text
    assert "Worst, absolute" not in text


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_in_both_themes_and_widths(report, browser):
    grounds = {}
    for scheme in ("light", "dark"):
        for width in (390, 1440):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(report.path.as_uri())
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            # every text keeps a contrast of 4.5 to 1 with its ground
            pairs = page.evaluate(
                """() => [...document.querySelectorAll("h1, p, td, th, .badge, .aside, dt, a, figcaption, summary")]
                    .map(e => {
                        const ground = g => getComputedStyle(g).backgroundColor;
                        let below = e;
                        while (ground(below) === "rgba(0, 0, 0, 0)") below = below.parentElement;
                        return [getComputedStyle(e).color, ground(below)];
                    })"""
            )
            assert len(pairs) > 50
            assert min(contrast(*pair) for pair in pairs) > 4.5
            grounds[scheme] = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            context.close()
    assert luminance(grounds["dark"]) < 0.05 < 0.9 < luminance(grounds["light"])


def luminance(color):
    channels = [int(v) / 255 for v in re.findall(r"\d+", color)[:3]]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)
