"""Declared constants: the value that is declared is the value in use."""

import importlib

from spikepool.kit.constants import DECLARED, constant


def test_a_declared_constant_is_listed_and_given_back():
    try:
        assert constant("kit.nothing.SEVEN", 7, "nothing", "a test") == 7
        assert DECLARED["kit.nothing.SEVEN"].decides == "nothing"
    finally:
        DECLARED.pop("kit.nothing.SEVEN", None)


def test_names_lead_to_their_values():
    for package in ("trust.diagnosis", "forecasting.forecast"):
        importlib.import_module(f"spikepool.{package}")
    assert DECLARED
    for name, declared in DECLARED.items():
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(f"spikepool.{module}"), attribute) is declared.value, name
