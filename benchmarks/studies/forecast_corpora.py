"""Labelled corpora that a Debian system holds or installs, for benchmarks/studies/forecast.py.

debian    one-line descriptions of packages (``apt-cache dumpavail``) by section: unequal classes, overlapping sections.
          One package of each source, sections of 60 sources and more, 12,000 texts at random.
wordnet   glosses of WordNet 3.0 (package wordnet-base) by lexicographer file (noun.animal, verb.motion, ...): files
          with 150 glosses and more, at most 600 of each, 12,000 texts at random.
fortunes  sayings of the packages fortunes and fortunes-min by file: files with 60 and more, 12,000 texts at random.
foldoc    first paragraphs of the computing dictionary (package dict-foldoc) by first category: categories with 60 and
          more, all of them.
verses    verses of the King James Bible (packages bible-kjv, bible-kjv-text) by book: books with 150 verses and more,
          12,000 texts at random.
uses      descriptions of packages, one of each source, by the first of their "use" tags: uses of 60 sources and more.
unicode   names of characters (package unicode-data) without CJK and Hangul, by general category: categories with 100
          and more, at most 2,000 of each, 12,000 at random.
satellite, letters
          tables of measurements (package r-cran-mlbench): 36 values of a satellite's pixels in 6 kinds of soil, and 16
          of printed letters. Read with the package rdata.

    apt-get install wordnet-base fortunes fortunes-min dict-foldoc bible-kjv unicode-data r-cran-mlbench
    pip install rdata
    python benchmarks/studies/forecast_corpora.py --out corpora

The packages of another release give another corpus; the stored truth is of Debian 12.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TEXTS = 12_000
LEAST_SOURCES, LEAST_GLOSSES, MOST_GLOSSES = 60, 150, 600
LEAST_SAYINGS, LEAST_ENTRIES, LEAST_VERSES, LEAST_USES = 60, 60, 150, 60
LEAST_CHARACTERS, MOST_CHARACTERS = 100, 2000
MEASURED = {"satellite": ("Satellite", "classes"), "letters": ("LetterRecognition", "lettr")}
SHORTEST = 15
NO_TOPIC = {"debug", "oldlibs", "metapackages", "localization", "translations", "introspection"}


def packages() -> Iterator[tuple[str, str, str]]:
    """Description, source and whole entry of every package that is available."""
    listing = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    for entry in listing.split("\n\n"):
        text = re.search(r"^Description(?:-en)?: (.+)$", entry, re.MULTILINE)
        source = re.search(r"^Source: (\S+)", entry, re.MULTILINE) or re.search(r"^Package: (\S+)", entry, re.MULTILINE)
        if text and source:
            yield text[1].strip(), source[1], entry


def package_descriptions(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Description and section of one package of each source."""
    found: dict[str, tuple[str, str]] = {}
    for text, source, entry in packages():
        section = re.search(r"^Section: (?:.*/)?(.+)$", entry, re.MULTILINE)
        if section and section[1] not in NO_TOPIC:
            found.setdefault(text, (section[1], source))
    of_source: dict[str, tuple[str, str]] = {}
    for description, (label, origin) in found.items():
        of_source.setdefault(origin, (description, label))
    sizes = Counter(label for _, label in of_source.values())
    rows = [row for row in of_source.values() if sizes[row[1]] >= LEAST_SOURCES]
    return [rows[i] for i in rng.permutation(len(rows))[:TEXTS]]


