"""Floating-point types that NumPy does not have, as float32: bfloat16 and the 8-bit floats of checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Decode = Callable[[NDArray[Any]], NDArray[np.float32]]


def bfloat16_to_float32(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Exact value of bfloat16 bit patterns: bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


@lru_cache(maxsize=4)
def eight_bit_values(kind: str) -> NDArray[np.float32]:
    """The 256 values of an 8-bit float (OCP 8-bit floating point and microscaling specifications).

    With sign s, exponent e and mantissa m, a normal number is (−1)^s 2^(e − bias) (1 + m) and a subnormal one (e = 0)
    is (−1)^s 2^(1 − bias) m. E4M3 has bias 7, no infinities, and NaN where all of e and m are ones. E5M2 has bias 15
    and the infinities and NaN of IEEE 754. E8M0 is 2^(e − 127) alone, NaN for e = 255.
    """
    code = np.arange(256)
    if kind == "F8_E8M0":
        return np.asarray(np.where(code == 255, np.nan, np.exp2(code.astype(np.float64) - 127)), dtype=np.float32)
    bits, bias = {"F8_E4M3": (3, 7), "F8_E5M2": (2, 15)}[kind]
    exponent, mantissa = (code & 127) >> bits, (code & ((1 << bits) - 1)) / (1 << bits)
    size = np.where(exponent > 0, np.exp2(exponent - bias) * (1 + mantissa), np.exp2(1.0 - bias) * mantissa)
    if kind == "F8_E4M3":
        size[(code & 127) == 127] = np.nan
    else:
        size[exponent == 31] = np.where(mantissa[exponent == 31] > 0, np.nan, np.inf)
    return np.asarray(np.where(code & 128, -size, size), dtype=np.float32)


def _look_up(kind: str, codes: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(eight_bit_values(kind)[codes], dtype=np.float32)


def decoder(kind: str) -> Decode | None:
    """What turns stored entries of a type into float32, or None where NumPy has the type."""
    if kind == "BF16":
        return bfloat16_to_float32
    return partial(_look_up, kind) if kind in ("F8_E4M3", "F8_E5M2", "F8_E8M0") else None
