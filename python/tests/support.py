"""Paths of the repository, and what this machine can do."""

import importlib.util
import os
import unittest
from pathlib import Path

import numaio

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "crates/schema/tests/fixtures").glob("*.json"))
TAPES = sorted((ROOT / "machines").glob("*.tape"))
SCHEMAS = ROOT / "docs/reference/schemas"

#: The recorded machine of the examples.
MACHINE = "amd-dl585-g7"


def fixture(name):
    """Reads a fixture of a document."""
    return numaio.load(ROOT / "crates/schema/tests/fixtures" / name)


def need(test, *packages):
    """Skips a test if a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise unittest.SkipTest(f"{test}: the Python package {package} is not installed")


def live_device(test):
    """Returns a device of this machine on a known node; skips the test if there is none."""
    topology = numaio.run("topology")
    usable = topology.confinement.cpus & frozenset(os.sched_getaffinity(0))
    for device in topology.devices:
        names = [*device.names, device.pci or ""]
        for name in filter(None, names):
            try:
                placement = numaio.place(name)
            except numaio.NumaioError:
                continue
            if placement.tasks and placement.cpus <= usable:
                return name
    raise unittest.SkipTest(f"{test}: this machine has no device on a known node")


def memory_policy(test):
    """Returns the memory policy of this thread; skips the test if a sandbox forbids it."""
    from numaio._placement import _Kernel

    try:
        kernel = _Kernel()
        policy = kernel.policy()
        kernel.set_policy(policy)
    except (numaio.NumaioError, OSError) as error:
        raise unittest.SkipTest(f"{test}: {error}") from None
    return policy
