"""Work over chunks on the active scheduler: one result per chunk, or sums merged in a tree.

Without Dask, chunks are worked on one after the other in this process. With it (a Dask array, or data that workers
can open themselves while a scheduler has been chosen: ``distributed.Client``, ``dask.config.set(scheduler=...)``) a
task takes a few neighbouring chunks, and sums are merged between neighbours, so that the order of merging follows
from the borders alone and not from who was first. A task changes nothing but its own result: one whose worker died
is simply done again elsewhere.

A function of blocks of sequences applied to all rows: at once, or lazily to Dask arrays.
"""

from __future__ import annotations

import sys
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import BlockSource, DaskBlocks, check_aligned
from spikepool.data.tokens import Block, TokenForm, TokenInput
from spikepool.errors import SpikepoolError, UnreadableChunkError, require
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress

# Chunks of a task, in bytes as stored: few enough to hold at once beside each other, many enough that sums of a few
# megabytes are not sent about for every small chunk.
TASK_BYTES = 96 * 2**20

# Tasks that a pass is cut into where its chunks allow, so that a few workers have about the same to do.
LEAST_TASKS = 8


class Sums(Protocol):
    """What :func:`map_merge` adds up."""

    @property
    def add(self) -> Callable[..., None]:
        """``add(start, *parts)`` adds one chunk of every source; `start` is its first row."""

    def merged(self, other: Self) -> Self:
        """The sums of these rows and of `other`'s, which follow; both are left as they were."""


S = TypeVar("S", bound=Sums)
R = TypeVar("R")


class Chunk:
    """Chunk k of a source that workers open themselves; loaded where it is needed."""

    def __init__(self, source: BlockSource, k: int) -> None:
        self.source, self.k = source, k

    def load(self) -> NDArray[Any]:
        """The rows."""
        return self.source.read(self.k)


def map_merge(new: Callable[[], S], sources: Sequence[BlockSource], *, label: str, show: bool | None = None) -> S:
    """Sums over all the chunks of `sources`, which are read together, once.

    Parameters
    ----------
    new : callable
        Gives empty sums; it travels to the workers once.
    sources : sequence of BlockSource
        With equal borders.
    label : str
        Of the progress bar, which counts chunks.
    show : bool, optional
        See :class:`spikepool.kit.progress.Progress`.
    """
    check_aligned(sources)
    with Progress(sources[0].n_chunks, label, show=show) as bar:
        if uses_dask(sources):
            return _merged_by_dask(new, sources, bar)
        sums = new()
        for k in range(sources[0].n_chunks):
            sums.add(sources[0].borders[k], *(source.read(k) for source in sources))
            bar.advance()
        return sums


def map_chunks(
    task: Callable[..., R], sources: Sequence[BlockSource], *, label: str, show: bool | None = None
) -> Iterator[tuple[int, R]]:
    """First row of each chunk and ``task(start, *parts)``, in order of rows; each chunk is read once.

    On Dask a few tasks a worker are under way at any time, so that results do not pile up before they are used.
    """
    check_aligned(sources)
    with Progress(sources[0].n_chunks, label, show=show) as bar:
        if uses_dask(sources):
            yield from _mapped_by_dask(task, sources, bar)
            return
        for k in range(sources[0].n_chunks):
            start = sources[0].borders[k]
            yield start, task(start, *(source.read(k) for source in sources))
            bar.advance()


def uses_dask(sources: Sequence[BlockSource]) -> bool:
    """Whether the work belongs on Dask: a source does, or all can be opened by workers and a scheduler was chosen."""
    if any(isinstance(source, DaskBlocks) for source in sources):
        return True
    return sources[0].portable and "dask" in sys.modules and _chosen_scheduler()


def _chosen_scheduler() -> bool:
    dask = sys.modules["dask"]
    return dask.config.get("scheduler", None) is not None or active_client() is not None


def active_client() -> Any:
    """The distributed client that Dask would use now, or None."""
    if "distributed" not in sys.modules:
        return None
    get = require("dask.base", "sweeps").get_scheduler()
    client = getattr(get, "__self__", None)
    return client if isinstance(client, sys.modules["distributed"].Client) else None


