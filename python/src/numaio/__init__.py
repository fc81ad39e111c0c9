"""Read the documents of numaio, run its commands, and place a program near its devices.

>>> import numaio
>>> model = numaio.run("model", device="nvme0n1")
>>> with numaio.near("nvme0n1"):
...     transfer()
"""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Literal, Optional, Sequence, Union, overload

from . import documents
from ._errors import DocumentError, NumaioError
from ._idset import IdSet
from ._load import ChangedFile, Run, Tape, dump, dumps, load, loads
from ._placement import WorkerInit, bind as _bind, bound as _bound, place as _place
from ._program import find_program
from ._run import Option, Progress, run_command as _run_command
from ._tables import Matrix, Table

__all__ = [
    "ChangedFile",
    "DocumentError",
    "IdSet",
    "Matrix",
    "NumaioError",
    "Run",
    "Table",
    "Tape",
    "WorkerInit",
    "bind",
    "documents",
    "dump",
    "dumps",
    "find_program",
    "load",
    "loads",
    "near",
    "place",
    "run",
    "worker_init",
]

_OnProgress = Optional[Callable[[Progress], None]]


@overload
def run(
    command: Literal["model"],
    *,
    on_progress: _OnProgress = ...,
    timeout: Optional[float] = ...,
    **options: Option,
) -> documents.Model: ...
@overload
def run(
    command: Literal["topology"],
    *,
    on_progress: _OnProgress = ...,
    timeout: Optional[float] = ...,
    **options: Option,
) -> documents.TopologyDocument: ...
@overload
def run(
    command: Literal["stream"],
    *,
    on_progress: _OnProgress = ...,
    timeout: Optional[float] = ...,
    **options: Option,
) -> documents.StreamRecord: ...
@overload
def run(
    command: Literal["latency"],
    *,
    on_progress: _OnProgress = ...,
    timeout: Optional[float] = ...,
    **options: Option,
) -> documents.LatencyRecord: ...
@overload
def run(
    command: Literal["doctor"],
    *,
    on_progress: _OnProgress = ...,
    timeout: Optional[float] = ...,
    **options: Option,
) -> documents.Diagnosis: ...
@overload
def run(
    command: str,
    *words: str,
    on_progress: _OnProgress = ...,
    timeout: Optional[float] = ...,
    **options: Option,
) -> Any: ...
def run(
    command: str,
    *words: str,
    on_progress: _OnProgress = None,
    timeout: Optional[float] = None,
    **options: Option,
) -> Any:
    """Runs a command of numaio and returns its document.

    ``words`` are its subcommand and arguments, ``options`` its options: ``near="eth0"`` is
    ``--near eth0``, ``all=True`` is ``--all``, ``node=[0, 1]`` repeats the option, and an underscore
    stands for a hyphen. ``from_="model.json"`` is ``--from``.

    A command that prints JSON returns the object of :mod:`numaio.documents`; a copy returns the list
    of its events. With ``format=`` and for other commands, the result is the printed text.

    ``on_progress`` is called in another thread with each progress event. An exception in it is
    raised here after the command ended. After ``timeout`` seconds the command is interrupted.

    :raises NumaioError: if the command failed; it has the message, the hint and the exit status.
    """
    return _run_command([command, *words], options, on_progress, timeout)


def place(near: Union[str, Sequence[str]], **options: Option) -> documents.PlacementPlan:
    """Chooses CPUs and memory nodes near a device, as ``numaio place`` does.

    ``near`` is a device, a path, a host or a process, or several of them. ``options`` are those of
    ``numaio place``, such as ``tasks=4`` or ``direction="read"``. Nothing is bound.

    The result has ``cpus`` and ``node_mask`` of all tasks, and ``tasks`` with those of each.
    """
    return _place(near, **options)


def bind(placement: documents.PlacementPlan, task: Optional[int] = None) -> None:
    """Binds the calling thread, and the threads and processes that it starts later.

    It sets the CPU affinity and the memory policy; memory that was allocated before stays where it
    is. With ``task`` they are those of one task, else those of all tasks together.

    :raises NumaioError: if the placement is for another machine, or the kernel refuses it.
    """
    _bind(placement, task)


def near(
    device: Union[str, Sequence[str], documents.PlacementPlan],
    *,
    task: Optional[int] = None,
    **options: Option,
) -> ContextManager[documents.PlacementPlan]:
    """Binds the calling thread near a device for a ``with`` statement, and then restores it.

    ``device`` is what :func:`place` takes, or its result. Binding applies as in :func:`bind`:
    threads and processes that were started in the statement stay bound after it.
    """
    placement = device if isinstance(device, documents.PlacementPlan) else _place(device, **options)
    return _bound(placement, task)


def worker_init(device: Union[str, Sequence[str], documents.PlacementPlan], **options: Option) -> WorkerInit:
    """Returns a function that binds a worker process near a device.

    It is a ``worker_init_fn`` of ``torch.utils.data.DataLoader`` and an ``initializer`` of
    ``multiprocessing.Pool`` or ``concurrent.futures.ProcessPoolExecutor``. With ``tasks=N``, worker
    number i of a DataLoader gets the CPUs of task i; workers without a number share all CPUs.
    """
    placement = device if isinstance(device, documents.PlacementPlan) else _place(device, **options)
    return WorkerInit(placement)
