"""Uses of the package that mypy --strict must accept; test_documents.py checks it."""

from __future__ import annotations

from typing import Optional

import numaio
from numaio import documents


def best_nodes(device: str) -> numaio.IdSet:
    """Returns the nodes of the best class of a device."""
    model = numaio.run("model", device=device)
    first: documents.Class = model.target(device).direction("read").classes[0]
    return first.nodes


def bandwidth(matrix: numaio.Matrix) -> Optional[float]:
    """Returns a value of a matrix."""
    return matrix[0, 1]


def place(device: str) -> int:
    """Returns the nodes of a placement as a mask."""
    with numaio.near(device) as placement:
        return placement.node_mask
