"""Methods of the generated classes of :mod:`numaio.documents`.

The annotations repeat fields of these classes for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple, Union

from ._errors import NumaioError
from ._idset import IdSet
from ._tables import Matrix, Table

if TYPE_CHECKING:
    from . import documents

__all__ = [
    "ComparisonMethods",
    "DirectionModelMethods",
    "IoRecordMethods",
    "LatencyRecordMethods",
    "MemoryBindingMethods",
    "ModelMethods",
    "PlacementPlanMethods",
    "StreamRecordMethods",
    "SweepRecordMethods",
    "TargetModelMethods",
    "TopologyDocumentMethods",
    "ViewMethods",
]


def _listed(values: List[Any]) -> str:
    return ", ".join(str(value) for value in values) or "none"


def _require(kind: str, name: str, known: Iterable[str]) -> None:
    """Raises an error with the valid names if a document does not have a name."""
    names = list(dict.fromkeys(known))
    if name not in names:
        raise NumaioError(f"no {kind} '{name}'", f"measured: {_listed(names)}")


class _Tabular:
    """A document that is also a table."""

    def table(self) -> Table:
        """Returns the figures, one row for each."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Returns the figures as a ``pandas.DataFrame``, one row for each."""
        return self.table().to_pandas()

    def to_polars(self) -> Any:
        """Returns the figures as a ``polars.DataFrame``, one row for each."""
        return self.table().to_polars()

    def to_arrow(self) -> Any:
        """Returns the figures as a ``pyarrow.Table``, one row for each."""
        return self.table().to_arrow()


class TopologyDocumentMethods:
    """Methods of a topology."""

    if TYPE_CHECKING:
        nodes: List["documents.Node"]
        distances: Optional["documents.Distances"]

    def node(self, node: int) -> "documents.Node":
        """Returns a node by its id."""
        for found in self.nodes:
            if found.id == node:
                return found
        raise NumaioError(f"no node {node}", f"nodes: {_listed([found.id for found in self.nodes])}")

    def matrix(self) -> Matrix:
        """Returns the distances between nodes as firmware states them: 10 is local."""
        if self.distances is None:
            raise NumaioError("the kernel of this machine reports no distances")
        nodes = self.distances.nodes
        values: List[List[Optional[float]]] = [[float(value) for value in row] for row in self.distances.rows]
        return Matrix("Distance", "", "node", nodes, "node", nodes, values, higher_is_better=False)


class ModelMethods(_Tabular):
    """Methods of a model."""

    if TYPE_CHECKING:
        targets: List["documents.TargetModel"]
        record: "documents.Record"

    def target(self, of: Union[None, int, str] = None) -> "documents.TargetModel":
        """Returns the model of a target: of a node, of the node of a device, or the only one."""
        matching = [
            target for target in self.targets if of is None or of == target.target or of in target.devices
        ]
        if len(matching) == 1:
            return matching[0]
        nodes = _listed([target.target for target in self.targets])
        problem = "no target" if not matching else "several targets"
        raise NumaioError(problem if of is None else f"no target '{of}'", f"targets: {nodes}")

    def matrix(self, direction: "documents.Direction" = "write") -> Matrix:
        """Returns the bandwidth in bytes per second, by target and by node of the buffers.

        :raises NumaioError: if the direction was not measured; the hint lists the measured ones.
        """
        measured = [model.direction for target in self.targets for model in target.directions]
        _require("direction", direction, measured)
        cells: Dict[Tuple[int, int], Optional[float]] = {}
        for target in self.targets:
            for model in target.directions:
                if model.direction == direction:
                    for node in model.nodes:
                        cells[target.target, node.node] = node.bytes_copied_per_s
        return Matrix.of_cells(
            cells,
            title=f"Device {direction}",
            unit="B/s",
            row_label="target node",
            column_label="memory node",
        )

    def table(self) -> Table:
        """Returns a row for each target, direction and node."""
        rows: List[Tuple[Any, ...]] = []
        for target in self.targets:
            for model in target.directions:
                for node in model.nodes:
                    low, high = node.interval_bytes_copied_per_s
                    rank = model.rank(node.node)
                    place = (target.target, model.direction, node.node, rank)
                    figures = (node.bytes_copied_per_s, low, high, node.numa_factor, node.settled)
                    rows.append(place + figures)
        columns = [
            "target",
            "direction",
            "node",
            "class",
            "bytes_per_s",
            "low",
            "high",
            "numa_factor",
            "settled",
        ]
        return Table.of_rows("node of a target and direction", columns, rows)


