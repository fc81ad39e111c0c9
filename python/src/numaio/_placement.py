"""Placement of the calling program near a device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
import warnings
from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Set, Tuple, Union

from . import documents
from ._errors import NumaioError
from ._idset import IdSet
from ._run import Option, run_command

__all__ = ["WorkerInit", "bind", "bound", "place"]

#: Numbers of the system calls set_mempolicy(2) and get_mempolicy(2), by the machine's name.
_CALLS = {"x86_64": (238, 239), "aarch64": (237, 236)}

# include/uapi/linux/mempolicy.h
_PREFERRED, _BIND, _INTERLEAVE, _PREFERRED_MANY, _WEIGHTED_INTERLEAVE = 1, 2, 3, 5, 6
_STATIC_NODES = 1 << 15

#: Bits of the mask into which the kernel writes a policy; Linux supports 1,024 nodes.
_MASK_BITS = 1024

_EINVAL = 22

Near = Union[str, Sequence[str]]


def place(near: Near, **options: Option) -> documents.PlacementPlan:
    """Implements :func:`numaio.place`."""
    plan = run_command(["place"], {"near": near, **options}, None, None)
    if not isinstance(plan, documents.PlacementPlan):
        raise NumaioError("numaio place printed no placement", "omit the options that choose another format")
    return plan


@dataclass(frozen=True)
class _Policy:
    """A memory policy of a thread in the kernel's form."""

    mode: int
    mask: int


class _Kernel:
    """The system calls for memory policies, which the standard library lacks."""

    def __init__(self) -> None:
        machine = platform.machine()
        if (
            not sys.platform.startswith("linux")
            or machine not in _CALLS
            or ctypes.sizeof(ctypes.c_void_p) != 8
        ):
            raise NumaioError(f"cannot set a memory policy on {sys.platform} {machine}: unknown system calls")
        self._set, self._get = _CALLS[machine]
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long

    def policy(self) -> _Policy:
        """Returns the memory policy of the calling thread."""
        mode = ctypes.c_int()
        mask = (ctypes.c_ulong * (_MASK_BITS // 64))()
        self._call(
            self._get, ctypes.byref(mode), mask, ctypes.c_ulong(_MASK_BITS + 1), None, ctypes.c_ulong(0)
        )
        return _Policy(mode.value, sum(int(word) << (64 * index) for index, word in enumerate(mask)))

    def set_policy(self, policy: _Policy) -> None:
        """Sets the memory policy of the calling thread."""
        words = [(policy.mask >> shift) & (2**64 - 1) for shift in range(0, _MASK_BITS, 64)]
        mask = (ctypes.c_ulong * len(words))(*words)
        pointer = mask if policy.mask else None
        self._call(self._set, ctypes.c_int(policy.mode), pointer, ctypes.c_ulong(_MASK_BITS + 1))

    def _call(self, number: int, *arguments: object) -> None:
        if self._syscall(ctypes.c_long(number), *arguments) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


def _policies(binding: documents.MemoryBinding) -> List[_Policy]:
    """Returns the policies for a binding in order of preference: older kernels lack the first."""
    first = 1 << min(binding.nodes, default=0) if binding.nodes else 0
    mask = binding.nodes.mask()
    modes: List[Tuple[int, int]] = {
        "bind": [(_BIND, mask)],
        "preferred": (
            [(_PREFERRED_MANY, mask), (_PREFERRED, first)] if len(binding.nodes) > 1 else [(_PREFERRED, mask)]
        ),
        "interleave": [(_INTERLEAVE, mask)],
        "weighted-interleave": [(_WEIGHTED_INTERLEAVE, mask), (_INTERLEAVE, mask)],
    }[binding.policy]
    # Without static nodes the kernel remaps them after a change of the cpuset.
    return [_Policy(mode | (_STATIC_NODES if nodes else 0), nodes) for mode, nodes in modes]


def _set_memory(kernel: _Kernel, binding: documents.MemoryBinding) -> None:
    policies = _policies(binding)
    for index, policy in enumerate(policies):
        try:
            kernel.set_policy(policy)
        except OSError as error:
            if error.errno == _EINVAL and index + 1 < len(policies):
                continue
            raise NumaioError(
                f"cannot set the memory policy to {binding.policy} node {binding.nodes}: {error.strerror}",
                "containers often forbid set_mempolicy by seccomp: allow it (docker: --cap-add SYS_NICE)",
            ) from None
        if index:
            warnings.warn(
                f"this kernel does not support the policy {binding.policy} for nodes {binding.nodes}: "
                "a simpler one is set",
                stacklevel=4,
            )
        return


def _set_cpus(cpus: Set[int]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise NumaioError(
            f"cannot run on CPUs {IdSet(cpus)}: {error.strerror}",
            "the cpuset of this process may have changed",
        ) from None


def bind(placement: documents.PlacementPlan, task: Optional[int] = None) -> None:
    """Implements :func:`numaio.bind`."""
    _check_machine(placement)
    cpus, memory = _of_task(placement, task)
    kernel = _Kernel()
    before = os.sched_getaffinity(0)
    _set_cpus(set(cpus))
    try:
        _set_memory(kernel, memory)
    except NumaioError:
        _set_cpus(before)
        raise


def _check_machine(placement: documents.PlacementPlan) -> None:
    if not isinstance(placement.source, documents.MachineSourceLive):
        of = "simulated machine"
        if isinstance(placement.source, documents.MachineSourceTape):
            of = f"recorded machine '{placement.source.name}'"
        raise NumaioError(
            f"the placement is for the {of}, not for this one", "omit machine= to bind this process"
        )
    if placement.machine.hostname != platform.node():
        raise NumaioError(
            f"the placement is for the host {placement.machine.hostname}, not for {platform.node()}",
            "call numaio.place on this host",
        )


def _of_task(
    placement: documents.PlacementPlan, task: Optional[int]
) -> Tuple[IdSet, documents.MemoryBinding]:
    """Returns the CPUs and the memory of a task, or of all tasks together."""
    if not placement.tasks:
        raise NumaioError("the placement has no task")
    if task is not None:
        if not 0 <= task < len(placement.tasks):
            raise NumaioError(f"no task {task}: the placement has {len(placement.tasks)}")
        return placement.tasks[task].cpus, placement.tasks[task].memory
    policy = placement.tasks[0].memory.policy
    return placement.cpus, documents.MemoryBinding(policy=policy, nodes=placement.memory_nodes)


@contextlib.contextmanager
def bound(
    placement: documents.PlacementPlan, task: Optional[int] = None
) -> Iterator[documents.PlacementPlan]:
    """Implements :func:`numaio.near`."""
    kernel = _Kernel()
    cpus, policy = os.sched_getaffinity(0), kernel.policy()
    bind(placement, task)
    try:
        yield placement
    finally:
        _set_cpus(cpus)
        kernel.set_policy(policy)


class WorkerInit:
    """Binds worker processes near a device; implements :func:`numaio.worker_init`.

    The placement is chosen once, in the parent, and travels to the workers by pickle.
    """

    def __init__(self, placement: documents.PlacementPlan) -> None:
        _check_machine(placement)
        self.placement = placement

    def __call__(self, worker_id: Optional[int] = None) -> None:
        """Binds the calling worker: to a task of the placement, or without a number to all CPUs."""
        tasks = len(self.placement.tasks)
        bind(self.placement, None if worker_id is None or tasks == 1 else worker_id % tasks)
