"""Estimators of texts: an encoder, a pooling and a linear model in one object that is fitted, saved, loaded and served.

Embeddings of recent texts are kept (:mod:`spikepool.texts.embedding_rows`), so that a cross-validation or a search
encodes each text once. A model that was loaded computes only the layers that predict.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from spikepool.data.labels import label_array
from spikepool.errors import InvalidInputError, ModelFormatError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray
from spikepool.kit.progress import Progress
from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor, class_codes
from spikepool.pooling.loading import load as load_pooling
from spikepool.pooling.row_functions import EncodedRows
from spikepool.texts.embedding_rows import CACHE, STREAMED, Row, cut_note, encoded_rows, padded_rows
from spikepool.texts.encoder_types import tokenised
from spikepool.texts.encoders import chosen_layers, find_encoder, fingerprint
from spikepool.texts.encoding import checked_texts
from spikepool.texts.label_notes import label_notes
from spikepool.texts.text_model import (
    SETTINGS,
    TextSettings,
    affordable_rows,
    fitting_encoder,
    load_settings,
    save_text_model,
    saved_encoder,
    written_encoder,
)

# Fewest texts on which layers are chosen.
FEWEST_TEXTS = 500


class TextModel(BaseEstimator):  # type: ignore[misc]
    """What the estimators of texts share."""

    _default: Callable[..., Any]

    def __init__(
        self,
        encoder: Any = "minilm",
        *,
        layers: Any = "all",
        max_tokens: int = 128,
        pooling: Any = None,
        progress: bool | None = None,
    ) -> None:
        self.encoder = encoder
        self.layers = layers
        self.max_tokens = max_tokens
        self.pooling = pooling
        self.progress = progress

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        """Encode the texts, then choose layer and pooling and fit the linear model.

        Parameters
        ----------
        X : sequence of str
            Texts: a list, an array, a Series or a column of a data frame.
        y : array of shape (n,)
            Labels.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold of the comparison.
        sample_weight : array of shape (n,), optional
        """
        check.size(self.max_tokens, "max_tokens", minimum=2)
        texts = checked_texts(X)
        self._check_targets(y, len(texts))
        self._set_encoder(self._opened(self.encoder))
        names, chosen = self._layer_names(texts, y, groups, sample_weight)
        rows, notes = self._rows(texts, names)
        if names is not None:  # texts that were encoded before are counted too
            notes = cut_note(self.texts_cut(texts), len(texts), self.max_tokens)
        doubts = self._label_notes(y)
        for doubt in doubts:
            warnings.warn(doubt, UserWarning, stacklevel=2)
        self.notes_ = (*chosen, *notes, *doubts)
        self._fit_layers = names
        tokens, mask = padded_rows(rows, names or list(rows[0]), np.float16)
        self.pooling_ = self._unfitted().fit(
            tokens if len(tokens) > 1 else next(iter(tokens.values())),
            y,
            mask=mask,
            groups=groups,
            sample_weight=sample_weight,
        )
        self.encoder_sha256_ = fingerprint(self._open)
        self._copy_fitted(tuple(tokens))
        return self

    def _check_targets(self, y: Any, n: int) -> None:
        """Refuse labels that cannot be fitted before texts are encoded, which takes longer."""
        labels = label_array(y)
        if labels.ndim == 1 and len(labels) != n:
            raise ShapeError(f"y has {len(labels):,} labels for {n:,} texts", remedy="Pass one label per text")

    def _label_notes(self, y: Any) -> tuple[str, ...]:
        """What speaks against the labels."""
        return ()

    def texts_cut(self, X: Any) -> int:
        """How many texts have more tokens than `max_tokens`; 0 for a function, which does not say."""
        model = self._model()
        if not hasattr(model, "embed"):
            return 0
        return sum(one.truncated for one in tokenised(model, checked_texts(X), self.max_tokens))

    def _unfitted(self) -> Any:
        """The pooling that is to be fitted."""
        return self._default() if self.pooling is None else clone(self.pooling)

    def encoded(self, X: Any) -> tuple[Any, NDArray[np.bool_], tuple[str, ...]]:
        """Token embeddings in the layers of the fit, as the pooling takes them; the mask; the layers."""
        texts = checked_texts(X)
        names = vars(self).get("_fit_layers") or (list(self.layers_) if hasattr(self._model(), "embed") else None)
        rows, _ = self._rows(texts, names)
        tokens, mask = padded_rows(rows, names or list(rows[0]), np.float16)
        one = self.pooling_.layers_ == (None,)
        return next(iter(tokens.values())) if one else tokens, mask, tuple(tokens)

    def _copy_fitted(self, layers: tuple[str, ...]) -> None:
        """Attributes of the pooling that a reader looks for here; layers that do not predict are forgotten."""
        self.pooling_.keep_layers()
        self.layers_ = layers if self.pooling_.layers_ == (None,) else self.pooling_.layers_
        self.decision_ = self.pooling_.decision_
        self.layer_ = self.layers_[0] if self.pooling_.layer_ is None else self.pooling_.layer_
        if hasattr(self.pooling_, "classes_"):
            self.classes_ = self.pooling_.classes_

    @staticmethod
    def _opened(encoder: Any) -> Any:
        """The encoder, ready to use; a function stays a function."""
        return encoder if callable(encoder) and not hasattr(encoder, "embed") else find_encoder(encoder)

    def _model(self) -> Any:
        """The open encoder of a fitted model, which copies and pickles do not carry."""
        if "_open" not in vars(self):
            settings = TextSettings("", list(self.layers_), self.max_tokens, None, self.encoder_sha256_)
            function = callable(self.encoder) and not hasattr(self.encoder, "embed")
            self._set_encoder(self.encoder if function else fitting_encoder(settings, self.encoder))
        return self._open

    def _set_encoder(self, encoder: Any) -> None:
        self._key = fingerprint(encoder)  # None: it may change unseen, so that nothing is kept
        self._open = encoder

    def _layer_names(
        self, texts: list[str], y: Any, groups: Any, sample_weight: Any
    ) -> tuple[list[str] | None, tuple[str, ...]]:
        """Layers to encode, None for a function, which gives what it gives; and what a reader should know of it."""
        if not hasattr(self._open, "embed"):
            return None, ()
        automatic = isinstance(self.layers, str) and self.layers == "auto"
        names = [str(layer) for layer in chosen_layers(self._open, "all" if automatic else self.layers)]
        count = affordable_rows(self._open, texts, self.max_tokens) if automatic else len(texts)
        if count == len(texts):
            return names, ()
        some = np.sort(np.random.default_rng(0).permutation(len(texts))[: max(count, FEWEST_TEXTS)])
        rows, _ = self._rows([texts[i] for i in some], names)
        tokens, mask = padded_rows(rows, names, np.float16)
        parts = [None if given is None else np.asarray(given)[some] for given in (y, groups, sample_weight)]
        trial = self._unfitted().fit(tokens, parts[0], mask=mask, groups=parts[1], sample_weight=parts[2])
        trial.keep_layers()
        used = [name for name in names if name in trial.layers_]
        note = (
            f"Layers {', '.join(used)} of {len(names)} were chosen on {len(some):,} of {len(texts):,} texts: "
            "all layers of all texts would take more than a gigabyte"
        )
        return used, (note,)

    def _rows(self, texts: list[str], layers: list[str] | None) -> tuple[list[Row], tuple[str, ...]]:
        """Embeddings of texts, each encoded once and then found in the cache; and what was cut."""
        model = self._model()
        key = self._key
        rows = {text: key and CACHE.find(key, self.max_tokens, text, layers) for text in dict.fromkeys(texts)}
        missing = sorted((text for text, row in rows.items() if row is None), key=len)
        cut = 0
        with Progress(len(missing), "encoding texts", show=self.progress) as bar:
            for start in range(0, len(missing), STREAMED):
                part = missing[start : start + STREAMED]
                states, truncated = encoded_rows(part, model, layers, self.max_tokens)
                cut += truncated
                for text, row in zip(part, states, strict=True):
                    rows[text] = row
                    if key is not None:
                        CACHE.keep(key, self.max_tokens, text, row)
                bar.advance(len(part))
        return [rows[text] for text in texts], cut_note(cut, len(texts), self.max_tokens)  # type: ignore[misc]

    def _streamed(self, X: Any, function: str) -> AnyArray:
        """The results of a method of the pooling, for some texts of similar length at a time."""
        if "pooling_" not in vars(self):
            check_is_fitted(self, "pooling_")
        texts = checked_texts(X)
        layers: list[str] | None = None
        if hasattr(self._model(), "embed"):
            # all layers of a fit in this process, so that a search finds them when the text is in the training part
            layers = vars(self).get("_fit_layers") or list(self.layers_)
        names = dict(zip(self.layers_, self.pooling_.layers_, strict=True))
        order = np.argsort([len(text) for text in texts], kind="stable")
        results = []
        for start in range(0, len(texts), STREAMED):
            rows, _ = self._rows([texts[i] for i in order[start : start + STREAMED]], layers)
            tokens, mask = padded_rows(rows, self.layers_, np.float32)
            encoded = EncodedRows({names[layer]: states for layer, states in tokens.items()}, mask)
            results.append(getattr(self.pooling_, function)(encoded))
        return np.asarray(np.concatenate(results)[np.argsort(order)])

    def predict(self, X: Any) -> AnyArray:
        """Labels (or values) of texts."""
        return self._streamed(X, "predict")

    def transform(self, X: Any) -> FloatArray:
        """Pooled features (n, F) of texts, by the pooling ``decision_`` in the layer ``layer_``."""
        return self._streamed(X, "transform")

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> FloatArray:
        """Fit, then pool the same texts."""
        return np.asarray(self.fit(X, y, groups=groups).transform(X))

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the features of `transform`."""
        check_is_fitted(self, "pooling_")
        return np.asarray(self.pooling_.get_feature_names_out())

    def summary(self) -> str:
        """What was chosen, and how well it predicts rows left out."""
        check_is_fitted(self, "pooling_")
        return str(self.pooling_.summary())

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """The picture of the fitted pooling; see :meth:`LearnedPoolingClassifier.plot`."""
        check_is_fitted(self, "pooling_")
        return self.pooling_.plot(ax, **options)

    def _repr_html_(self) -> str:
        if "pooling_" not in vars(self):
            return str(super()._repr_mimebundle_()["text/html"])
        return str(self.pooling_._repr_html_())

    def save(self, folder: Any, *, overwrite: bool = False, text_column: str | None = None) -> Path:
        """Write the fitted model to a folder for :func:`spikepool.load`: no pickle, each file with a checksum.

        The folder has the pooling and the linear model (``model.json``, ``arrays.safetensors``), the settings of the
        texts with the hash of the encoder (``texts.json``), and ``tokenizer.json``. The encoder itself is not copied.
        `text_column` names the column that ``spikepool apply`` reads.
        """
        check_is_fitted(self, "pooling_")
        if not isinstance(self.encoder, (str, Path)):
            raise InvalidInputError(
                "a model whose encoder is an object cannot be saved", self.encoder, "Pass the encoder as name or folder"
            )
        model = self._model()
        name = written_encoder(str(self.encoder), Path(folder))
        settings = TextSettings(name, list(self.layers_), self.max_tokens, text_column, fingerprint(model))
        tokenizer = model.tokenizer.to_str() if hasattr(model, "tokenizer") else None
        return save_text_model(self.pooling_, folder, settings, tokenizer, overwrite=overwrite)

    def to_onnx(self, path: Any, *, encoder: bool = True, overwrite: bool = False) -> Path:
        """Write one ONNX file from token ids to probabilities, with tokenizer.json beside it.

        Inputs are ``input_ids`` and ``attention_mask``, int64 (n, T); n and T are free. Outputs are ``label``, the
        index into the class names, and ``probabilities`` (n, K); those of a regressor are ``values`` (n,). The class
        names are a JSON list in the metadata under ``classes``. tokenizer.json cuts and pads texts as the fit did. Only
        the layers that predict are part of the graph. With ``encoder=False`` the file takes token embeddings instead,
        as that of :meth:`LearnedPoolingClassifier.to_onnx`.
        """
        check_is_fitted(self, "pooling_")
        if not encoder:
            return Path(self.pooling_.to_onnx(path, overwrite=overwrite))
        from spikepool.texts.onnx_texts import write_text_onnx

        return write_text_onnx(self, self._model(), path, overwrite=overwrite)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in ("_open", "_key", "_fit_layers"):
            state.pop(name, None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


class TextClassifier(ClassifierMixin, TextModel):  # type: ignore[misc]
    """Classifier of texts: token embeddings of an encoder, pooled as serves the labels best.

    Parameters
    ----------
    encoder : str, path or callable, default="minilm"
        As in :func:`spikepool.encode`: ``"minilm"``, a folder, a hub id, an encoder object, or a function.
    layers : "all", "auto", "last", int, str or sequence, default="all"
        Layers of the encoder that are compared. ``"auto"``: all where their embeddings take less than a gigabyte in
        half precision. Else layers are chosen on as many texts as that allows, and kept for all texts; ``notes_`` says
        so.
    max_tokens : int, default=128
        Longer texts are cut.
    pooling : LearnedPoolingClassifier, optional
        How layers and poolings are compared; by default with default arguments.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; None leaves those of `pooling`. Balanced weights find more rows of
        rare classes, and make probabilities those of classes that are equally frequent.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.

    Attributes
    ----------
    classes_ : array
        Class labels.
    decision_, layer_ : str
        Pooling and layer of `transform`.
    layers_ : tuple of str
        Layers that predict; a model that was loaded computes no others.
    pooling_ : LearnedPoolingClassifier
        The fitted pooling, with the comparison in ``candidates_``.
    encoder_sha256_ : str or None
        Hash of the encoder's files; None for an encoder without a folder.
    notes_ : tuple of str
        What was cut, and how layers were chosen.

    Notes
    -----
    Embeddings of recent texts are kept, up to a gigabyte, so that cross-validation and searches encode each text once.
    Those of a function or an encoder object are not: it may change unseen.
    `predict` may be called from several threads.

    Examples
    --------
    >>> import spikepool as sp
    >>> clf = sp.TextClassifier().fit(texts, labels)  # doctest: +SKIP
    >>> clf.predict(["Who wrote Hamlet?"])  # doctest: +SKIP
    array(['HUM'], dtype='<U4')
    """

    _default = LearnedPoolingClassifier

    def __init__(
        self,
        encoder: Any = "minilm",
        *,
        layers: Any = "all",
        max_tokens: int = 128,
        pooling: Any = None,
        class_weight: Any = None,
        progress: bool | None = None,
    ) -> None:
        super().__init__(encoder, layers=layers, max_tokens=max_tokens, pooling=pooling, progress=progress)
        self.class_weight = class_weight

    def _unfitted(self) -> Any:
        pooling = super()._unfitted()
        return pooling if self.class_weight is None else pooling.set_params(class_weight=self.class_weight)

    def _check_targets(self, y: Any, n: int) -> None:
        super()._check_targets(y, n)
        labels = label_array(y)
        if labels.ndim == 1:
            class_codes(labels, np.ones(n))

    def _label_notes(self, y: Any) -> tuple[str, ...]:
        return label_notes(y)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, (n, K)."""
        return self._streamed(X, "predict_proba")

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the classes (n, K); for two classes their difference, (n,)."""
        return self._streamed(X, "decision_function")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy."""
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))


class TextRegressor(RegressorMixin, TextModel):  # type: ignore[misc]
    """Regression on texts; parameters and attributes as :class:`TextClassifier`, scores are R²."""

    _default = LearnedPoolingRegressor

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination."""
        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))


