"""Results as text, plain values and HTML."""

import json
import math

import numpy as np
import pytest

from spikepool.errors import InvalidInputError
from spikepool.kit.pages import html_table
from spikepool.kit.results import plain, to_json
from spikepool.kit.text import number, one_line, plot_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (True, "yes"),
        (np.False_, "no"),
        (12345, "12,345"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (0.12345, "0.1235"),
    ],
)
def test_numbers(value, expected):
    assert number(value) == expected


def test_names_are_one_line_and_no_mathematics():
    assert one_line("a\nb\x1b[2J\u202eé") == "a\\nb\\x1b[2J\\u202eé"
    assert plot_text("$x^{$") == r"\$x^{\$"
    assert "\x1b" not in str(InvalidInputError("tensor \x1b[2J", "a\nb"))
    assert "\n" not in str(InvalidInputError("tensor\nforged line"))


def test_plain_values_are_valid_json():
    value = {"a": np.float32(1.5), 2: [np.nan, np.inf], "c": np.arange(2)}
    assert plain(value) == {"a": 1.5, "2": [None, None], "c": [0, 1]}
    assert json.loads(to_json(value)) == plain(value)


def test_html_is_escaped():
    assert "&lt;b&gt;" in html_table(["<b>"], [["<i>", 3]], title="<t>")
