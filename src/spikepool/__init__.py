"""spikepool: how much of a hidden signal survives attention-weighted pooling of token embeddings.

Names are loaded on first use, so that ``import spikepool`` stays fast and optional dependencies stay optional.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.4.0"

# module that defines them -> public names
_MODULES: dict[str, tuple[str, ...]] = {
    "errors": ("SpikepoolError", "InvalidInputError", "NotRealizableError", "UnreachableError"),
    "laws.base": ("SpectralLaw",),
    "laws.free_product": ("MarchenkoPastur", "FreeProductLaw"),
    "laws.atomic": ("AtomicLaw",),
    "laws.generalized": ("GeneralizedLaw",),
    "world.correlation": (
        "prefix_correlation",
        "markov_correlation",
        "equicorrelation",
        "spiked_correlation",
        "average_correlation",
    ),
    "world.signs": ("sign_sampler",),
    "world.weights": ("mean_weights", "causal_weights", "optimal_weights", "gains"),
    "world.attention": ("attention_weights",),
    "world.self_attention": ("self_attention",),
    "theory.attention_gains": ("attention_gains", "predict_attention"),
    "world.heads": ("optimal_heads", "layered_weights"),
    "model": ("SequenceModel", "ClassModel", "QueryModel"),
    "theory.prediction": ("Prediction", "Outlier"),
    "world.frequencies": ("zipf_frequencies",),
    "theory.validity": ("Validity",),
    "theory.closed_form": ("predict_arrays",),
    "theory.given_tokens": ("predict_tokens",),
    "theory.token_weight_choice": ("recovery_token_weights",),
    "simulation.simulate": ("SimulationResult",),
    "theory.ridge": ("ridge_prediction", "optimal_ridge"),
    "simulation.ridge": ("simulate_ridge",),
    "simulation.ridge_classifier": ("RidgeClassifier",),
    "sweeps": ("sweep",),
    "pooling.spectral": ("SpectralPooling",),
    "pooling.learned": ("LearnedPoolingClassifier", "LearnedPoolingRegressor"),
    "trust.diagnosis": ("diagnose", "Diagnosis"),
    "forecasting.forecast": ("forecast",),
    "forecasting.curve_points": ("forecast_curve",),
    "forecasting.result": ("Forecast",),
    "texts.encoding": ("encode",),
    "texts.classifier": ("TextClassifier", "load"),
    "answers": ("report", "DataReport"),
    "tables": ("TableSpectrum",),
}
# Also reachable here, and documented in their own modules: classes that calls return, and formulas of single results of
# the paper. The other errors are in :mod:`spikepool.errors`.
_ALSO: dict[str, tuple[str, ...]] = {
    "world.weights": ("prefix_mean_gains", "prefix_causal_gains", "causal_crossover"),
    "world.attention": ("attention_matrix",),
    "world.heads": ("HeadMix",),
    "theory.attention_gains": ("AttentionGains",),
    "theory.prediction": ("RidgePrediction",),
    "theory.planning": ("VocabularyRange",),
    "sweeps": ("open_sweep",),
    "theory.ridge": ("rank_weights",),
    "texts.classifier": ("TextRegressor",),
    "texts.encoding": ("EncodedTexts",),
}
_EXPORTS = {name: module for module, names in _MODULES.items() for name in names}
_REACHABLE = _EXPORTS | {name: module for module, names in _ALSO.items() for name in names}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name.endswith(("Error", "Warning")) and name not in _REACHABLE:
        value = getattr(importlib.import_module("spikepool.errors"), name, None)
    elif name in _REACHABLE:
        value = getattr(importlib.import_module(f"spikepool.{_REACHABLE[name]}"), name)
    else:
        value = None
    if value is not None:
        globals()[name] = value
        return value
    raise AttributeError(f"module 'spikepool' has no attribute {name!r}{_like(name)}")


def _like(name: str) -> str:
    """Names that contain this one or are spelled like it, as the end of a sentence."""
    import difflib

    lower = {known.lower(): known for known in _REACHABLE if not known.endswith("Error")}
    near = [known for low, known in lower.items() if name.lower() in low]
    near = near or [lower[low] for low in difflib.get_close_matches(name.lower(), lower)]
    return f". Did you mean {', '.join(sorted(near)[:4])}?" if near and not name.startswith("_") else ""


def __dir__() -> list[str]:
    errors = importlib.import_module("spikepool.errors")
    named = {name for name in vars(errors) if name.endswith(("Error", "Warning"))}
    return sorted({*__all__, *_REACHABLE, *named})
