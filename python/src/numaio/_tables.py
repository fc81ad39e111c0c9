"""Matrices with labels and tables, and their conversion for other packages."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ._errors import NumaioError

__all__ = ["Matrix", "Table", "optional_import"]


def optional_import(name: str) -> Any:
    """Imports a package that is not required.

    :raises NumaioError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise NumaioError(
            f"the Python package '{package}' is not installed", f"pip install {package}"
        ) from None


@dataclass
class Table:
    """Columns of equal length."""

    name: str
    """What a row is."""
    columns: Dict[str, List[Any]]
    """Values by the name of the column."""

    @classmethod
    def of_rows(cls, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> "Table":
        """Creates a table from rows."""
        return cls(name, {column: [row[index] for row in rows] for index, column in enumerate(columns)})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def rows(self) -> Iterator[Dict[str, Any]]:
        """Yields each row as a dictionary."""
        for values in zip(*self.columns.values()):
            yield dict(zip(self.columns, values))

    def to_pandas(self) -> Any:
        """Returns a ``pandas.DataFrame``."""
        return optional_import("pandas").DataFrame(self.columns)

    def to_polars(self) -> Any:
        """Returns a ``polars.DataFrame``."""
        return optional_import("polars").DataFrame(self.columns)

    def to_arrow(self) -> Any:
        """Returns a ``pyarrow.Table``."""
        return optional_import("pyarrow").table(self.columns)


@dataclass
class Matrix:
    """Values by row and column, such as the bandwidth by CPU node and memory node."""

    title: str
    """What the values are."""
    unit: str
    """Their unit: ``B/s``, ``ns``, or that of a program's figure."""
    row_label: str
    """What a row is."""
    rows: List[int]
    """Labels of the rows."""
    column_label: str
    """What a column is."""
    columns: List[int]
    """Labels of the columns."""
    values: List[List[Optional[float]]]
    """Values by row; ``None`` where there is none."""
    higher_is_better: bool = True
    """Whether a higher value is better."""
    _index: Dict[Tuple[int, int], Optional[float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._index = {
            (row, column): value
            for row, values in zip(self.rows, self.values)
            for column, value in zip(self.columns, values)
        }

    @classmethod
    def of_cells(cls, cells: Dict[Tuple[int, int], Optional[float]], **labels: Any) -> "Matrix":
        """Creates a matrix from values by row and column."""
        rows = sorted({row for row, _ in cells})
        columns = sorted({column for _, column in cells})
        values = [[cells.get((row, column)) for column in columns] for row in rows]
        return cls(rows=rows, columns=columns, values=values, **labels)

    def __getitem__(self, key: Tuple[int, int]) -> Optional[float]:
        """Returns the value at a row and a column, by their labels."""
        return self._index[key]

    def best(self) -> Optional[float]:
        """Returns the best value."""
        known = [value for value in self._index.values() if value is not None]
        return (max if self.higher_is_better else min)(known) if known else None

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        """Returns the values for ``numpy.asarray``, NaN where there is none."""
        numbers = [[float("nan") if value is None else value for value in row] for row in self.values]
        return optional_import("numpy").array(numbers, dtype=float if dtype is None else dtype)

    def table(self) -> Table:
        """Returns a row for each value."""
        rows = [(row, column, value) for (row, column), value in self._index.items()]
        return Table.of_rows(self.title, (self.row_label, self.column_label, self.unit), rows)

    def to_pandas(self) -> Any:
        """Returns a ``pandas.DataFrame`` with the labels as index and columns."""
        pandas = optional_import("pandas")
        index = pandas.Index(self.rows, name=self.row_label)
        columns = pandas.Index(self.columns, name=self.column_label)
        return pandas.DataFrame(self.values, index=index, columns=columns, dtype=float)

    def plot(self, ax: Any = None) -> Any:
        """Draws a heat map with matplotlib: the deeper the color, the farther from the best value.

        Returns the ``matplotlib.axes.Axes``.
        """
        from ._plot import heat_map

        return heat_map(self, ax)
