"""Running a sweep: which cells are left, who computes them, and what to do when something breaks."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikepool import __version__
from spikepool.errors import InvalidInputError, SpecMismatchError, require
from spikepool.kit import validation as check
from spikepool.kit.progress import Progress
from spikepool.sweeps import cells as cell_work
from spikepool.sweeps import cluster
from spikepool.sweeps.cells import Cell, cells, failed
from spikepool.sweeps.dataset import build
from spikepool.sweeps.executors import here, here_then_on_dask, on_dask
from spikepool.sweeps.kind import Values
from spikepool.sweeps.kinds import Model
from spikepool.sweeps.lock import locked
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.store import Store

if TYPE_CHECKING:
    import xarray as xr


def sweep(
    model: Model,
    weights: Any = None,
    *,
    trials: int = 20,
    seed: int = 0,
    k: int | None = None,
    exact: bool = False,
    table_drawn: bool | None = None,
    store: str | Path | None = None,
    scheduler: Any = None,
    workers: int | None = None,
    progress: bool | None = None,
    retry_failed: bool = False,
    **fields: Any,
) -> xr.Dataset:
    """Predict and simulate over every combination of weights and model fields.

    Parameters
    ----------
    model : SequenceModel, ClassModel or QueryModel
        The fields that do not vary.
    weights : mapping of str to array_like, str or callable, or sequence of str
        Pooling weights by name: T numbers; ``"mean"``, ``"causal"`` or ``"optimal"``, worked out for each R; or a
        function of R, or of the model or of T if its first parameter is called ``model`` or ``T``. A query model has
        its weights in its kernel and takes none.
    trials : int
        Independent draws for every combination; 0 for predictions alone.
    seed : int
        Root seed. Equal seeds give equal datasets, bit for bit on machines of one kind, whatever the number of
        workers and however often the sweep was interrupted.
    k : int, optional
        Number of top eigenpairs kept; by default one where every S is centred, else two. One for a query model, one
        for each class for a class model.
    exact : bool
        Use the finite-T engine, ``model.predict(w, exact=True)``, for the predictions. For a SequenceModel.
    table_drawn : bool, optional
        Whether simulations draw their tables; by default only where the noise is not Gaussian. Part of what a store
        holds: it is not continued on the other route. Not for a query model.
    store : path, optional
        Zarr folder. Run again with the same store, a sweep computes only what is missing or damaged. Without one,
        cells are kept in memory.
    scheduler : str or distributed.Client, optional
        Address of a Dask scheduler (``"tcp://127.0.0.1:8786"``) or a client. Its workers must have this version of
        spikepool; only this process writes to the store. By default processes are started on this machine.
    workers : int, optional
        Processes to start when there is no `scheduler`; 0 works in this process. By default one for each core,
        once the work proves long enough to be worth starting them.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    retry_failed : bool
        Compute again the cells that failed in an earlier run.
    **fields
        Values of any fields of the model: a sequence makes a dimension of that name, one value replaces the model's.
        A mapping from label to value makes a dimension with the labels as coordinate; R, frequencies and other arrays
        need one. ``R=sp.prefix_correlation, T=20, L=[2, 4, 8]`` varies the parameters of a named correlation.
        ``together={"small": {"d": 100, "V": 160, "N": 200}, ...}`` varies fields together.

    Returns
    -------
    xarray.Dataset
        Dimensions ``weights``, the fields in the order given, ``trial``, ``rank`` (1 is the top). Variables:

        * predictions (weights, fields): ``alpha``, ``kappa``, ``edge``, ``predicted_eigenvalue``,
          ``predicted_alignment`` (of the top eigenvector), ``signal_eigenvalue``, ``signal_alignment``,
          ``vocabulary_eigenvalue`` (NaN where there is no such outlier), ``detectable``, ``mu_population``,
          ``mu_sample``. A query model has ``query_eigenvalue`` in place of the vocabulary's, a class model the number
          of ``outliers`` in place of the last six. ``validity``: why a prediction may not hold, or empty;
        * simulations (weights, fields, trial, rank): ``eigenvalues``, ``alignments``; without rank, the top's:
          ``eigenvalue``, ``alignment``;
        * over the trials (weights, fields): ``alignment_mean``, ``alignment_se``, ``eigenvalue_mean``,
          ``eigenvalue_se``, ``trials_done``;
        * ``prediction_error`` (weights, fields) and ``error`` (weights, fields, trial): empty, or what went wrong
          where the numbers are NaN.

        A query model has no dimension ``weights``. Attributes: ``spec`` (JSON), ``seed``, ``route`` (whether tables
        were drawn), ``version``.

    Raises
    ------
    SpecMismatchError
        The store was made from another spec, or with its axes in another order; the differences are named.
    StoreLockedError, StoreWriteError, StoreCorruptError
        Another driver is at work on the store; it cannot be written; its metadata is damaged beyond repair.

    Notes
    -----
    All mu (of a SequenceModel) and all weights of one combination and trial see the same draw (common random numbers),
    so their differences are far more precise than their standard errors suggest, and points along mu are not
    independent.
    """
    spec = SweepSpec.from_fields(
        model, weights, fields, trials=trials, seed=seed, k=k, exact=exact, table_drawn=table_drawn
    )
    return run(spec, store=store, scheduler=scheduler, workers=workers, progress=progress, retry_failed=retry_failed)


def run(
    spec: SweepSpec,
    *,
    store: str | Path | None = None,
    scheduler: Any = None,
    workers: int | None = None,
    progress: bool | None = None,
    retry_failed: bool = False,
) -> xr.Dataset:
    """Run a sweep given as a spec; see :func:`sweep` for the arguments and the result."""
    require("xarray", "sweeps")
    if not isinstance(spec, SweepSpec):
        raise InvalidInputError("spec must be a SweepSpec", spec, "Read one with load_spec, or use sweep")
    if workers is not None:
        workers = check.size(workers, "workers", minimum=0)
    cluster.check_scheduler(scheduler)
    if workers is not None and scheduler is not None:
        raise InvalidInputError("workers is for local runs only", workers, "Leave out workers or scheduler")
    results: dict[Cell, Values] = {}
    if store is None:
        _complete(spec, results, None, scheduler, workers, progress)
        return _dataset(spec, results, __version__)
    path = _local(store)
    with locked(path):
        opened = Store.create_or_resume(path, spec)
        results |= _finished(opened, retry_failed)
        _complete(opened.spec, results, opened, scheduler, workers, progress)
    return _dataset(opened.spec, results, opened.version)


def open_sweep(path: str | Path) -> xr.Dataset:
    """The dataset of a finished sweep, read from its store; nothing is computed or written.

    Every checksum is verified first. (A sweep that is still running can be watched with
    ``xarray.open_zarr(path, consolidated=False)``, where unfinished cells are NaN.)

    Raises
    ------
    SweepError
        There is no store, or the sweep in it is not finished.
    StoreCorruptError
        A file is damaged; it is named. Running the sweep again recomputes it.
    """
    store = Store.open(_local(path))
    return build(store.spec, store.results(), store.version)


def _local(store: Any) -> Path:
    require("zarr", "sweeps")
    if not isinstance(store, (str, Path)):
        raise InvalidInputError("the store must be a path", store, "Pass a string or a pathlib.Path")
    if "://" in str(store):
        raise InvalidInputError("the store must be a folder on this machine", store, "Pass a path; copy it afterwards")
    return Path(store).expanduser().absolute()


def _dataset(spec: SweepSpec, results: dict[Cell, Values], version: str) -> xr.Dataset:
    """The dataset, and a warning if a part of it failed."""
    messages = [text for values in results.values() if failed(values) for text in _errors(values).ravel() if text]
    if messages:
        warnings.warn(
            f"{len(messages)} values of the sweep are NaN because their computation failed; the messages are in "
            f"'prediction_error' and 'error'. The first is: {messages[0]}",
            UserWarning,
            stacklevel=4,
        )
    return build(spec, results, version)


def _errors(values: Values) -> Any:
    return values.get(cell_work.PREDICTION_ERROR, values.get(cell_work.TRIAL_ERROR))


def _finished(store: Store, retry_failed: bool) -> dict[Cell, Values]:
    """What the store already holds."""
    scan = store.scan()
    if scan.damaged:
        warnings.warn(
            f"{len(scan.damaged)} missing or damaged file(s) in the store, computed again: "
            + ", ".join(map(str, scan.damaged[:5]))
            + (", ..." if len(scan.damaged) > 5 else ""),
            UserWarning,
            stacklevel=4,
        )
    kept = scan.done if retry_failed else scan.done | scan.failed
    if kept:
        store.discard(cell for cell in cells(store.spec) if cell not in kept)
    return store.read(kept)


def _complete(
    spec: SweepSpec,
    results: dict[Cell, Values],
    store: Store | None,
    scheduler: Any,
    workers: int | None,
    progress: bool | None,
) -> None:
    """Compute the cells that `results` lacks, and keep each as it comes."""
    pending = [cell for cell in cells(spec) if cell not in results]
    if not pending:
        return
    if store is not None and store.version != __version__:
        raise SpecMismatchError(
            f"the store {store.path} was begun with spikepool {store.version} and is not finished; this is "
            f"{__version__}, whose numbers may differ",
            remedy="Finish it with that version, or choose another store",
        )
    if scheduler is not None:
        computed = on_dask(spec, pending, cluster.remote(scheduler))
    elif workers is None:
        computed = here_then_on_dask(spec, pending)
    elif workers == 0:
        computed = here(spec, pending)
    else:
        computed = on_dask(spec, pending, cluster.local(workers))
    with closing(computed), Progress(len(pending), "sweep", show=progress) as bar:
        for cell, values in computed:
            results[cell] = values
            if store is not None:
                store.write(cell, values)
            bar.advance()