class TargetModelMethods:
    """Methods of the model of a target."""

    if TYPE_CHECKING:
        target: int
        directions: List["documents.DirectionModel"]

    def direction(self, name: "documents.Direction") -> "documents.DirectionModel":
        """Returns the model of a direction: ``write`` (memory to device) or ``read``."""
        for model in self.directions:
            if model.direction == name:
                return model
        measured = _listed([model.direction for model in self.directions])
        raise NumaioError(
            f"direction '{name}' of node {self.target} was not measured", f"measured: {measured}"
        )


class DirectionModelMethods:
    """Methods of the model of a target and direction."""

    if TYPE_CHECKING:
        direction: "documents.Direction"
        classes: List["documents.Class"]
        nodes: List["documents.NodeBandwidth"]

    def rank(self, node: int) -> Optional[int]:
        """Returns the class of a node: 1 is best; ``None`` if it has none."""
        return next((found.rank for found in self.classes if node in found.nodes), None)

    def bandwidth(self, node: int) -> float:
        """Returns the bandwidth of a node in bytes per second."""
        for found in self.nodes:
            if found.node == node:
                return found.bytes_copied_per_s
        raise NumaioError(f"node {node} was not measured")

    def plot(self, ax: Any = None) -> Any:
        """Draws bars of the nodes by class with matplotlib, with their 95 % intervals.

        Returns the ``matplotlib.axes.Axes``.
        """
        from . import documents
        from ._plot import class_bars

        assert isinstance(self, documents.DirectionModel)
        return class_bars(self, f"Device {self.direction}", ax)


class StreamRecordMethods(_Tabular):
    """Methods of STREAM results."""

    if TYPE_CHECKING:
        cells: List["documents.StreamCell"]

    def matrix(self, op: "documents.StreamOp" = "copy") -> Matrix:
        """Returns the median in bytes per second, by CPU node and by memory node.

        If cores were measured one by one, it is that of the node's best core.
        """
        _require("operation", op, (cell.op for cell in self.cells))
        cells: Dict[Tuple[int, int], Optional[float]] = {}
        for cell in self.cells:
            if cell.op == op:
                place = (cell.cpu_node, cell.memory_node)
                cells[place] = _greater(cells.get(place), _median(cell.bytes_per_s))
        return Matrix.of_cells(
            cells, title=f"STREAM {op}", unit="B/s", row_label="CPU node", column_label="memory node"
        )

    def table(self) -> Table:
        """Returns a row for each operation and pair of nodes."""
        rows = [
            (cell.op, cell.cpu_node, cell.memory_node, str(cell.cpus), *_figures(cell.bytes_per_s))
            for cell in self.cells
        ]
        return Table.of_rows(
            "STREAM operation", ["op", "cpu_node", "memory_node", "cpus", "bytes_per_s", *_SPREAD], rows
        )


class LatencyRecordMethods(_Tabular):
    """Methods of latencies."""

    if TYPE_CHECKING:
        cells: List["documents.LatencyCell"]

    def matrix(self) -> Matrix:
        """Returns the median in nanoseconds per load, by CPU node and by memory node."""
        cells = {(cell.cpu_node, cell.memory_node): _median(cell.ns_per_load) for cell in self.cells}
        return Matrix.of_cells(
            cells,
            title="Idle latency",
            unit="ns",
            row_label="CPU node",
            column_label="memory node",
            higher_is_better=False,
        )

    def table(self) -> Table:
        """Returns a row for each pair of nodes."""
        rows = [(cell.cpu_node, cell.memory_node, *_figures(cell.ns_per_load)) for cell in self.cells]
        return Table.of_rows("pair of nodes", ["cpu_node", "memory_node", "ns_per_load", *_SPREAD], rows)


class SweepRecordMethods(_Tabular):
    """Methods of a sweep of a program."""

    if TYPE_CHECKING:
        method: "documents.SweepMethod"
        cells: List["documents.SweepCell"]

    def matrix(self) -> Matrix:
        """Returns the median figure of the best build, by CPU node and by memory node."""
        cells: Dict[Tuple[int, int], Optional[float]] = {}
        is_cost = self.method.quantity == "cost"
        for cell in self.cells:
            place = (cell.cpu_node, cell.memory_node)
            choose = _smaller if is_cost else _greater
            cells[place] = choose(cells.get(place), _median(cell.figure))
        unit = "B/s" if self.method.quantity == "bytes-per-s" else self.method.unit
        return Matrix.of_cells(
            cells,
            title=self.method.name,
            unit=unit,
            row_label="CPU node",
            column_label="memory node",
            higher_is_better=not is_cost,
        )

    def table(self) -> Table:
        """Returns a row for each cell."""
        rows = [
            (cell.cpu_node, cell.memory_node, str(cell.cpus), cell.build, *_figures(cell.figure))
            for cell in self.cells
        ]
        return Table.of_rows("cell", ["cpu_node", "memory_node", "cpus", "build", "figure", *_SPREAD], rows)


