"""spikepool: how much of a hidden signal survives attention-weighted pooling of token embeddings.

Names are loaded on first use, so that ``import spikepool`` stays fast and optional dependencies stay optional.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_EXPORTS = {
    **dict.fromkeys(
        (
            "SpikepoolError",
            "InvalidInputError",
            "NonFiniteError",
            "ShapeError",
            "SizeError",
            "DomainError",
            "CorrelationError",
            "WeightsError",
            "TokenError",
            "NotRealizableError",
            "NoOptimumError",
            "UnreachableError",
            "ConvergenceError",
            "OnSupportError",
            "MemoryBudgetError",
            "MissingDependencyError",
            "TableFormatError",
            "UnsafeFormatError",
            "SweepError",
            "SpecMismatchError",
            "StoreCorruptError",
            "StoreLockedError",
            "StoreWriteError",
        ),
        "errors",
    ),
    **dict.fromkeys(("SpectralLaw",), "laws.base"),
    **dict.fromkeys(("MarchenkoPastur",), "laws.marchenko_pastur"),
    **dict.fromkeys(("FreeProductLaw",), "laws.free_product"),
    **dict.fromkeys(("AtomicLaw",), "laws.atomic"),
    **dict.fromkeys(("GeneralizedLaw",), "laws.generalized"),
    **dict.fromkeys(
        ("prefix_correlation", "markov_correlation", "equicorrelation", "spiked_correlation"), "correlation"
    ),
    **dict.fromkeys(("sign_sampler",), "signs"),
    **dict.fromkeys(
        (
            "mean_weights",
            "causal_weights",
            "optimal_weights",
            "alpha_kappa",
            "prefix_mean_scalars",
            "prefix_causal_scalars",
            "causal_crossover",
        ),
        "weights",
    ),
    **dict.fromkeys(("attention_matrix", "attention_weights"), "attention"),
    **dict.fromkeys(
        ("attention_scalars", "AttentionScalars", "average_correlation", "predict_attention"), "attention_gains"
    ),
    **dict.fromkeys(("optimal_heads", "HeadMix", "layered_weights"), "heads"),
    **dict.fromkeys(("SequenceModel", "Prediction", "Outlier"), "model"),
    **dict.fromkeys(("VocabularyRange",), "planning"),
    **dict.fromkeys(("zipf_frequencies",), "frequencies"),
    **dict.fromkeys(("predict_tokens",), "exact"),
    **dict.fromkeys(("ClassModel",), "classes"),
    **dict.fromkeys(("SimulationResult",), "simulation"),
    **dict.fromkeys(("RidgePrediction", "ridge_prediction", "optimal_ridge", "rank_weights"), "ridge"),
    **dict.fromkeys(("RidgeClassifier", "simulate_ridge"), "ridge_empirical"),
    **dict.fromkeys(("sweep",), "sweeps"),
    **dict.fromkeys(("SpectralPooling",), "pooling"),
    **dict.fromkeys(("LearnedPoolingClassifier", "LearnedPoolingRegressor"), "learned"),
    **dict.fromkeys(("diagnose", "Diagnosis"), "diagnosis"),
    **dict.fromkeys(("TableSpectrum",), "tables"),
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(f"spikepool.{_EXPORTS[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'spikepool' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