def shared_value(value: Any, name: str) -> Any:
    """`value` as a Delayed that travels once, however many tasks use it, and is at hand again when a worker died."""
    delayed = require("dask", "sweeps").delayed
    return delayed(value, name=f"spikepool-{name}-{uuid.uuid4().hex}", traverse=False)


def chunk_argument(source: BlockSource, k: int) -> Any:
    """Chunk k as an argument of a Dask task."""
    if isinstance(source, DaskBlocks):
        return source.delayed(k)
    return Chunk(source, k) if source.portable else source.read(k)


def _merged_by_dask(new: Callable[[], S], sources: Sequence[BlockSource], bar: Progress) -> S:
    delayed = require("dask", "sweeps").delayed
    first = shared_value(new, "new")
    parts, counts = [], []
    for chunks in _groups(sources):
        arguments = [[chunk_argument(source, k) for source in sources] for k in chunks]
        starts = [sources[0].borders[k] for k in chunks]
        parts.append(delayed(_sum, pure=False)(first, starts, arguments))
        counts.append(len(chunks))
    tree = list(parts)
    while len(tree) > 1:  # neighbours, so that the order of rows is kept
        pairs = [delayed(_merge, pure=False)(tree[i], tree[i + 1]) for i in range(0, len(tree) - 1, 2)]
        tree = pairs + tree[2 * len(pairs) :]
    client = active_client()
    with _named_failures(), _large_graphs_allowed():
        if client is None:
            with _counted({part.key: count for part, count in zip(parts, counts, strict=True)}, bar):
                result: S = tree[0].compute()
            return result
        root, *futures = client.compute([tree[0], *(parts if len(parts) > 1 else [])])
        try:
            done = {future.key: count for future, count in zip(futures, counts, strict=bool(futures))}
            for future in require("distributed", "sweeps").as_completed(futures, loop=client.loop):
                if future.status != "finished":
                    future.result()  # raises
                bar.advance(done[future.key])
                future.release()  # the tree holds on to it for as long as it needs it
            result = root.result()
        finally:
            client.cancel([root, *(future for future in futures if not future.done())])
        return result


def _mapped_by_dask(task: Callable[..., R], sources: Sequence[BlockSource], bar: Progress) -> Iterator[tuple[int, R]]:
    dask = require("dask", "sweeps")
    client = active_client()
    run = shared_value(task, "task")
    if client is not None:
        with _large_graphs_allowed():
            run = client.compute(run)  # one copy on the cluster; workers pass it on to each other
    starts = sources[0].borders

    def calls(batch: range) -> list[Any]:
        call = dask.delayed(_call, pure=False)
        return [call(run, starts[k], [chunk_argument(source, k) for source in sources]) for k in batch]

    width = max(2, 2 * sum(client.nthreads().values())) if client is not None else 8
    batches = [range(k, min(k + width, sources[0].n_chunks)) for k in range(0, sources[0].n_chunks, width)]
    under_way: deque[list[Any]] = deque()
    try:
        for number, batch in enumerate(batches):
            with _named_failures(), _large_graphs_allowed():
                if client is None:
                    results = dask.compute(*calls(batch))
                else:  # the next batch is under way while this one is used
                    while len(under_way) < 2 and number + len(under_way) < len(batches):
                        under_way.append(client.compute(calls(batches[number + len(under_way)])))
                    results = client.gather(under_way.popleft())
            for k, result in zip(batch, results, strict=True):
                yield starts[k], result
                bar.advance()
    finally:
        for futures in under_way:
            client.cancel(futures)


def _groups(sources: Sequence[BlockSource]) -> list[range]:
    """Neighbouring chunks that make up a task."""
    borders = sources[0].borders
    row = sum(source.row_bytes for source in sources)
    most = min(TASK_BYTES, borders[-1] * row / LEAST_TASKS)
    groups, first = [], 0
    for k in range(1, len(borders)):
        if k == len(borders) - 1 or (borders[k + 1] - borders[first]) * row > most:
            groups.append(range(first, k))
            first = k
    return groups


