"""Small files that ask for much: each is refused by a named error, or read, within 512 MB and 10 seconds."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from bombs import bombs

import spikepool as sp
from spikepool.data.table_input import open_table

pytest.importorskip("pyarrow")

# Reads every file named on its standard input; prints what came of it, the seconds of processor and the peak memory.
READER = """
import json, re, sys, time
from pathlib import Path
import pyarrow, pyarrow.parquet
import spikepool as sp
from spikepool.data.table_input import open_table
from spikepool.data.opening import open_blocks
for file in json.load(sys.stdin):
    start = time.process_time()
    if file.endswith((".parquet", ".arrow")):  # features are read through another door
        try:
            for _ in open_blocks(file).chunks():
                pass
        except sp.SpikepoolError:
            pass
    try:
        rows = sum(len(block) for block in open_table(file).blocks())
        outcome = f"read {rows} rows"
    except sp.SpikepoolError as error:
        outcome = f"refused: {error}"
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    print(json.dumps([file, outcome, time.process_time() - start, peak]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_corpus_of_bombs(tmp_path):
    files = [str(file) for file in bombs(tmp_path)]
    assert len(files) >= 30
    for file in files:
        assert 0 < (tmp_path / file).stat().st_size < 1 << 20
    process = subprocess.run(
        [sys.executable, "-c", READER],
        input=json.dumps(files),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    results = [json.loads(line) for line in process.stdout.splitlines()]
    assert [r[0] for r in results] == files
    for file, outcome, seconds, peak in results:
        assert peak < 512 << 20, (file, outcome, peak >> 20)
        assert seconds < 10, (file, outcome, seconds)
    refused = [r for r in results if r[1].startswith("refused")]
    assert len(refused) >= 30


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_ordinary_parquet_and_arrow_files_are_read(tmp_path, compression):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.random.default_rng(0).standard_normal((300, 24)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 24)
    constant = np.zeros((500, 40), dtype=np.float32)  # compresses a thousand times, and fits in a pocket
    for name, array in (("random", X), ("constant", constant)):
        plain = pa.ListArray.from_arrays(pa.array(np.arange(len(array) + 1) * array.shape[1]), pa.array(array.ravel()))
        table = pa.table({"e": plain if name == "constant" else lists})
        pq.write_table(table, tmp_path / f"{name}.parquet", compression=compression)
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        file = str(tmp_path / f"{name}.arrow")
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        for suffix in ("parquet", "arrow"):
            source = open_table(tmp_path / f"{name}.{suffix}")
            assert source.shape == array.shape
            np.testing.assert_array_equal(np.vstack(list(source.blocks(7))), array)


def test_a_list_column_that_lies_about_its_length_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = pa.array([[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0]])
    pq.write_table(pa.table({"e": lists}), tmp_path / "a.parquet")
    with pytest.raises(sp.RaggedError, match="lengths"):
        list(open_table(tmp_path / "a.parquet").blocks())