def glosses(folder: Path, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Gloss, without examples, and number of the lexicographer file."""
    found: dict[str, str] = {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text().splitlines():
            if not line.startswith("  "):  # the licence
                head, gloss = line.split(" | ", 1)
                found.setdefault(gloss.split('; "')[0].strip(), head.split()[1])
    sizes, kept, count = Counter(found.values()), [], Counter[str]()
    rows = [row for row in found.items() if sizes[row[1]] >= LEAST_GLOSSES]
    for i in rng.permutation(len(rows)):
        if count[rows[i][1]] < MOST_GLOSSES:
            kept.append(rows[i])
            count[rows[i][1]] += 1
    return [kept[i] for i in rng.permutation(len(kept))[:TEXTS]]


def sayings(folder: Path, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Saying and file; the lists in other encodings and the indices of the program are left out."""
    found: dict[str, str] = {}
    for path in sorted(path for path in folder.iterdir() if not path.suffix):
        for item in path.read_text(encoding="utf-8").split("\n%\n"):
            text = " ".join(item.split())
            if len(text) > SHORTEST:
                found.setdefault(text, path.name)
    return frequent(found, LEAST_SAYINGS, rng)


def dictionary_entries(path: Path, rng: np.random.Generator) -> list[tuple[str, str]]:
    """First paragraph of an entry and the first of its categories, "<operating system, standard> ..."."""
    raw = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    found: dict[str, str] = {}
    for entry in re.finditer(r"^   <([a-z][a-z ,/-]*)> (.*?)\n\n", raw, re.MULTILINE | re.DOTALL):
        text = " ".join(re.sub(r"[{}]", "", entry[2]).split())
        if len(text) > SHORTEST:
            found.setdefault(text, entry[1].split(",")[0].strip())
    return frequent(found, LEAST_ENTRIES, rng)


def verses(program: str, folder: Path, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Verse and abbreviation of its book, from the program's lines "Ge1:1 In the beginning ..."."""
    command = [program, "-p", str(folder), "-f", "Gen1:1-Rev22:21"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = {}
    for line in listing.splitlines():
        verse = re.match(r"(\d?[A-Za-z]+)\d+:\d+ (.+)", line)
        if verse:
            found.setdefault(verse[2].strip(), verse[1])
    return frequent(found, LEAST_VERSES, rng)


def uses(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Description and first "use" tag of one package of each source."""
    found: dict[str, str] = {}
    sources: set[str] = set()
    for text, source, entry in packages():
        tags = re.search(r"^Tag: (.+(?:\n .+)*)$", entry, re.MULTILINE)
        use = re.search(r"use::([a-z-]+)", tags[1]) if tags else None
        if use and source not in sources:
            sources.add(source)
            found.setdefault(text, use[1])
    return frequent(found, LEAST_USES, rng)


def character_names(path: Path, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Name and general category of characters that have a name of their own."""
    fields = [line.split(";")[1:3] for line in path.read_text().splitlines()]
    found = {name.lower(): category for name, category in fields if not re.match(r"<|CJK|HANGUL", name)}
    rows, count = frequent(found, LEAST_CHARACTERS, rng, most=len(found)), Counter[str]()
    kept = []
    for name, category in rows:
        count[category] += 1
        if count[category] <= MOST_CHARACTERS:
            kept.append((name, category))
    return kept[:TEXTS]


def write_measurements(name: str, folder: Path, out: Path) -> None:
    """A table of numbers and its classes, as they are, to ``name.npz``."""
    import rdata

    table, target = MEASURED[name]
    frame = rdata.read_rda(folder / f"{table}.rda")[table]
    X = frame.drop(columns=target).to_numpy(dtype=np.float64)
    np.savez_compressed(out / f"{name}.npz", X=X, labels=frame[target].astype(str).to_numpy(dtype=np.str_))
    print(f"{name}: {len(X)} rows of {X.shape[1]}, {frame[target].nunique()} classes")


def frequent(found: dict[str, str], least: int, rng: np.random.Generator, most: int = TEXTS) -> list[tuple[str, str]]:
    """Texts of the labels with so many texts, in random order."""
    sizes = Counter(found.values())
    rows = [row for row in found.items() if sizes[row[1]] >= least]
    return [rows[i] for i in rng.permutation(len(rows))[:most]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("corpora"))
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the packages are unpacked")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    share, rng, later = options.root / "usr/share", np.random.default_rng(2026), np.random.default_rng(2027)
    last = np.random.default_rng(2028)
    corpora = {
        "debian": lambda: package_descriptions(rng),
        "wordnet": lambda: glosses(share / "wordnet", rng),
        "fortunes": lambda: sayings(share / "games/fortunes", later),
        "foldoc": lambda: dictionary_entries(share / "dictd/foldoc.dict.dz", later),
        "verses": lambda: verses(str(options.root / "usr/bin/bible"), options.root / "usr/lib", later),
        "uses": lambda: uses(last),
        "unicode": lambda: character_names(share / "unicode/UnicodeData.txt", last),
    }
    for name, collect in corpora.items():
        try:
            rows = collect()
        except (OSError, subprocess.SubprocessError) as err:
            print(f"{name}: skipped, its Debian package is not installed ({err})")
            continue
        with gzip.open(options.out / f"{name}.csv.gz", "wt") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
        print(f"{name}: {len(rows)} texts, {len({label for _, label in rows})} classes")
    for name in MEASURED:
        try:
            write_measurements(name, options.root / "usr/lib/R/site-library/mlbench/data", options.out)
        except OSError as err:
            print(f"{name}: skipped, the Debian package r-cran-mlbench is not installed ({err})")


if __name__ == "__main__":
    main()