def load(folder: Any, encoder: Any = None) -> Any:
    """Load a model that was saved with its method ``save`` or by ``spikepool fit``.

    Parameters
    ----------
    folder : path
    encoder : str or path, optional
        The encoder of a model of texts: a folder, or a hub id, which may be downloaded. By default the one that the
        model names: "minilm", or a folder relative to the model; nothing is downloaded then.

    Returns
    -------
    TextClassifier, TextRegressor, LearnedPoolingClassifier or LearnedPoolingRegressor
        Fitted; its predictions are those of the model that was saved. A model of texts has its encoder open.

    Raises
    ------
    ModelFormatError
        The folder is not a saved model, is damaged, was written by a newer version, or the encoder is not that of the
        fit.
    """
    place = Path(folder)
    pooling = load_pooling(place)
    if not os.path.lexists(place / SETTINGS):
        return pooling
    settings = load_settings(place)
    kind = TextClassifier if hasattr(pooling, "classes_") else TextRegressor
    used = saved_encoder(settings, place) if encoder is None else fitting_encoder(settings, encoder)
    name = settings.encoder if settings.encoder == "minilm" else str(getattr(used, "folder", settings.encoder))
    model = kind(name if encoder is None else encoder, layers=settings.layers)
    model.max_tokens = settings.max_tokens
    model.pooling_, model.notes_ = pooling, ()
    model.encoder_sha256_ = settings.encoder_sha256
    model._set_encoder(used)
    model._copy_fitted(tuple(str(layer) for layer in settings.layers))
    missing = [layer for layer in model.layers_ if layer not in map(str, model._open.layers)]
    if missing:
        raise ModelFormatError("the encoder lacks layers of the model", missing, "Pass the encoder of the fit")
    return model
