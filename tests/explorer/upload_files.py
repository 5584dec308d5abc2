"""Small files of every kind the explorer reads, as bytes."""

import io
import json
import struct

import numpy as np


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=array.dtype == object)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def csv(array, header=None):
    buffer = io.StringIO()
    np.savetxt(buffer, array, delimiter=",", fmt="%.17g", header=header or "", comments="")
    return buffer.getvalue().lstrip("\n").encode()


def safetensors(name, array):
    data = np.ascontiguousarray(array, dtype="<f4").tobytes()
    header = json.dumps({name: {"dtype": "F32", "shape": list(array.shape), "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


def pooled_features(n=300, d=40, strength=3.0, seed=0):
    """Noise with one planted direction."""
    rng = np.random.default_rng(seed)
    direction = np.zeros(d)
    direction[0] = 1
    return rng.standard_normal((n, d)) + strength * rng.standard_normal((n, 1)) * direction


def embedding_table(V=280, d=60, seed=0):
    """White rows with two strong directions."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((V, d))
    table[:, 0] *= 6
    table[:, 1] *= 4
    return table.astype(np.float32)


def labelled_tokens(n=240, T=4, d=10, seed=0):
    """Tokens whose second position carries the class, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, T, d)) * np.linspace(2, 0.5, d)
    X[:, 1, :4] += 1.5 * (2 * y[:, None] - 1)
    return X.astype(np.float32), y
