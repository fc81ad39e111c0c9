"""Builds the package from the repository: generates its documents, then calls maturin."""

import runpy
from pathlib import Path

from maturin import *  # noqa: F403

runpy.run_path(str(Path(__file__).resolve().parents[1] / "tools/python_types.py"), run_name="__main__")
