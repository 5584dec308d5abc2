"""Every code block of the documentation runs, every link inside it leads somewhere, and the site builds clean."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spikepool.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?")

specification = importlib.util.spec_from_file_location("write_outputs", ROOT / "docs" / "write_outputs.py")
outputs = importlib.util.module_from_spec(specification)
specification.loader.exec_module(outputs)


def values(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def blocks(page, language):
    return [code for kind, code in BLOCK.findall(page.read_text()) if kind == language]


def name(page):
    return str(page.relative_to(ROOT / "docs"))


@pytest.mark.slow
@pytest.mark.parametrize("page", outputs.pages(), ids=lambda page: page.stem)
def test_pages_show_what_their_code_prints_and_draws(page, tmp_path, monkeypatch):
    """The same words, numbers to within what another BLAS moves; ``python docs/write_outputs.py`` writes them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for place, printed, figure in outputs.runs(page):
        shown = place["text"] or ""
        assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
        for now, then in zip(values(printed), values(shown), strict=True):
            assert abs(now - then) <= max(0.011, 0.1 * abs(then)), printed
        assert (figure is not None) == bool(place["picture"])
        assert not place["picture"] or (page.parent / place["picture"]).exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=name)
def test_commands_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code in blocks(page, "console"):
        for line in filter(None, code.splitlines()):
            program, *arguments = shlex.split(line, comments=True)
            assert program == "spikepool", "console blocks hold quick spikepool commands; use text for the rest"
            with pytest.raises(SystemExit) as left:
                main(arguments)
            assert left.value.code == 0, f"{line}\n{capsys.readouterr().err}"


def test_only_known_kinds_of_blocks():
    kinds = {kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text())}
    assert kinds <= {"python", "output", "console", "text", "toml", "bibtex"}


def test_evidence_that_is_named_exists():
    missing = []
    for page in PAGES:
        for file, function in re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", page.read_text()):
            path = ROOT / file
            if not path.is_file() or (function and f"def {function}(" not in path.read_text()):
                missing.append(f"{name(page)}: {file}::{function}")
    assert not missing


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    missing = [name(page) for page in PAGES if name(page) not in navigation]
    assert not missing


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; the build may not even warn."""
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme's notice about its own future, as in the Makefile
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_site_has_no_dead_links_and_fetches_nothing(site):
    dead = []
    for html in site.rglob("*.html"):
        text = html.read_text()
        # no page loads anything from a network
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', text), html
        # cross-references of docstrings are links or code, not raw roles
        assert not re.search(r":(?:func|class|mod|meth|attr|data|exc):<code>", text), html
        for target in re.findall(r'(?:href|src)="([^"#?]+)', text):
            if re.match(r"[a-z]+:", target) or target.startswith("//"):
                continue
            path = (site / target.lstrip("/")) if target.startswith("/") else (html.parent / target)
            if not (path.exists() or (path / "index.html").exists()):
                dead.append(f"{html.relative_to(site)} -> {target}")
    assert not dead


# what sticks out: the page, a displayed formula or its column, a line of an inline formula
OVERFLOW = """() => {
    const found = [], root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide`);
    for (const place of document.querySelectorAll(".arithmatex")) {
        const source = place.querySelector("annotation").textContent;
        if (place.tagName === "DIV") {
            if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) found.push(source);
            if (parseFloat(place.style.fontSize || "1") < 0.8) found.push(`too small to read: ${source}`);
        } else {
            const column = place.closest("p, li, td, h1, h2, h3, article").getBoundingClientRect();
            const lines = [...place.querySelector(".katex-html").getClientRects()];
            if (lines.some((line) => line.right > column.right + 1)) found.push(source);
        }
    }
    return found;
}"""


@pytest.mark.slow
@pytest.mark.browser
def test_every_formula_is_drawn_and_fits_phone_and_desktop(site, browser):
    """One visit per page and width; only the site's own files are served."""
    sources = {page: re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL) for page in PAGES}
    formulas = [page for page, text in sources.items() if "$" in text or "\\(" in text]
    assert len(formulas) >= 10
    for width in (1440, 390):
        context = browser.new_context(viewport={"width": width, "height": 900})
        page, errors = context.new_page(), []
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        # the files are read from disk: neither a server nor a network is needed
        context.route("**/*", lambda route: fulfil(route, site))
        for source in formulas:
            place = name(source).removesuffix(".md").removesuffix("index")
            page.goto(f"http://documentation.invalid/{place}")
            page.evaluate("() => document.fonts.ready")
            page.wait_for_function("() => document.querySelectorAll('.katex').length > 0")
            assert page.evaluate("() => document.querySelectorAll('.katex-error').length") == 0
            drawn = page.evaluate("() => document.querySelectorAll('.arithmatex .katex-html').length")
            assert drawn == page.evaluate("() => document.querySelectorAll('.arithmatex').length")
            assert "\\(" not in page.inner_text("article"), source
            assert page.evaluate(OVERFLOW) == [], f"{place} at {width}"
            # letters of formulas come from the fonts that are shipped, whatever the machine has
            assert page.evaluate(
                "() => document.fonts.check('16px KaTeX_Math') && document.fonts.check('16px KaTeX_Main')"
            )
        assert errors == []
        context.close()


def fulfil(route, site):
    path = site / route.request.url.split("/", 3)[3].split("?")[0].split("#")[0]
    path = path / "index.html" if path.is_dir() else path
    if path.is_file():
        route.fulfill(path=str(path))
    else:
        route.fulfill(status=404, body="")


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_code_on_pages_fits_a_narrow_column(page):
    assert [line for code in blocks(page, "python") for line in code.splitlines() if len(line) > 80] == []
