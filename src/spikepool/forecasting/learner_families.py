"""Families of learners whose learning curves flatten at different sizes.

A generative classifier is near its limit after about log d rows, a linear one after about d (Ng and Jordan 2001, "On
discriminative vs. generative classifiers"), and learners whose number of parameters grows with the rows, such as
nearest neighbours and trees, go on improving. The prior of a forecast curve has weights for each family
(:mod:`spikepool.forecasting.damped_slope`).
"""

from __future__ import annotations

import importlib
from typing import Any

FAMILIES = ("generative", "linear", "flexible")

# Modules of scikit-learn by family. Support vector machines, with any kernel, flatten as linear models do.
_MODULES = {
    "naive_bayes": "generative",
    "discriminant_analysis": "generative",
    "linear_model": "linear",
    "svm": "linear",
    "neighbors": "flexible",
    "tree": "flexible",
    "ensemble": "flexible",
    "neural_network": "flexible",
}
_EXCEPTIONS = {"LinearDiscriminantAnalysis": "linear", "NearestCentroid": "generative"}


def learner_name(model: Any) -> str:
    """Name of the class of an estimator; of the last step of a pipeline."""
    return _class(_last(model)).__name__


def learner_family(model: Any) -> str | None:
    """Family of a scikit-learn estimator, of its class, or of the class with that name; None where it is unknown."""
    model = _named(model) if isinstance(model, str) else _last(model)
    for base in _class(model).__mro__:
        package, _, rest = base.__module__.partition(".")
        family = _MODULES.get(rest.partition(".")[0]) if package == "sklearn" else None
        if family is not None:
            return _EXCEPTIONS.get(base.__name__, family)
    inner = getattr(model, "estimator", None)  # of a search, a calibration, one model per class
    return None if inner is None else learner_family(inner)


def _last(model: Any) -> Any:
    """The last step of a pipeline, or the estimator itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if steps else model


def _class(model: Any) -> type:
    return model if isinstance(model, type) else type(model)


def _named(name: str) -> type | None:
    """The class of scikit-learn with this name."""
    if name.isidentifier():
        for module in _MODULES:
            kind = getattr(importlib.import_module(f"sklearn.{module}"), name, None)
            if isinstance(kind, type):
                return kind
    return None
