"""Checks of arguments: the value is given back, or named in the error with a remedy."""

import numpy as np
import pytest

from spikepool import errors
from spikepool.kit import validation as check

BAD = [
    (check.finite_number, ("x",), ["a", None, np.nan, np.inf, [1.0, 2.0], 1j]),
    (check.non_negative, ("x",), [-1e-300, np.nan]),
    (check.positive, ("x",), [0, -1.0, np.inf]),
    (check.fraction, ("x",), [-0.1, 1.1, np.nan]),
    (check.size, ("n",), [0, -3, 1.5, True, "3", np.nan]),
    (check.vocabulary_size, (), [3, 0, 2.5]),
    (check.choice, ("x", ("a", "b")), ["c", 1, None]),
    (check.flag, ("x",), [1, "yes", None]),
    (check.finite_array, ("x",), [[1.0, np.nan], ["a"], [], 1j * np.ones(2)]),
    (check.symmetric_psd, ("R",), [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.4, 1.0]], [[1.0, 0.0]]]),
    (check.weight_vector, (), [[0.5, 0.4], [np.nan, 1.0], [[0.5, 0.5]], []]),
    (check.generator, (), ["seed", 1.5, -1]),
]


CASES = [(f"{f.__name__}-{i}", f, a, v) for f, a, values in BAD for i, v in enumerate(values)]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "arguments", "value"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bad_values_are_named(function, arguments, value):
    with pytest.raises(errors.InvalidInputError) as caught:
        function(value, *arguments)
    assert len(str(caught.value)) > 15
    assert str(caught.value).endswith(".")


def test_good_values_are_given_back():
    assert check.size(np.int64(3), "n") == 3
    assert type(check.size(np.int64(3), "n")) is int
    assert check.fraction(1, "x") == 1.0
    assert check.flag(np.bool_(True), "x") is True
    np.testing.assert_allclose(check.weight_vector(np.float32([0.1] * 10)).sum(), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(check.symmetric_psd(np.eye(2)), np.eye(2))
    with pytest.raises(errors.InvalidInputError):
        check.fraction(1.0, "x", closed=False)
