"""Locates the program ``numaio``."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import Iterator

from ._errors import NumaioError

__all__ = ["find_program"]


def find_program() -> str:
    """Returns the path of the program: ``$NUMAIO``, that of this installation, or from ``PATH``.

    :raises NumaioError: if there is none.
    """
    explicit = os.environ.get("NUMAIO")
    if explicit:
        found = shutil.which(explicit)
        if found is None:
            raise NumaioError(
                f"NUMAIO={explicit}: not an executable file", "set NUMAIO to the path of numaio"
            )
        return found
    for path in _installed():
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("numaio")
    if found is None:
        raise NumaioError(
            "numaio is not in PATH", "install it, or set the environment variable NUMAIO to its path"
        )
    return found


def _installed() -> Iterator[str]:
    """Yields where a wheel puts the program: beside this Python, or in the user's scripts."""
    yield os.path.join(sysconfig.get_path("scripts"), "numaio")
    if sys.prefix == sys.base_prefix:
        yield os.path.join(sysconfig.get_path("scripts", f"{os.name}_user"), "numaio")