def load_chunk(part: Any) -> Any:
    """An argument of a task as rows."""
    return part.load() if isinstance(part, Chunk) else part


def _sum(new: Callable[[], S], starts: Sequence[int], chunks: Sequence[Sequence[Any]]) -> S:
    sums = new()
    for start, parts in zip(starts, chunks, strict=True):
        sums.add(start, *map(load_chunk, parts))
    return sums


def _merge(first: S, second: S) -> S:
    return first.merged(second)


def _call(task: Callable[..., R], start: int, parts: Sequence[Any]) -> R:
    return task(start, *map(load_chunk, parts))


@contextmanager
def _named_failures() -> Iterator[None]:
    """An error of ours passes; anything else comes from loading a chunk of a Dask array or from the cluster."""
    try:
        yield
    except SpikepoolError:
        raise
    except Exception as err:
        raise UnreadableChunkError(
            f"a chunk of the Dask array could not be computed ({type(err).__name__}: {' '.join(str(err).split())})",
            remedy="Compute that chunk alone to see why; nothing was fitted",
        ) from err


@contextmanager
def _large_graphs_allowed() -> Iterator[None]:
    """Dask warns of large objects in a graph; an embedding table is one on purpose, and is sent once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


@contextmanager
def _counted(keys: dict[str, int], bar: Progress) -> Iterator[None]:
    """Advance the bar as tasks end on a scheduler of this machine."""
    callback = require("dask.callbacks", "sweeps").Callback

    def finished(key: Any, *_: Any) -> None:
        if key in keys:
            bar.advance(keys[key])

    with callback(posttask=finished):
        yield


# ((x, observed), number of the first row) -> (rows, width). A function with a true attribute ``trims`` does not need
# the positions that no row of a piece has observed.
RowFunction = Callable[[Block, int], FloatArray]


@dataclass(frozen=True, eq=False)
class ChunkFunction:
    """A function of blocks as one of stored chunks; travels to workers."""

    form: TokenForm
    function: RowFunction

    def __call__(self, start: int, rows: NDArray[Any], mask: NDArray[Any] | None = None) -> FloatArray:
        """The function on every piece of a chunk, one below the other."""
        trimmed = bool(getattr(self.function, "trims", False))
        parts = [
            self.function(piece, first + within)
            for first, block in self.form.split(start, rows, mask)
            for within, _, piece in block.pieces(trimmed=trimmed)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def map_rows(source: TokenInput, function: RowFunction, width: int, label: str, show: bool | None) -> FloatArray:
    """``function((x, observed), first_row)`` for all blocks of rows, one below the other: (n, width) in memory."""
    require_memory(
        8 * source.n * width, f"{label} of {source.n} rows as one array", "Write it to a store, or use fewer rows"
    )
    out = np.empty((source.n, width))
    for start, rows in map_chunks(ChunkFunction(source.form, function), source.sources, label=label, show=show):
        out[start : start + len(rows)] = rows
    return out


def map_rows_lazily(source: TokenInput, function: RowFunction, width: int) -> Any:
    """The same as a Dask array with the chunks of rows of the input; each is read when its rows are computed."""
    da = require("dask.array", "sweeps")
    delayed = require("dask", "sweeps").delayed
    check_aligned(source.sources)
    run = shared_value(ChunkFunction(source.form, function), "pool")
    borders = source.source.borders
    parts = [
        da.from_delayed(
            delayed(_apply, pure=False)(run, start, [chunk_argument(part, k) for part in source.sources]),
            shape=(borders[k + 1] - start, width),
            dtype=np.float64,
        )
        for k, start in enumerate(borders[:-1])
    ]
    return da.concatenate(parts)


def map_any(source: TokenInput, function: RowFunction, width: int, label: str, show: bool | None) -> Any:
    """A lazy Dask array for Dask arrays, else an array."""
    if isinstance(source.source, DaskBlocks):
        return map_rows_lazily(source, function, width)
    return map_rows(source, function, width, label, show)


def _apply(run: ChunkFunction, start: int, parts: list[Any]) -> FloatArray:
    return run(start, *map(load_chunk, parts))
