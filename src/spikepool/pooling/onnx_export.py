"""A fitted pooling as an ONNX graph of basic operators, so that it runs without this package.

Every pooling becomes features of the tokens, every linear map a product, the weighted parts a sum. Numbers are single
precision; tokens are centred first where squares or products of them are taken.
"""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.targets import check_target
from spikepool.errors import InvalidInputError, require
from spikepool.kit.arrays import FloatArray
from spikepool.kit.files import publishing
from spikepool.pooling.fitted import FittedPooling, Part
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.rules import CovariancePooling, MaxPooling, RulePooling, SpreadPooling
from spikepool.pooling.sequence import SequencePooling
from spikepool.pooling.token_space import TokenSpace

OPSET, IR_VERSION = 17, 8
LOWEST = -3.0e38  # of single precision
MASKED = -1e9
LARGE = 1024  # bytes of a constant that is kept apart


class Graph:
    """Nodes and constants of a graph under construction; a name stands for a tensor.

    With ``separate=True`` large constants are kept as arrays in `arrays`, for a session that is given them in memory.
    """

    def __init__(self, prefix: str = "", *, separate: bool = False) -> None:
        self.onnx = require("onnx", "onnx")
        self._prefix, self._separate = prefix, separate
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.arrays: dict[str, FloatArray] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        """A constant; equal ones are kept once."""
        array = np.asarray(value, dtype=dtype)
        if self._separate and array.nbytes > LARGE:
            return self._separate_const(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"{self._prefix}constant{len(self._known)}"
            self.constants.append(self.onnx.numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def _separate_const(self, array: FloatArray) -> str:
        name = f"{self._prefix}array{len(self.arrays)}"
        kinds = self.onnx.TensorProto
        tensor = kinds(name=name, dims=array.shape, data_type=kinds.FLOAT, data_location=kinds.EXTERNAL)
        tensor.external_data.add(key="location", value="memory")
        self.constants.append(tensor)
        self.arrays[name] = array
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The output of an operator."""
        name = f"{self._prefix}{kind.lower()}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def axes(self, *axes: int) -> str:
        """Axes as a constant."""
        return self.const(axes, np.int64)

    def total(self, x: str, axis: int) -> str:
        """Sum over an axis that is kept."""
        return self.op("ReduceSum", x, self.axes(axis), keepdims=1)

    def cast(self, x: str, kind: str = "FLOAT") -> str:
        """`x` as another type."""
        return self.op("Cast", x, to=getattr(self.onnx.TensorProto, kind))


class Tokens:
    """Tokens (n, T, d) of a layer with what the poolings need of them, made when first asked for."""

    def __init__(self, g: Graph, x: str, mask: str) -> None:
        self.g, self.mask = g, mask
        self.raw = x
        self.x = g.op("Where", g.op("Unsqueeze", mask, g.axes(2)), x, g.const(0.0))
        self._spaces: dict[int, dict[str, str]] = {}

    def places(self, mask: str) -> dict[str, str]:
        """Mask as numbers, length, and places from both ends, (n, T) or (n, 1)."""
        g = self.g
        m = g.cast(mask)
        length = g.total(m, 1)
        start = g.op("Sub", g.op("CumSum", m, g.const(1, np.int64)), g.const(1.0))
        end = g.op("Sub", g.op("Sub", length, g.const(1.0)), start)
        return {"m": m, "length": length, "start": start, "end": end}

    def space(self, space: TokenSpace) -> dict[str, str]:
        """Usable tokens, minus their mean, for one token space."""
        if id(space) in self._spaces:
            return self._spaces[id(space)]
        g, usable = self.g, self.mask
        if space.sink:
            here = self.places(self.mask)
            later = g.op("Greater", here["start"], g.const(0.5))
            alone = g.op("Less", here["length"], g.const(1.5))
            usable = g.op("And", usable, g.op("Or", later, alone))
            if np.isfinite(space.largest):
                norm = g.op("ReduceL2", self.x, axes=[2], keepdims=0)
                usable = g.op("And", usable, g.op("LessOrEqual", norm, g.const(space.largest)))
        nodes = self.places(usable)
        centred = g.op("Sub", self.x, g.const(space.mean))
        nodes["usable"] = usable
        nodes["centred"] = g.op("Where", g.op("Unsqueeze", usable, g.axes(2)), centred, g.const(0.0))
        share = g.op("Div", nodes["m"], g.op("Max", nodes["length"], g.const(1.0)))
        nodes["share"] = g.op("Unsqueeze", share, g.axes(1))  # (n, 1, T)
        self._spaces[id(space)] = nodes
        return nodes


@singledispatch
def graph_features(pooling: Any, g: Graph, tokens: Tokens) -> str:
    """Features (n, F) of the tokens, in the order of :meth:`Pooling.features`; a pooling may bring its own `graph`."""
    if getattr(pooling, "graph", None) is not None:
        return str(pooling.graph(g, tokens))
    raise InvalidInputError(
        "this pooling cannot be written as ONNX",
        getattr(pooling, "name", pooling),
        "Register it with graph=",
    )


@graph_features.register
def _(pooling: RulePooling, g: Graph, tokens: Tokens) -> str:
    here = tokens.places(tokens.mask)
    rows = []
    for rule in pooling.heads:
        raw = here["m"]
        if rule in ("last", "first"):
            first = g.op("Less", here["start" if rule == "first" else "end"], g.const(0.5))
            raw = g.op("Mul", raw, g.cast(first))
        elif rule == "ramp":
            raw = g.op("Mul", raw, g.op("Add", here["start"], g.const(1.0)))
        w = g.op("Div", raw, g.op("Max", g.total(raw, 1), g.const(1.0)))
        rows.append(g.op("Squeeze", g.op("MatMul", g.op("Unsqueeze", w, g.axes(1)), tokens.x), g.axes(1)))
    return rows[0] if len(rows) == 1 else g.op("Concat", *rows, axis=1)


@graph_features.register
def _(pooling: MaxPooling, g: Graph, tokens: Tokens) -> str:
    seen = g.op("Where", g.op("Unsqueeze", tokens.mask, g.axes(2)), tokens.x, g.const(LOWEST))
    return g.op("ReduceMax", seen, axes=[1], keepdims=0)


def _mean(g: Graph, here: dict[str, str], x: str) -> str:
    return g.op("Squeeze", g.op("MatMul", here["share"], x), g.axes(1))


@graph_features.register
def _(pooling: SpreadPooling, g: Graph, tokens: Tokens) -> str:
    here = tokens.space(pooling.space)
    mean = _mean(g, here, here["centred"])
    square = _mean(g, here, g.op("Mul", here["centred"], here["centred"]))
    variance = g.op("Sub", square, g.op("Mul", mean, mean))
    deviation = g.op("Sqrt", g.op("Max", variance, g.const(0.0)))
    return g.op("Concat", g.op("Add", mean, g.const(pooling.space.mean)), deviation, axis=1)


@graph_features.register
def _(pooling: CovariancePooling, g: Graph, tokens: Tokens) -> str:
    here = tokens.space(pooling.space)
    z = g.op("MatMul", here["centred"], g.const(pooling.space.directions))
    column = g.op("Transpose", here["share"], perm=[0, 2, 1])
    second = g.op("MatMul", g.op("Transpose", g.op("Mul", z, column), perm=[0, 2, 1]), z)
    m = g.op("MatMul", here["share"], z)  # (n, 1, p)
    covariance = g.op("Sub", second, g.op("MatMul", g.op("Transpose", m, perm=[0, 2, 1]), m))
    p = pooling.space.directions.shape[1]
    i, j = np.triu_indices(p)
    flat = g.op("Reshape", covariance, g.const([-1, p * p], np.int64))
    upper = g.op("Gather", flat, g.const(i * p + j, np.int64), axis=1)
    mean = g.op("Add", _mean(g, here, here["centred"]), g.const(pooling.space.mean))
    return g.op("Concat", mean, upper, axis=1)


@graph_features.register
def _(pooling: QueryPooling, g: Graph, tokens: Tokens) -> str:
    here, space = tokens.space(pooling.space), pooling.space
    z = g.op("MatMul", here["centred"], g.const(space.directions))
    size = g.op("ReduceMean", g.op("Mul", z, z), axes=[2], keepdims=1)
    unit = g.op("Div", z, g.op("Sqrt", g.op("Max", size, g.const(1e-30))))
    scores = g.op("Transpose", g.op("MatMul", unit, g.const(pooling.queries.T)), perm=[0, 2, 1])  # (n, H, T)
    seen = g.op("Unsqueeze", here["usable"], g.axes(1))
    weights = g.op("Softmax", g.op("Where", seen, scores, g.const(MASKED)), axis=2)
    weights = g.op("Mul", weights, g.cast(seen))
    pooled = g.op("MatMul", g.op("Concat", weights, here["share"], axis=1), here["centred"])
    full = g.op("Add", pooled, g.const(space.mean))
    return g.op("Reshape", full, g.const([-1, (len(pooling.queries) + 1) * len(space.mean)], np.int64))


def _sequence_values(pooling: SequencePooling, coef: FloatArray, g: Graph, tokens: Tokens) -> str:
    """Values without the intercept: coefficients are carried back to tokens, so that no recursion is needed."""
    here = tokens.space(pooling.space)
    B = pooling.position_coefficients(coef)
    if pooling.components:
        B = np.einsum("dp,atpk->atdk", pooling.space.leading(pooling.components), B)
    d, k = B.shape[2], B.shape[3]
    total = ""
    for side, name in enumerate(pooling.sides):
        place = g.op("Unsqueeze", here[name], g.axes(2))
        distance = g.op("Abs", g.op("Sub", place, g.const(np.arange(pooling.T)[None, None])))
        at = g.cast(g.op("Less", distance, g.const(0.5)))  # (n, T, places); tokens that are not used are zeros
        packed = g.op("MatMul", g.op("Transpose", at, perm=[0, 2, 1]), here["centred"])
        flat = g.op("Reshape", packed, g.const([-1, pooling.T * d], np.int64))
        values = g.op("MatMul", flat, g.const(B[side].reshape(-1, k)))
        total = g.op("Add", total, values) if total else values
    return total


def _linear(part: Part, g: Graph, layers: dict[Any, Tokens], mask: str) -> str:
    """Features times weighted coefficients; zeros for a row without tokens."""
    pooling, coef, tokens = part.pooling, part.weight * part.linear.coef, layers[part.layer]
    if isinstance(pooling, SequencePooling):
        values = _sequence_values(pooling, coef, g, tokens)
    else:
        values = g.op("MatMul", graph_features(pooling, g, tokens), g.const(coef))
    return g.op("Mul", values, g.cast(g.op("Greater", g.total(g.cast(mask), 1), g.const(0.5))))


def output_graph(fitted: FittedPooling, g: Graph, layers: dict[Any, Tokens], mask: str) -> list[Any]:
    """Add the linear maps on the tokens of each layer; returns the outputs of the graph."""
    helper, kinds = g.onnx.helper, g.onnx.TensorProto
    total = g.const(np.sum([part.weight * part.linear.intercept for part in fitted.parts], axis=0)[None])
    for part in fitted.parts:
        total = g.op("Add", total, _linear(part, g, layers, mask))
    if fitted.classes is None:
        g.nodes.append(helper.make_node("Squeeze", [total, g.axes(1)], ["values"]))
        return [helper.make_tensor_value_info("values", kinds.FLOAT, ["n"])]
    g.nodes.append(helper.make_node("Softmax", [total], ["probabilities"], axis=1))
    g.nodes.append(helper.make_node("ArgMax", [total], ["label"], axis=1, keepdims=0))
    return [
        helper.make_tensor_value_info("label", kinds.INT64, ["n"]),
        helper.make_tensor_value_info("probabilities", kinds.FLOAT, ["n", len(fitted.classes)]),
    ]


def graph_model(g: Graph, inputs: list[Any], outputs: list[Any]) -> Any:
    """The model of a graph."""
    helper = g.onnx.helper
    graph = helper.make_graph(g.nodes, "spikepool", inputs, outputs, initializer=g.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="spikepool")
    model.ir_version = IR_VERSION
    return model


def save_graph(
    g: Graph, inputs: list[Any], outputs: list[Any], properties: dict[str, str], target: Path, *, overwrite: bool
) -> Path:
    """Check the graph and write it, whole or not at all."""
    model = graph_model(g, inputs, outputs)
    if properties:
        g.onnx.helper.set_model_props(model, properties)
    g.onnx.checker.check_model(model)
    with publishing(target, overwrite=overwrite) as temporary:
        g.onnx.save(model, str(temporary))
    return target


def write_onnx(estimator: Any, path: Any, *, overwrite: bool = False) -> Path:
    """Write the model; see :meth:`LearnedPooling.to_onnx`."""
    target = check_target(path, "onnx", overwrite=overwrite)
    g = Graph()
    helper, kinds = g.onnx.helper, g.onnx.TensorProto
    d, table = estimator.fitted_.d, estimator.table
    several = estimator.layers_ != (None,)
    shape = ["n", len(estimator.layers_), "T", d] if several else ["n", "T", d]
    kind = kinds.FLOAT
    if table is not None:
        shape, kind = ["n", "T"], kinds.INT64
    mask = "mask"
    layers = {}
    for k, layer in enumerate(estimator.layers_):
        x = "tokens"
        if several:
            x = g.op("Gather", x, g.const(k, np.int64), axis=1)
        elif table is not None:
            E = np.asarray(table, dtype=np.float32)
            inside = g.op("Min", g.op("Max", x, g.const(0, np.int64)), g.const(len(E) - 1, np.int64))
            if estimator.padding is not None:
                seen = g.op("Not", g.op("Equal", "tokens", g.const(int(estimator.padding), np.int64)))
                mask = g.op("And", "mask", seen)
            x = g.op("Gather", g.const(E), inside, axis=0)
        layers[layer] = Tokens(g, x, mask)
    outputs = output_graph(estimator.fitted_, g, layers, mask)
    inputs = [
        helper.make_tensor_value_info("tokens", kind, shape),
        helper.make_tensor_value_info("mask", kinds.BOOL, ["n", "T"]),
    ]
    properties = {"classes": "\n".join(map(str, estimator.classes_))} if hasattr(estimator, "classes_") else {}
    return save_graph(g, inputs, outputs, properties, target, overwrite=overwrite)
