"""Tests of the Python package numaio; ``NUMAIO`` or ``PATH`` locates the program."""
