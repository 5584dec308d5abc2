"""Learned poolings: what folds keep apart, and what does not change the fit."""

import os
import subprocess
import sys

import numpy as np
import pytest

import spikepool as sp


@pytest.mark.slow
def test_repeated_rows_and_groups_do_not_leak_between_folds():
    """Labels are noise. Rows that come twice could be recognised across folds, and groups have tokens in common."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4, 40)), rng.integers(0, 2, 60)
    twice = sp.LearnedPoolingClassifier().fit(np.concatenate([X, X]), np.concatenate([y, y]))
    assert max(c.score for c in twice.candidates_) < 0.65
    noisy = np.repeat(X, 2, axis=0) + 1e-3 * rng.normal(size=(120, 4, 40))
    groups = np.repeat([f"author {i}" for i in range(60)], 2)
    leaking = sp.LearnedPoolingClassifier().fit(noisy, np.repeat(y, 2))
    grouped = sp.LearnedPoolingClassifier().fit(noisy, np.repeat(y, 2), groups=groups)
    assert max(c.score for c in leaking.candidates_) > 0.75  # the leak is real, and groups close it
    assert max(c.score for c in grouped.candidates_) < 0.65
    with pytest.raises(sp.ShapeError, match="groups"):
        sp.LearnedPoolingClassifier().fit(X, y, groups=groups)


@pytest.mark.slow
def test_the_fit_does_not_depend_on_the_number_of_threads():
    program = (
        "import numpy as np, spikepool as sp, hashlib\n"
        "from spikepool.pooling import learned_base\n"
        "learned_base.THREADED_SIZE = 0\n"
        "rng = np.random.default_rng(1); X = rng.normal(size=(400, 9, 70)); X[:, 3, 0] *= 3\n"
        "where = rng.integers(0, 9, 400); X[np.arange(400), where, 1] += 6; marked = X[np.arange(400), where, 2] > 0\n"
        "for y in (X[:, 3, 0] > 0, marked):\n"
        "    f = sp.LearnedPoolingClassifier().fit(X, y)\n"
        "    print(f.decision_, hashlib.sha256(f.coef_.tobytes() + f.head_weights_.tobytes()).hexdigest())\n"
    )
    prints = set()
    for threads in ("1", "3"):
        env = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
        prints.add(done.stdout)
    assert len(prints) == 1
    assert [line.split()[0] for line in prints.pop().splitlines()] == ["flat", "query"]


def test_few_rows_and_equal_tokens_fall_back_to_the_mean():
    rng = np.random.default_rng(0)
    few = sp.LearnedPoolingClassifier().fit(rng.normal(size=(6, 9, 3)), [0, 1] * 3)
    assert few.decision_ == "mean"
    assert "too few" in few.summary()
    equal = sp.LearnedPoolingClassifier().fit(np.ones((60, 4, 3)), [0, 1, 1] * 20)
    assert equal.decision_ == "mean"
    assert equal.score(np.ones((3, 4, 3)), [1, 1, 1]) == 1.0
    single = sp.LearnedPoolingClassifier().fit(rng.normal(size=(60, 1, 3)), [0, 1, 1] * 20)
    assert "single position" in single.summary()
