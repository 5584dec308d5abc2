import json
import subprocess
import sys
from pathlib import Path

import pytest
from malformed_tables import CANARY, cases

NAMES = list(cases(Path()))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What opening each file of the corpus gives, in a process that may not grow by more than a gibibyte."""
    folder = tmp_path_factory.mktemp("malformed")
    for name, (content, _) in cases(folder).items():
        (folder / name).write_bytes(content())
    script = Path(__file__).with_name("malformed_tables.py")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=True)
    assert not list(folder.rglob(CANARY)), "a pickle was executed"
    return json.loads(done.stdout.splitlines()[-1])


def test_corpus_is_large_enough():
    assert len(NAMES) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_named_error(outcome, name):
    kind, message = outcome[name]
    assert kind == cases(Path())[name][1], message
    assert len(message) > 20


@pytest.mark.slow
def test_refused_pickles_say_what_to_do(outcome):
    for name in ("weights.bin", "pickle.safetensors", "objects.npy", "torch.npz"):
        assert "safetensors" in outcome[name][1]


def test_a_trap_would_have_been_noticed(tmp_path):
    import pickle

    from malformed_tables import Trap

    pickle.loads(pickle.dumps(Trap(tmp_path)))
    assert (tmp_path / CANARY).exists()
