"""Text files in other encodings are read where the encoding is known, and named where it is not."""

import pytest

from spikepool.cli import main

ROWS = "text,label\n" + "".join(f"café number {i},{'ab'[i % 2]}\n" for i in range(12))


@pytest.fixture
def encoded(tmp_path, capsys):
    pytest.importorskip("onnxruntime", reason="the text extra is not installed")

    def run(data, *options):
        file = tmp_path / "data.csv"
        file.write_bytes(data)
        with pytest.raises(SystemExit) as left:
            main(["encode", str(file), "--out", str(tmp_path / "out.npz"), "--overwrite", "--layers", "last", *options])
        return left.value.code, capsys.readouterr().err

    return run


def test_another_encoding_is_named_with_the_option(encoded):
    code, said = encoded(ROWS.encode("cp1252"))
    assert code != 0
    assert "is not UTF-8" in said
    assert "--encoding cp1252" in said
    assert "damaged" not in said


def test_the_option_reads_it_and_ends_with_the_command(encoded):
    assert encoded(ROWS.encode("cp1252"), "--encoding", "cp1252")[0] == 0
    assert encoded(ROWS.encode("cp1252"))[0] != 0
    code, said = encoded(ROWS.encode(), "--encoding", "nonsense")
    assert code == 2
    assert "'nonsense' is not an encoding" in said


def test_utf_16_is_recognised(encoded):
    assert encoded(ROWS.encode("utf-16"))[0] == 0
