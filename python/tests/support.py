"""Paths of the repository, and what this machine can do."""

import functools
import importlib.util
import json
import os
import subprocess
import unittest
from pathlib import Path

import numaio

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "crates/schema/tests/fixtures").glob("*.json"))
TAPES = sorted((ROOT / "machines").glob("*.tape"))

#: The recorded machine of the examples.
MACHINE = "amd-dl585-g7"


def fixture(name):
    """Reads a fixture of a document."""
    return numaio.load(ROOT / "crates/schema/tests/fixtures" / name)


def generate(*words):
    """Returns the output of `numaio generate`."""
    program = os.environ.get("NUMAIO", "numaio")
    return subprocess.run([program, "generate", *words], check=True, stdout=subprocess.PIPE).stdout


@functools.lru_cache(maxsize=None)
def schema_of(document):
    """Returns the JSON Schema of a kind and version of documents, such as numaio/model/1."""
    return json.loads(generate("schemas", document))


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
