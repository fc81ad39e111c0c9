"""Tests of the Python package numaio; ``NUMAIO`` or ``PATH`` locates the program."""

import runpy
from pathlib import Path

# The package imports a module that is generated.
runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools/python_types.py"), run_name="__main__")
