"""Fitted models for other processes and programs: a folder, an ONNX file, a module of sentence-transformers."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted


class Portable:
    """What takes a fitted pooling elsewhere."""

    def save(self, folder: Any, *, overwrite: bool = False) -> Any:
        """Write the fitted model to a folder (JSON and safetensors) for :func:`spikepool.load`, and return its path."""
        from spikepool.pooling.saving import save

        check_is_fitted(self, "weights_")
        return save(self, folder, overwrite=overwrite)

    def to_onnx(self, path: Any, *, overwrite: bool = False) -> Any:
        """Write the fitted model as an ONNX file.

        Inputs are ``tokens``, float32 (n, T, d), and ``mask``, bool (n, T), true where a token is observed; n and T are
        free. With several layers ``tokens`` is (n, layers, T, d) in the order of ``layers_``; with a table it holds
        int64 ids (n, T). Outputs are ``label``, the index into ``classes_``, and ``probabilities`` (n, K); those of a
        regressor are ``values`` (n,). An existing file is refused; with `overwrite` one that this method wrote is
        replaced.
        """
        from spikepool.pooling.onnx_export import write_onnx

        check_is_fitted(self, "weights_")
        return write_onnx(self, path, overwrite=overwrite)

    def to_sentence_transformers(
        self, folder: Any, encoder: Any = "minilm", layers: Any = None, max_tokens: int = 128
    ) -> Any:
        """Write a folder that sentence-transformers loads, so that its ``encode`` gives the features of `transform`.

        Load it with ``SentenceTransformer(folder, trust_remote_code=True)`` where spikepool is installed.

        Parameters
        ----------
        folder : path
            Must not exist.
        encoder : path
            Folder of the encoder that made the tokens, with the files of transformers.
        layers : sequence of int, optional
            Hidden states that the pooling was fitted on, in the order of ``layers_``; the last one by default.
        max_tokens : int
            Longest text.
        """
        from importlib import import_module

        check_is_fitted(self, "weights_")
        # not a plain import: encoders are a package of this layer, and torch is needed only here
        write = import_module("spikepool.texts.sentence_module").write_sentence_transformer
        place = import_module("spikepool.texts.encoders").encoder_folder(encoder)
        return write(self, folder, place, [] if layers is None else [int(layer) for layer in layers], max_tokens)