class IoRecordMethods(_Tabular):
    """Methods of measured I/O."""

    if TYPE_CHECKING:
        device: "documents.IoDevice"
        cells: List["documents.IoCell"]

    def table(self) -> Table:
        """Returns a row for each cell; a mix lists the nodes of its groups."""
        rows: List[Tuple[Any, ...]] = []
        for cell in self.cells:
            nodes = ",".join(str(node) for node in cell.cpu_nodes)
            memory = ",".join(str(group.memory) for group in cell.groups)
            directions = ",".join(sorted({group.direction for group in cell.groups}))
            streams = sum(group.streams for group in cell.groups)
            where = (self.device.name, directions, nodes, memory, streams, cell.block_bytes)
            rows.append(where + tuple(_figures(cell.bytes_per_s)))
        columns = [
            "device",
            "direction",
            "cpu_nodes",
            "memory_nodes",
            "streams",
            "block_bytes",
            "bytes_per_s",
        ]
        return Table.of_rows("cell", [*columns, *_SPREAD], rows)


class ViewMethods(_Tabular):
    """Methods of a view of a target."""

    if TYPE_CHECKING:
        name: str
        nodes: List["documents.NodeValue"]
        classes: List["documents.ViewClass"]

    def table(self) -> Table:
        """Returns a row for each node."""
        return Table.of_rows("node", _VIEW, list(_view_rows(self)))


class ComparisonMethods(_Tabular):
    """Methods of a comparison."""

    if TYPE_CHECKING:
        views: List["documents.View"]

    def view(self, name: str) -> "documents.View":
        """Returns a view by its name, such as ``copy-write``."""
        for view in self.views:
            if view.name == name:
                return view
        raise NumaioError(f"no view '{name}'", f"views: {_listed([view.name for view in self.views])}")

    def table(self) -> Table:
        """Returns a row for each view and node."""
        return Table.of_rows("view and node", _VIEW, [row for view in self.views for row in _view_rows(view)])


class MemoryBindingMethods:
    """Methods of a memory binding."""

    if TYPE_CHECKING:
        nodes: IdSet

    @property
    def node_mask(self) -> int:
        """The nodes as a bit mask: bit 0 for node 0."""
        return self.nodes.mask()


class PlacementPlanMethods:
    """Methods of a placement."""

    if TYPE_CHECKING:
        tasks: List["documents.TaskPlacement"]

    @property
    def cpus(self) -> IdSet:
        """The CPUs of all tasks."""
        return IdSet(cpu for task in self.tasks for cpu in task.cpus)

    @property
    def memory_nodes(self) -> IdSet:
        """The memory nodes of all tasks."""
        return IdSet(node for task in self.tasks for node in task.memory.nodes)

    @property
    def node_mask(self) -> int:
        """The memory nodes of all tasks as a bit mask: bit 0 for node 0."""
        return self.memory_nodes.mask()


#: Columns of a figure's spread.
_SPREAD = ["low", "high", "visits", "settled"]
#: Columns of a view.
_VIEW = ["view", "node", "value", "class", "factor"]


def _median(reading: "documents.Reading") -> Optional[float]:
    return None if reading.summary is None else reading.summary.median


def _figures(
    reading: "documents.Reading",
) -> Tuple[Optional[float], Optional[float], Optional[float], int, bool]:
    summary = reading.summary
    if summary is None:
        return None, None, None, 0, reading.settled
    return summary.median, summary.low, summary.high, summary.n, reading.settled


def _greater(one: Optional[float], other: Optional[float]) -> Optional[float]:
    return max((value for value in (one, other) if value is not None), default=None)


def _smaller(one: Optional[float], other: Optional[float]) -> Optional[float]:
    return min((value for value in (one, other) if value is not None), default=None)


def _view_rows(view: Union["documents.View", ViewMethods]) -> List[Tuple[Any, ...]]:
    def rank(node: int) -> Optional[int]:
        return next((found.rank for found in view.classes if node in found.nodes), None)

    return [(view.name, value.node, value.value, rank(value.node), value.factor) for value in view.nodes]
