"""Running a sweep: which cells are left, who computes them, and what to do when something breaks."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikepool import __version__
from spikepool.data.locations import is_url
from spikepool.errors import InvalidInputError, SpecMismatchError, StoreWriteError, SweepError, require
from spikepool.kit import validation as check
from spikepool.kit.progress import Progress
from spikepool.model import QueryModel, SequenceModel
from spikepool.sweeps import cluster
from spikepool.sweeps.cell import Outcome, blank, describe, run_cell
from spikepool.sweeps.dataset import load
from spikepool.sweeps.folders import Folder, LocalFolder, as_folder
from spikepool.sweeps.lease import LEASE_SECONDS, exclusive
from spikepool.sweeps.query import sweep_query
from spikepool.sweeps.schema import Cell, cells
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.store import Store

if TYPE_CHECKING:
    import xarray as xr

# What starting a local cluster costs on two cores; work that takes no longer is done in the calling process.
STARTUP_SECONDS = 6.0


def sweep(
    model: SequenceModel | QueryModel,
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
    lease: float = LEASE_SECONDS,
    **fields: Any,
) -> xr.Dataset:
    """Predict and simulate over every combination of weights and model fields.

    Parameters
    ----------
    model : SequenceModel or QueryModel
        The fields that do not vary. A query model has its weights in its kernel and takes `trials`, `seed`, `store`,
        `progress` and its own fields (``beta=[...], nu=[...], L=[...]``) alone; see
        :func:`spikepool.sweeps.query.sweep_query` for what it gives.
    weights : mapping of str to array_like or str, or sequence of str
        Pooling weights by name: T numbers, or ``"mean"``, ``"causal"``, ``"optimal"``, worked out for each R.
    trials : int
        Independent draws for every combination; 0 for predictions alone.
    seed : int
        Root seed. Equal seeds give equal datasets, bit for bit on machines of one kind, whatever the number of
        workers and however often the sweep was interrupted.
    k : int, optional
        Number of top eigenpairs kept; by default one where every S is centred, else two.
    exact : bool
        Use the finite-T engine, ``model.predict(w, exact=True)``, for the predictions.
    table_drawn : bool, optional
        Whether simulations draw their tables; by default only where the noise is not Gaussian. Part of what a store
        holds: it is not continued on the other route.
    store : path or URL, optional
        Zarr store: a folder, or ``"s3://bucket/runs/a.zarr"`` (``gs://``, ... whatever fsspec reaches; credentials
        come from the environment of the driver and of each worker). Run again with the same store, a sweep computes
        only what is missing or damaged. Without one, results are kept in a temporary folder and returned.
    scheduler : str or distributed.Client, optional
        Address of a Dask scheduler (``"tcp://127.0.0.1:8786"``) or a client. Its workers must have this version of
        spikepool and see the store at the same path. By default processes are started on this machine.
    workers : int, optional
        Processes to start when there is no `scheduler`; 0 works in this process. By default one for each core,
        once the work proves long enough to be worth starting them.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    retry_failed : bool
        Compute again the cells that failed in an earlier run.
    lease : float
        Seconds after which a driver on a URL that gave no sign of life is taken for dead and another may go on. (A
        folder has a lock that ends with its driver.)
    **fields
        ``together={"small": {"d": 100, "V": 160, "N": 200}, ...}`` varies fields together, along a dimension of that
        name with the labels as coordinate. Else values of any fields of the model: a sequence makes a dimension of that
        name, one value replaces the
        model's. R, frequencies, covariance and direction vary over a mapping from label to array.

    Returns
    -------
    xarray.Dataset
        Dimensions ``weights``, the fields in the order given, ``trial``, ``rank`` (1 is the top). Variables:

        * predictions (weights, fields): ``alpha``, ``kappa``, ``edge``, ``predicted_eigenvalue``,
          ``predicted_alignment`` (of the top eigenvector), ``signal_eigenvalue``, ``signal_alignment``,
          ``vocabulary_eigenvalue`` (NaN where there is no such outlier), ``detectable``, ``mu_population``,
          ``mu_sample``;
        * simulations (weights, fields, trial, rank): ``eigenvalues``, ``alignments``; without rank, the top's:
          ``eigenvalue``, ``alignment``;
        * over the trials (weights, fields): ``alignment_mean``, ``alignment_se``, ``eigenvalue_mean``,
          ``eigenvalue_se``, ``trials_done``;
        * ``prediction_error`` (weights, fields) and ``error`` (weights, fields, trial): empty, or what went wrong
          where the numbers are NaN.

        Attributes: ``spec`` (JSON), ``seed``, ``route`` (whether tables were drawn), ``version``.

    Raises
    ------
    SpecMismatchError
        The store was made from another spec; the differences are named.
    StoreLockedError, StoreWriteError, StoreCorruptError
        Another driver is at work on the store; it cannot be written; its metadata is damaged beyond repair.

    Notes
    -----
    All mu and all weights of one combination and trial see the same draw (common random numbers), so their
    differences are far more precise than their standard errors suggest, and points along mu are not independent.
    """
    if isinstance(model, QueryModel):
        options = {"weights": weights, "k": k, "table_drawn": table_drawn, "scheduler": scheduler}
        for name, value in (options | {"exact": exact or None, "workers": workers}).items():
            if value is not None:
                raise InvalidInputError(f"a sweep of a QueryModel does not take {name}", value, f"Leave {name} out")
        return sweep_query(model, fields, trials=trials, seed=seed, store=store, progress=progress, lease=lease)
    spec = SweepSpec.from_fields(
        model, weights, fields, trials=trials, seed=seed, k=k, exact=exact, table_drawn=table_drawn
    )
    return run(
        spec,
        store=store,
        scheduler=scheduler,
        workers=workers,
        progress=progress,
        retry_failed=retry_failed,
        lease=lease,
    )


def run(
    spec: SweepSpec,
    *,
    store: str | Path | None = None,
    scheduler: Any = None,
    workers: int | None = None,
    progress: bool | None = None,
    retry_failed: bool = False,
    lease: float = LEASE_SECONDS,
) -> xr.Dataset:
    """Run a sweep given as a spec; see :func:`sweep` for the arguments and the result."""
    for module in ("xarray", "zarr"):
        require(module, "sweeps")
    if not isinstance(spec, SweepSpec):
        raise InvalidInputError("spec must be a SweepSpec", spec, "Read one with load_spec, or use sweep")
    if workers is not None:
        workers = check.size(workers, "workers", minimum=0)
    lease = check.positive(lease, "lease")
    cluster.check_scheduler(scheduler)
    if workers is not None and scheduler is not None:
        raise InvalidInputError("workers is for local runs only", workers, "Leave out workers or scheduler")
    if store is None:
        with tempfile.TemporaryDirectory(prefix="spikepool-") as folder:
            temporary = LocalFolder(Path(folder) / "sweep.zarr")
            return _run(spec, temporary, scheduler, workers, progress, retry_failed, lease)
    if not isinstance(store, (str, Path)):
        raise InvalidInputError("the store must be a path or URL", store, "Pass a string or a pathlib.Path")
    where = as_folder(store if is_url(store) else Path(store).expanduser().absolute())
    return _run(spec, where, scheduler, workers, progress, retry_failed, lease)


def _run(
    spec: SweepSpec,
    folder: Folder,
    scheduler: Any,
    workers: int | None,
    progress: bool | None,
    retry_failed: bool,
    lease: float,
) -> xr.Dataset:
    with exclusive(folder, lease) as still_ours:
        store = Store.create_or_resume(folder, spec)
        pending = _pending(store, retry_failed)
        if pending:
            if store.version != __version__:
                raise SpecMismatchError(
                    f"the store {folder} was begun with spikepool {store.version} and is not finished; this is "
                    f"{__version__}, whose numbers may differ",
                    remedy="Finish it with that version, or choose another store",
                )
            _compute(store, pending, scheduler, workers, progress, still_ours)
        dataset = load(store)
    _warn_of_failures(dataset)
    return dataset


def _warn_of_failures(dataset: xr.Dataset) -> None:
    names = [name for name in ("prediction_error", "error") if name in dataset]
    messages = [text for name in names for text in dataset[name].values.ravel() if text]
    if messages:
        warnings.warn(
            f"{len(messages)} values of the sweep are NaN because their computation failed; the messages are in "
            f"'prediction_error' and 'error'. The first is: {messages[0]}",
            UserWarning,
            stacklevel=4,
        )


def _pending(store: Store, retry_failed: bool) -> list[Cell]:
    scan = store.scan()
    if scan.damaged:
        warnings.warn(
            f"{len(scan.damaged)} missing or damaged file(s) in the store, computed again: "
            + ", ".join(map(str, scan.damaged[:5]))
            + (", ..." if len(scan.damaged) > 5 else ""),
            UserWarning,
            stacklevel=4,
        )
    finished = scan.done if retry_failed else scan.done | scan.failed
    return [cell for cell in cells(store.spec) if cell not in finished]


def _compute(
    store: Store,
    pending: list[Cell],
    scheduler: Any,
    workers: int | None,
    progress: bool | None,
    still_ours: Callable[[], None],
) -> None:
    if scheduler is not None:
        outcomes = _on_dask(store, pending, cluster.remote(scheduler))
    elif workers is None:
        outcomes = _here_then_on_dask(store, pending)
    elif workers == 0:
        outcomes = _here(store, pending)
    else:
        outcomes = _on_dask(store, pending, cluster.local(workers))
    with closing(outcomes), Progress(len(pending), "sweep", show=progress) as bar:
        for outcome in outcomes:
            still_ours()
            if outcome.status == "unwritable":
                raise StoreWriteError(outcome.message.rstrip("."))
            if outcome.status == "refused":
                raise SweepError(
                    outcome.message.rstrip("."),
                    remedy="Workers need this version of spikepool, and a path they all share or a URL they can reach",
                )
            bar.advance()


def _here(store: Store, pending: list[Cell]) -> Generator[Outcome, None, None]:
    for cell in pending:
        yield run_cell(cell, store.folder.where, store.fingerprint, __version__)


def _here_then_on_dask(store: Store, pending: list[Cell]) -> Generator[Outcome, None, None]:
    """In this process while the rest should take no longer than starting others; the numbers are the same."""
    cores = cluster.default_workers()
    for i in range(len(pending)):
        start = time.monotonic()
        yield from _here(store, pending[i : i + 1])
        rest = pending[i + 1 :]
        if cores > 1 and (time.monotonic() - start) * len(rest) > STARTUP_SECONDS:
            yield from _on_dask(store, rest, cluster.local(min(cores, len(rest))))
            return


def _on_dask(
    store: Store, pending: list[Cell], connection: AbstractContextManager[Any]
) -> Generator[Outcome, None, None]:
    distributed = require("distributed", "sweeps")

    def submit(batch: list[Cell]) -> list[Any]:
        common = {"path": store.folder.where, "fingerprint": store.fingerprint, "version": __version__}
        # impure: a task's answer is what it leaves in this store, never that of an earlier run
        futures: list[Any] = client.map(run_cell, batch, pure=False, **common)
        return futures

    with connection as client:
        futures = submit(pending)
        cell_of = dict(zip((future.key for future in futures), pending, strict=True))
        suspects = []
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                outcome = _outcome(future, distributed)
                if outcome is None:
                    suspects.append(cell_of[future.key])
                else:
                    yield outcome
                future.release()
            for cell in suspects:  # Dask also blames cells that only waited on a worker that died: one at a time
                yield _outcome(submit([cell])[0], distributed) or _give_up(store, cell)
        finally:
            client.cancel([future for future in futures if not future.done()])


def _outcome(future: Any, distributed: Any) -> Outcome | None:
    """The answer of a worker; None when several died on the task."""
    try:
        outcome: Outcome = future.result()
    except distributed.scheduler.KilledWorker:
        return None
    except Exception as err:
        raise SweepError(
            f"the Dask cluster failed ({describe(err)})",
            remedy="Check its logs and that its workers have spikepool installed, then run again: finished "
            "cells are kept",
        ) from err
    return outcome


def _give_up(store: Store, cell: Cell) -> Outcome:
    message = "KilledWorker: every worker that tried it died, perhaps for want of memory"
    store.write(cell, blank(store.spec, cell, message), failed=True)
    return Outcome("failed", message)
