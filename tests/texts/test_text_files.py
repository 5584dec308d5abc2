"""Tables of texts, and bad ones: named errors or right results."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import SpikepoolError
from spikepool.texts.files import holds_texts, read_text_table

ROWS = [("hello there", "greet"), ("bye now", "leave"), ("hi, you", "greet"), ("see you", "leave")]


def write_csv(path, rows=ROWS, header=("text", "label"), separator=","):
    lines = [separator.join(header), *(separator.join(f'"{cell}"' for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_formats_give_the_same_table(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    del pyarrow
    frame = pandas.DataFrame(ROWS, columns=["text", "label"])
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"text": t, "label": y}) for t, y in ROWS))
    frame.to_parquet(tmp_path / "t.parquet")
    write_csv(tmp_path / "t.csv")
    write_csv(tmp_path / "t.tsv", separator="\t")
    with gzip.open(tmp_path / "t.csv.gz", "wt") as stream:
        stream.write((tmp_path / "t.csv").read_text())
    for source in (frame, *(tmp_path / f"t.{end}" for end in ("csv", "tsv", "csv.gz", "jsonl", "parquet"))):
        table = read_text_table(source)
        assert table.texts == [t for t, _ in ROWS]
        assert table.labels.tolist() == [y for _, y in ROWS]
        assert any("'text' is taken for the texts" in note for note in table.notes)


def test_missing_labels_are_counted(tmp_path):
    rows = [("a", "x"), ("b", ""), ("c", "NaN"), ("d", "y")]
    table = read_text_table(write_csv(tmp_path / "t.csv", rows))
    assert table.labelled.tolist() == [True, False, False, True]
    assert table.labels[table.labelled].tolist() == ["x", "y"]
    assert any("2 of 4 rows have no label" in note for note in table.notes)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "frame"])
def test_texts_under_an_unusual_name_are_asked_for(tmp_path, form):
    """`report` must not take the column of numbers beside them for features."""
    pandas = pytest.importorskip("pandas")
    rows = [(f"this is message {i}", "ab"[i % 2], i, i * i % 7) for i in range(30)]
    frame = pandas.DataFrame(rows, columns=["What was said", "label", "size", "age"])
    source = frame if form == "frame" else tmp_path / f"t.{form}"
    if form == "csv":
        frame.to_csv(source, index=False)
    elif form == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    elif form == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(source)
    with pytest.raises(SpikepoolError, match=r"which column holds the texts.*What was said"):
        sp.report(source)


def test_short_words_beside_numbers_are_not_texts(tmp_path):
    rows = [(str(i), "red" if i % 2 else "dark green") for i in range(30)]
    assert not holds_texts(write_csv(tmp_path / "t.csv", rows, header=("size", "colour")))


def test_a_column_without_labels_names_the_others(tmp_path):
    path = write_csv(tmp_path / "t.csv", [("a", "", "x"), ("b", "", "y")], header=("text", "label", "kind"))
    with pytest.raises(SpikepoolError, match=r"every label.*--label-column\): kind"):
        read_text_table(path)


def test_numbers_as_labels(tmp_path):
    table = read_text_table(write_csv(tmp_path / "t.csv", [("a", "1"), ("b", "2")]))
    assert table.labels.dtype.kind == "i"
    table = read_text_table(write_csv(tmp_path / "u.csv", [("a", "1.5"), ("b", "2")]))
    assert table.labels.dtype.kind == "f"


BAD = {
    "ragged.csv": b"text,label\na,b\nc\n",
    "empty.csv": b"",
    "header_only.csv": b"text,label\n",
    "latin1.csv": "text,label\ncaf\xe9,x\n".encode("latin-1"),
    "nul.csv": b"text,label\na\x00b,c\n",
    "no_text.csv": b"colour,label\na,b\n",
    "twice.csv": b"text,text,label\na,b,c\n",
    "all_missing.csv": b"text,label\na,\nb,\n",
    "quote.csv": b'text,label\n"a,b\n',
    "html.csv": b"<html><body>not a table</body></html>",
    "lines.jsonl": b'{"text": "a", "label": "b"}\nnot json\n',
    "lacks.jsonl": b'{"text": "a", "label": "b"}\n{"text": "c"}\n',
    "list.jsonl": b"[1, 2]\n[3, 4]\n",
    "cut.parquet": b"PAR1\x00\x00",
    "cut.csv.gz": b"\x1f\x8b\x08\x00garbage",
    "pickle.csv": b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00.",
    "broken_utf8.csv": b"text,label\n" + b"a,b\n" * 50 + b"\xff\xfe,c\n",
    "longer_row.csv": b"text,label\na,b\nc,d,e\n",
    "empty_header.csv": b",\na,b\n",
    "nested.jsonl": b'{"text": {"a": 1}, "label": "b"}\n' * 3,
    "deep.jsonl": b"[" * 100_000,
    "number.jsonl": b"17\n18\n",
    "wrong_name.npz": b"text,label\na,b\n",
    "zip.csv": b"PK\x03\x04" + bytes(60),
    "binary.tsv": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_errors(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BAD[name])
    with pytest.raises(SpikepoolError) as caught:
        read_text_table(path)
    assert str(caught.value)


def test_awkward_files_are_read_right(tmp_path):
    rows = [("=SUM(A1)", "<script>alert(1)</script>"), ("x" * 200_000, "a&b"), ("line\nbreak", "class \u2603")]
    table = read_text_table(write_csv(tmp_path / "t.csv", rows))
    assert table.texts == [t for t, _ in rows]
    assert table.labels.tolist() == [y for _, y in rows]
    bom = tmp_path / "bom.csv"
    bom.write_bytes(b"\xef\xbb\xbftext,label\na,b\n")
    assert read_text_table(bom).columns["texts"] == "text"


@pytest.mark.slow
def test_labels_that_leave_nothing_to_learn_are_named(tmp_path):
    def wide(texts):
        return [np.random.default_rng(len(text)).normal(size=(3, 8)) for text in texts]

    many = [(f"text {i}", f"class {i}") for i in range(3000)]
    one = [(text, "same") for text, _ in toy_rows(60)]
    few = toy_rows(6)
    for rows, message in ((many, "3,000 classes"), (one, "one class|two classes"), (few, "too few|at least|few")):
        path = write_csv(tmp_path / "t.csv", rows)
        try:
            page = sp.report(path, encoder=wide)
        except SpikepoolError as err:
            said = str(err)
        else:
            said = page.to_html()
        assert re.search(message, said), said[:300]
    with pytest.raises(SpikepoolError, match=r"folder|file"):
        read_text_table(tmp_path)


def test_a_huge_field_and_formulas_survive(tmp_path):
    rows = [("w " * 2_000_000, "=cmd|'/c calc'!A1"), ("@SUM(1)", "+1"), ("-2", "tab\tinside")]
    table = read_text_table(write_csv(tmp_path / "t.csv", rows))
    assert [len(text) for text in table.texts] == [len(text) for text, _ in rows]
    assert table.labels.tolist() == [label for _, label in rows]


def test_columns_by_name_and_unknown_ones(tmp_path):
    path = write_csv(tmp_path / "t.csv", [("a", "b"), ("c", "d")], header=("words", "kind"))
    table = read_text_table(path, text="words", label="kind")
    assert table.texts == ["a", "c"]
    with pytest.raises(ValueError, match="no column 'nope'"):
        read_text_table(path, text="nope")
    with pytest.raises(ValueError, match="which column holds the texts"):
        read_text_table(path)


def embed(texts):
    """Two coordinates per word: its length, and whether it holds an o."""
    return [np.array([[len(w), float("o" in w)] for w in text.split() or [""]]) for text in texts]


def toy_rows(n):
    rng = np.random.default_rng(0)
    words = {"greet": ["hello", "hoi", "good"], "leave": ["bye", "lets", "see"]}
    labels = ["greet" if i % 2 else "leave" for i in range(n)]
    return [(" ".join(rng.choice(words[y], 4)), y) for y in labels]


@pytest.mark.slow
def test_report_from_a_file_of_texts(tmp_path):
    rows = toy_rows(120)
    rows[7] = (rows[7][0], "")
    found = sp.report(write_csv(tmp_path / "t.csv", rows), encoder=embed)
    assert "120 texts" in found.source
    assert found.choose.result is not None
    assert len(found.choose.result.classes_) == 2
    assert any("1 of 120 rows have no label" in note for note in found.notes)
    page = found.to_html()
    assert "greet" in page
    assert "Each class" in page


def test_report_escapes_labels_and_texts(tmp_path):
    rows = [(text, "<script>alert(1)</script>" if y == "greet" else y) for text, y in toy_rows(80)]
    page = sp.report(write_csv(tmp_path / "t.csv", rows), encoder=embed).to_html()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_report_takes_a_list_and_a_frame():
    rows = toy_rows(80)
    texts, labels = [t for t, _ in rows], [y for _, y in rows]
    one = sp.report(texts, labels, encoder=embed)
    pandas = pytest.importorskip("pandas")
    two = sp.report(pandas.DataFrame(rows, columns=["utterance", "intent"]), encoder=embed)
    assert one.choose.verdict == two.choose.verdict
