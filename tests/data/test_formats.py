"""One registry of formats: a toy format is read through every door, and tables of text are formats like the others."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

import spikepool as sp
from spikepool.cli import main
from spikepool.data import formats
from spikepool.data.blocks import ArrayBlocks
from spikepool.data.formats import Format, TensorEntry, register
from spikepool.data.opening import read_column
from spikepool.errors import RaggedError, TableFormatError

RNG = np.random.default_rng(0)
N, D = 120, 6
Y = np.arange(N) % 2
FEATURES = (RNG.normal(size=(N, D)) + (2 * Y - 1)[:, None]).astype(np.float32)
TOKENS = (RNG.normal(size=(N, 3, D)) + (2 * Y - 1)[:, None, None]).astype(np.float32)


def write_toy(path, array):
    """Four letters, the number of axes, the sizes, float32."""
    head = np.array([array.ndim, *array.shape], dtype="<u4")
    path.write_bytes(b"TOYS" + head.tobytes() + array.astype("<f4").tobytes())
    return path


def open_toy(location, request):
    content = location.read()
    ndim = int(np.frombuffer(content[4:8], "<u4")[0])
    shape = np.frombuffer(content[8 : 8 + 4 * ndim], "<u4")
    return ArrayBlocks(np.frombuffer(content[8 + 4 * ndim :], "<f4").reshape(shape), location.name)


@pytest.fixture
def toy():
    register(
        Format(
            "toy",
            (".toy",),
            formats.ROLES,
            lambda probe: probe.head.startswith(b"TOYS"),
            open_toy,
            lambda location: [TensorEntry(location.name, open_toy(location, None).shape, "float32")],
        )
    )
    yield
    del formats.FORMATS["toy"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_format_registered_once_is_read_by_every_door(toy, tmp_path, capsys):
    features, tokens = write_toy(tmp_path / "f.toy", FEATURES), write_toy(tmp_path / "t.toy", TOKENS)
    labels, mask = write_toy(tmp_path / "y.toy", Y), write_toy(tmp_path / "m.toy", np.ones((N, 3)))
    table = write_toy(tmp_path / "e.toy", RNG.normal(size=(300, 40)))
    assert sp.diagnose(features).verdict == sp.diagnose(FEATURES).verdict
    found, expected = sp.forecast(features, labels, n=[300]).accuracy, sp.forecast(FEATURES, Y, n=[300]).accuracy
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert sp.report(tokens, labels, mask=mask).plan.result is not None
    np.testing.assert_allclose(
        sp.SpectralPooling("mean").fit(tokens, mask=mask).transform(tokens, mask=mask), TOKENS.mean(axis=1), atol=1e-6
    )
    assert sp.LearnedPoolingClassifier(pooling="mean").fit(tokens, Y).score(tokens, Y) > 0.9
    assert sp.TableSpectrum.from_file(table, null_draws=0).shape_ == (300, 40)
    assert sp.compare_tables(table, table).change == 0
    assert sp.compare_checkpoints(table, table).weights[0].drift == 0
    for arguments in (
        ("diagnose", features),
        ("forecast", features, "-y", labels),
        ("pool", tokens, "-y", labels, "--mask", mask, "--pooling", "mean", "--out", tmp_path / "P.npy"),
        ("report", tokens, "-y", labels, "--out", tmp_path / "r.html"),
        ("spectrum", table),
        ("spectrum", table, "--list"),
        ("compare", table, table),
        ("compare", table, table, "--all"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        assert stop.value.code == 0, (arguments, capsys.readouterr().err)


def csv_text(separator=",", header=True):
    lines = [separator.join(["id", *(f"f{i}" for i in range(D)), "label", "text"])] if header else []
    for i, row in enumerate(FEATURES):
        said = f'"line {i}\nwith a ""quote"" and a {separator}"'
        lines.append(separator.join([str(i), *map(repr, row.tolist()), "up" if Y[i] else "down", said]))
    return "\n".join(lines) + "\n"


def json_lines(vector=False):
    rows = []
    for i, row in enumerate(FEATURES.tolist()):
        numbers = {"features": row} if vector else {f"f{k}": v for k, v in enumerate(row)}
        rows.append(json.dumps({**numbers, "label": "up" if Y[i] else "down", "text": f"line {i}"}))
    return "\n".join(rows) + "\n"


TABLES = {
    "t.csv": csv_text().encode(),
    "t.tsv": csv_text("\t").encode(),
    "semicolon.csv": csv_text(";").encode(),
    "bom.csv": b"\xef\xbb\xbf" + csv_text().encode(),
    "windows.csv": csv_text().replace("\n", "\r\n").encode(),
    "t.csv.gz": gzip.compress(csv_text().encode()),
    "t.jsonl": json_lines().encode(),
    "vector.jsonl": json_lines(vector=True).encode(),
    "t.jsonl.gz": gzip.compress(json_lines().encode()),
    "no-ending": csv_text().encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_text_hold_features_labels_and_texts(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(TABLES[name])
    source = sp.open_blocks(path)
    np.testing.assert_allclose(source.whole(), FEATURES, rtol=1e-7)
    np.testing.assert_allclose(source.take(np.array([3, 50, 119])), FEATURES[[3, 50, 119]], rtol=1e-7)
    small = source.with_borders([0, 50, 100, N])
    np.testing.assert_allclose(small.read(2), FEATURES[100:], rtol=1e-7)
    np.testing.assert_allclose(small.read(0), FEATURES[:50], rtol=1e-7)
    assert read_column(path).tolist() == ["up" if y else "down" for y in Y]
    assert read_column(path, role="texts")[7].startswith("line 7")
    assert read_column(path, "text", role="texts").shape == (N,)
    assert sp.diagnose(path).verdict == sp.diagnose(source.whole()).verdict


def test_a_label_column_is_never_a_feature(tmp_path):
    lines = ["a,b,c,d,answer"] + [",".join(map(str, [*row[:4], y])) for row, y in zip(FEATURES, Y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert sp.open_blocks(tmp_path / "t.csv").shape == (N, 5)
    assert sp.open_blocks(tmp_path / "t.csv", exclude=("answer",)).shape == (N, 4)
    with pytest.raises(SystemExit) as left:
        main(["forecast", str(tmp_path / "t.csv"), "--label-column", "answer"])
    assert left.value.code == 0
    (tmp_path / "y.csv").write_text("\n".join(["a,b,c,d,y", *lines[1:]]))
    assert sp.open_blocks(tmp_path / "y.csv").shape == (N, 4)


@pytest.mark.parametrize(
    ("name", "content", "error", "match"),
    [
        ("short.csv", "a,b\n1,2\n3\n", RaggedError, "row 1 is too short"),
        ("words.csv", "a,b\nx,y\nz,w\n", TableFormatError, "not a table of numbers"),
        ("late.csv", "a,b\n" + "1,2\n" * 150 + "1,oops\n", TableFormatError, "row 150.*oops"),
        ("wide.csv", ",".join(["1"] * 30_000) + "\n", TableFormatError, "10,000 columns"),
        ("broken.jsonl", '{"a": 1}\n{"a": \n', TableFormatError, "line 2 is not JSON"),
        ("list.jsonl", '{"a": 1}\n[1]\n', TableFormatError, "not an object"),
        ("lacks.jsonl", '{"a": 1, "b": 2}\n{"a": 1}\n', RaggedError, "lacks"),
        ("page.npy", "<html>404</html>", TableFormatError, "damaged"),
        ("empty.csv", "", TableFormatError, "empty"),
        ("header.csv", "a,b\n", TableFormatError, "no rows"),
    ],
)
def test_tables_of_text_that_are_broken_are_named(name, content, error, match, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(error, match=match):
        sp.open_blocks(tmp_path / name).whole()


@pytest.mark.slow
def test_a_gzip_bomb_is_stopped(tmp_path):
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress((b"a" * 4000 + b",1\n") * 20_000))
    with pytest.raises(TableFormatError, match="expand"):
        sp.open_blocks(tmp_path / "bomb.csv.gz")


WITHOUT_FSSPEC = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fsspec", *sys.argv[2:]):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import os, numpy as np
import spikepool as sp
os.chdir(sys.argv[1])
print(sp.diagnose("f.npy").verdict, sp.forecast("f.npy", "y.npy").accuracy[0], sp.report("f.npy", "y.npy").source)
print(sp.TableSpectrum.from_file("e.npy", null_draws=0).shape_, sp.open_blocks("t.csv").shape)
if "pyarrow" not in sys.argv:
    print(sp.open_blocks("f.parquet").shape)
try:
    sp.diagnose("words.csv")
except sp.SpikepoolError as err:
    print(err)
"""


@pytest.mark.slow
@pytest.mark.parametrize("missing", [[], ["pyarrow"]])
def test_local_files_need_neither_fsspec_nor_what_their_format_does_not_need(missing, tmp_path):
    np.save(tmp_path / "f.npy", FEATURES)
    np.save(tmp_path / "y.npy", Y)
    np.save(tmp_path / "e.npy", RNG.normal(size=(300, 40)))
    (tmp_path / "t.csv").write_text(csv_text())
    (tmp_path / "words.csv").write_text("question,answer\nwhy,because\n")
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"features": FEATURES.tolist()}), tmp_path / "f.parquet")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_FSSPEC, str(tmp_path), *missing],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "fsspec" not in done.stdout
    assert "not a table of numbers" in done.stdout
