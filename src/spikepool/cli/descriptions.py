"""The small languages of the command line: correlations, weights and lists of numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikepool.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CORRELATION_HELP = (
    "Positional correlation: prefix:L, markov:RHO, equi:RHO, spiked:STRENGTH,SUPPORT, identity, or a .csv/.npy file."
)
WEIGHTS_HELP = "mean, causal, causal:LAYERS, optimal, numbers like 0.5,0.3,0.2, or a .csv/.npy file; may be repeated."


def parse_correlation(text: str, T: int) -> NDArray[np.float64]:
    """(T, T) matrix described by `text`; see ``CORRELATION_HELP``."""
    from spikepool import errors
    from spikepool.world.correlation import NAMED_CORRELATIONS

    if Path(text).suffix in (".csv", ".npy"):
        R = load_array(Path(text), "correlation")
        if R.shape != (T, T):
            raise errors.ShapeError(f"the correlation in {text} must be ({T}, {T})", R, "Set --T to its size")
        return R
    kind, _, arguments = text.partition(":")
    numbers = parse_numbers(arguments, "correlation") if arguments else []
    kind = {"equi": "equicorrelation"}.get(kind, kind)
    make = NAMED_CORRELATIONS.get(kind)
    # what follows the colon are the parameters after T, in order, that have no default
    wanted = [] if make is None else [p.name for p in _required(make) if p.name != "T"]
    if make is None or len(numbers) != len(wanted):
        raise InvalidInputError(
            "correlation is not understood",
            text,
            "Write " + CORRELATION_HELP.removeprefix("Positional correlation: ").rstrip("."),
        )
    return make(T, *numbers)


def _required(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters without a default."""
    return [p for p in inspect.signature(function).parameters.values() if p.default is inspect.Parameter.empty]


def parse_weights(texts: list[str], R: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Named pooling weights for the length of `R`; see ``WEIGHTS_HELP``."""
    from spikepool.kit import validation as check
    from spikepool.world import weights as kinds

    T = len(R)
    named: dict[str, NDArray[np.float64]] = {}
    for text in texts:
        name, _, argument = text.partition(":")
        if Path(text).suffix in (".csv", ".npy"):
            name, w = Path(text).stem, load_array(Path(text), "weights").ravel()
        elif "," in text:
            import numpy as np

            w = np.asarray(parse_numbers(text, "weights"))
        elif name == "causal" and argument:
            w = kinds.causal_weights(T, layers=parse_numbers(argument, "weights")[0])  # type: ignore[arg-type]
            name = text
        elif text in kinds.NAMED_WEIGHTS:
            w = kinds.named_weights(text, R)
        else:
            raise InvalidInputError("weights are not understood", text, "Write " + WEIGHTS_HELP.rstrip("."))
        named[name if "," not in text else text] = check.weight_vector(w, T)
    return named


def parse_numbers(text: str, name: str) -> list[float]:
    """Comma-separated numbers, or ``start:stop:count`` for evenly spaced ones."""
    try:
        if text.count(":") == 2:
            import numpy as np

            start, stop, count = text.split(":")
            return [float(x) for x in np.linspace(float(start), float(stop), int(count))]
        return [float(item) for item in text.split(",")]
    except ValueError as err:
        raise InvalidInputError(f"{name}: not a list of numbers", text, "Write 1,2,3 or start:stop:count") from err


def load_array(path: Path, name: str) -> NDArray[np.float64]:
    """Numbers from a .csv or .npy file (never a pickle)."""
    import numpy as np

    from spikepool.data.reading import read_array
    from spikepool.kit.validation import finite_array

    return np.asarray(finite_array(read_array(path), name))
