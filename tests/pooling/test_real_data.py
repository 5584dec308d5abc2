"""The benchmark of poolings on real sequences, on what every clone has: splice junctions, digits, texts made here."""

import gzip
import sys
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture(scope="module")
def benchmark(from_benchmarks):
    """The modules real_data and corpora of the folder of benchmarks."""
    return SimpleNamespace(real_data=from_benchmarks("real_data"), corpora=from_benchmarks("corpora"))


@pytest.mark.slow
def test_digits_gain_over_every_fixed_rule_and_the_record_adds_up(benchmark):
    data = benchmark.corpora.digits()
    small = type(data)(data.name, data.X[:900], data.mask[:900], data.labels[:900])
    record = benchmark.real_data.measure(small)
    methods = record["methods"]
    assert record["best_fixed"] == "concat"
    assert methods["auto"]["over_best"][0] > 0.08
    assert set(record["decisions"]["auto"]) <= {"flat", "positions"}
    for entry in methods.values():
        gain, error = entry["gain"]
        assert gain == pytest.approx(entry["accuracy"] - methods["mean"]["accuracy"])
        # a paired error is at most that of two independent accuracies
        assert error <= np.sqrt(2 * 0.25 / 900)
    assert record["predictions"] == 1800  # two splits of 900 rows
    row = benchmark.real_data.report({"digits": record}).splitlines()[-1]
    assert "| 900 × 2 |" in row
    assert f"{100 * methods['auto']['gain'][0]:+.1f} ±" in row
    again = benchmark.real_data.merge(record, benchmark.real_data.measure(small, ("mean", "last")))
    assert again["methods"]["last"]["gain"] == methods["last"]["gain"]
    assert again["best_fixed"] == "concat"


@pytest.mark.slow
def test_nothing_to_win_loses_nothing(benchmark):
    """Tokens that are all alike for the label: the automatic choice is the mean, row by row."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.normal(size=(600, 5, 6)) + np.eye(6)[y][:, None, :] * 0.7
    data = benchmark.corpora.Sequences("alike", X, np.ones((600, 5), dtype=bool), y)
    record = benchmark.real_data.measure(data, ("mean", "auto", "spectral"))
    assert record["methods"]["auto"]["gain"][0] >= -record["methods"]["auto"]["gain"][1]
    assert record["methods"]["spectral"]["gain"] == [0.0, 0.0]


def test_splice_is_read_as_three_letter_words(benchmark):
    data = benchmark.corpora.splice()
    assert data.X.shape == (3005, 58, 64)
    assert set(data.X.sum(axis=2).ravel()) == {0.0, 1.0}
    assert (data.X.sum(axis=2) == 0).mean() < 0.01  # ambiguous bases
    np.testing.assert_array_equal(np.bincount(data.labels) > 600, True)
    # the first sequence of the file begins with CCAGC
    words = [16 * "ACGT".index(a) + 4 * "ACGT".index(b) + "ACGT".index(c) for a, b, c in ("CCA", "CAG", "AGC")]
    np.testing.assert_array_equal(data.X[0, :3].argmax(axis=1), words)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_texts_come_from_a_folder(benchmark, tmp_path, suffix):
    content = "text,label\nwhere is my card,card\nhello,greeting\nwhere is my card,card\n  ,empty\nbye,greeting\n"
    path = tmp_path / f"requests.{suffix}"
    path.write_bytes(gzip.compress(content.encode()) if suffix.endswith("gz") else content.encode())
    texts = benchmark.corpora.load_texts("requests", tmp_path)
    assert texts.texts == ["hello", "where is my card", "bye"]  # once each, where it came last; no empty one
    np.testing.assert_array_equal(texts.labels, [1, 0, 1])
    sample = texts.sample(2, seed=1)
    assert [texts.labels[texts.texts.index(t)] for t in sample.texts] == list(sample.labels)
    with pytest.raises(FileNotFoundError, match="others"):
        benchmark.corpora.load_texts("others", tmp_path)
    with pytest.raises(FileNotFoundError, match="--texts"):
        benchmark.corpora.load_texts("requests")
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    with pytest.raises(KeyError, match="text"):
        benchmark.corpora.load_texts("odd", tmp_path)


def test_texts_come_from_the_hub(benchmark, tmp_path, monkeypatch):
    """Of the Parquet files that the hub offers, those of the first configuration, asked for by name."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    asked = []

    class Api:
        def list_repo_files(self, **where):
            asked.append(where)
            return ["default/test/0.parquet", "default/train/0.parquet", "other/train/0.parquet", "README.md"]

    def download(filename, **where):
        path = tmp_path / filename.replace("/", "-")
        parquet.write_table(pa.table({"text": [f"text of {filename}"], "label": [len(filename)]}), path)
        return path

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Api, hf_hub_download=download))
    texts = benchmark.corpora.load_texts("hub:someone/requests")
    assert texts.texts == ["text of default/test/0.parquet", "text of default/train/0.parquet"]
    assert asked[0]["repo_id"] == "someone/requests"
    assert texts.name == "someone_requests"


def test_errors_count_groups_and_folds_keep_them(benchmark):
    rng = np.random.default_rng(0)
    groups, labels = np.repeat(np.arange(60), 10), np.repeat(np.arange(60) % 2, 10)
    X = rng.normal(size=(600, 3, 4))
    data = benchmark.corpora.Sequences("grouped", X, np.ones((600, 3), dtype=bool), labels, groups)
    for train, test in benchmark.real_data.splits(data, 2, 0):
        assert not set(groups[train]) & set(groups[test])
    difference = np.repeat(rng.normal(size=60), 10)
    mean, error = benchmark.real_data.paired(difference, groups)
    assert mean == pytest.approx(difference.mean())
    assert error == pytest.approx(difference[::10].std(ddof=1) / np.sqrt(60))


def test_long_series_are_cut_into_pieces_of_whole_tokens(benchmark, tmp_path, monkeypatch):
    """Three series of 65 values: four arcs of two tokens of seven values each, nine values left over."""
    folder = tmp_path / "datasets" / "data" / "OSULeaf"
    folder.mkdir(parents=True)
    values = np.arange(3 * 65).reshape(3, 65)
    lines = [",".join(map(str, row)) + f":{label}" for row, label in zip(values, ("oak", "elm", "oak"), strict=True)]
    (folder / "OSULeaf_TRAIN.ts").write_text("@problemName OSULeaf\n@data\n" + "\n".join(lines[:2]) + "\n")
    (folder / "OSULeaf_TEST.ts").write_text("# a remark\n@data\n" + lines[2] + "\n")
    monkeypatch.setattr(benchmark.corpora, "package_folder", lambda name: tmp_path)
    data = benchmark.corpora.series("OSULeaf arcs")
    assert data.X.shape == (12, 2, 7)
    np.testing.assert_array_equal(data.X.reshape(3, 56), values[:, :56])
    np.testing.assert_array_equal(data.groups, np.repeat([0, 1, 2], 4))
    np.testing.assert_array_equal(data.labels, np.repeat([1, 0, 1], 4))
    whole = benchmark.corpora.series("OSULeaf")
    assert whole.X.shape == (3, 9, 7)
    assert whole.groups is None
