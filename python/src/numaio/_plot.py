"""Plots of matplotlib that resemble those of ``numaio report``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from ._tables import optional_import

if TYPE_CHECKING:
    from . import documents
    from ._tables import Matrix

__all__ = ["class_bars", "heat_map"]

#: Colors of the classes 1 to 5, and of a node without a class; as in the report.
_CLASS_COLORS = ("#1f8a63", "#3478c8", "#cf9411", "#a855a0", "#c8433f")
_NO_CLASS = "#7d889a"
#: Colors of the best value and of the value farthest from it.
_COOL, _HOT = "#f6f7f9", "#e0661f"
#: Least distance from the best value, as a share, for the deepest color.
_LEAST_SPAN = 0.3
_SCALES = {"B/s": (1e9, "GB/s")}


def _scale(unit: str) -> Tuple[float, str]:
    return _SCALES.get(unit, (1.0, unit))


def _new_axes(ax: Any, size: Tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    return optional_import("matplotlib.pyplot").subplots(figsize=size, layout="constrained")[1]


def _decimals(values: Sequence[float]) -> int:
    """Returns the decimals that show three digits of the greatest value."""
    greatest = max((abs(value) for value in values), default=0.0)
    return 0 if greatest == 0 else min(max(2 - math.floor(math.log10(greatest)), 0), 9)


def _losses(matrix: "Matrix") -> List[List[float]]:
    """Returns the distance of each value from the best one, as a share of the deepest color."""
    best = matrix.best()

    def loss(value: Optional[float]) -> float:
        if value is None or not best:
            return float("nan")
        return 1 - value / best if matrix.higher_is_better else 1 - best / value if value else 0.0

    losses = [[loss(value) for value in row] for row in matrix.values]
    known = [value for row in losses for value in row if value == value]
    span = max([_LEAST_SPAN, *known])
    return [[value / span for value in row] for row in losses]


def heat_map(matrix: "Matrix", ax: Any = None) -> Any:
    """Implements :meth:`numaio.Matrix.plot`."""
    colors = optional_import("matplotlib.colors").LinearSegmentedColormap.from_list("numaio", [_COOL, _HOT])
    width, height = 1.6 + 0.62 * len(matrix.columns), 1.4 + 0.42 * len(matrix.rows)
    axes = _new_axes(ax, (max(width, 3.6), max(height, 2.4)))
    divisor, unit = _scale(matrix.unit)
    decimals = _decimals([value / divisor for row in matrix.values for value in row if value is not None])
    axes.imshow(_losses(matrix), cmap=colors, vmin=0, vmax=1, aspect="auto")
    for row, values in enumerate(matrix.values):
        for column, value in enumerate(values):
            if value is not None:
                axes.text(
                    column, row, f"{value / divisor:.{decimals}f}", ha="center", va="center", fontsize=9
                )
    axes.set_xticks(range(len(matrix.columns)), matrix.columns)
    axes.set_yticks(range(len(matrix.rows)), matrix.rows)
    axes.set_xlabel(matrix.column_label)
    axes.set_ylabel(matrix.row_label)
    axes.set_title(f"{matrix.title}, {unit}" if unit else matrix.title)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def class_bars(model: "documents.DirectionModel", title: str, ax: Any = None) -> Any:
    """Draws the bandwidth of each node as a bar with its 95 % interval, grouped by class."""
    by_node = {node.node: node for node in model.nodes}
    bars: List[Tuple[float, "documents.NodeBandwidth", Optional[int]]] = []
    labels: List[str] = []
    top = 0.0
    for rank, nodes in _groups(model):
        for node in sorted((by_node[node] for node in nodes), key=lambda node: -node.bytes_copied_per_s):
            bars.append((top, node, rank))
            labels.append(f"{node.node}" if rank is None else f"class {rank}   {node.node}")
            top += 1
        top += 0.4
    axes = _new_axes(ax, (6.4, max(1.2 + 0.32 * len(bars), 2.4)))
    for position, node, rank in bars:
        color = _NO_CLASS if rank is None else _CLASS_COLORS[min(rank, len(_CLASS_COLORS)) - 1]
        low, high = node.interval_bytes_copied_per_s
        value = node.bytes_copied_per_s
        errors = [[max(value - low, 0) / 1e9], [max(high - value, 0) / 1e9]]
        axes.barh(position, value / 1e9, height=0.62, color=color, xerr=errors, ecolor="#1a202b", capsize=3)
    axes.set_yticks([position for position, _, _ in bars], labels)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("GB/s")
    axes.set_ylabel("class and node")
    axes.set_title(title)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def _groups(model: "documents.DirectionModel") -> Sequence[Tuple[Optional[int], List[int]]]:
    """Returns the nodes of each class, and those of none."""
    measured = [node.node for node in model.nodes]
    groups: List[Tuple[Optional[int], List[int]]] = []
    for of_class in model.classes:
        groups.append((of_class.rank, [node for node in of_class.nodes if node in measured]))
    classified = {node for _, nodes in groups for node in nodes}
    groups.append((None, [node for node in measured if node not in classified]))
    return [(rank, nodes) for rank, nodes in groups if nodes]
