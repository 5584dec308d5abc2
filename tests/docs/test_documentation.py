"""Every code block of the documentation runs, every link inside it leads somewhere, and the site builds clean."""

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page, language):
    return [code for kind, code in BLOCK.findall(page.read_text()) if kind == language]


def name(page):
    return str(page.relative_to(ROOT / "docs"))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # one namespace a page, as a reader would paste them one after the other
    program = "\n".join(blocks(page, "python"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exec(compile(program, str(page), "exec"), {"__name__": "__documentation__"})
    assert program


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=name)
def test_commands_run(page, tmp_path):
    for code in blocks(page, "console"):
        for line in filter(None, code.splitlines()):
            program, *arguments = shlex.split(line, comments=True)
            assert program == "spikepool", "console blocks hold quick spikepool commands; use text for the rest"
            done = subprocess.run(
                [sys.executable, "-m", "spikepool.cli", *arguments],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_only_known_kinds_of_blocks():
    kinds = {kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text())}
    assert kinds <= {"python", "console", "text", "toml"}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    missing = [name(page) for page in PAGES if name(page) not in navigation]
    assert not missing


@pytest.mark.slow
def test_site_builds_without_warnings_and_has_no_dead_links(tmp_path):
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme's notice about its own future, as in the Makefile
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    site = tmp_path / "site"
    dead = []
    for html in site.rglob("*.html"):
        text = html.read_text()
        # formulas are MathML already; no page loads anything from a network
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', text), html
        for target in re.findall(r'(?:href|src)="([^"#?]+)', text):
            if re.match(r"[a-z]+:", target) or target.startswith("//"):
                continue
            path = (site / target.lstrip("/")) if target.startswith("/") else (html.parent / target)
            if not (path.exists() or (path / "index.html").exists()):
                dead.append(f"{html.relative_to(site)} -> {target}")
    assert not dead
