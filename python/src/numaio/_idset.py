"""Sets of CPUs or nodes in the kernel's list format."""

from __future__ import annotations

import re
from typing import FrozenSet, Iterable, Iterator, List, Tuple, Type, TypeVar

__all__ = ["IdSet"]

_Self = TypeVar("_Self", bound="IdSet")

#: Largest id that is read, as in numaio: it bounds the memory that a hostile file can request.
MAX_ID = 1 << 16

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9})(?:/([0-9]{1,9}))?)?)?", re.ASCII)


class IdSet(FrozenSet[int]):
    """A set of CPU or node ids.

    >>> IdSet.parse("0-3,8").mask()
    271
    >>> str(IdSet([4, 2, 3]))
    '2-4'
    """

    @classmethod
    def parse(cls: Type[_Self], text: str) -> _Self:
        """Parses the kernel's list format, such as ``0-3,8`` or ``0-9:1/2``."""
        ids: List[int] = []
        for part in text.strip().split(",") if text.strip() else []:
            ids.extend(_parse_part(part))
        return cls(ids)

    def mask(self) -> int:
        """Returns the set as a bit mask: bit 0 for id 0."""
        return sum(1 << number for number in self)

    def ranges(self) -> List[Tuple[int, int]]:
        """Returns the first and last id of each range, in ascending order."""
        ranges: List[Tuple[int, int]] = []
        for number in self:
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1] = (ranges[-1][0], number)
            else:
                ranges.append((number, number))
        return ranges

    def __iter__(self) -> Iterator[int]:
        """Iterates in ascending order."""
        return iter(sorted(super().__iter__()))

    def __str__(self) -> str:
        ranges = self.ranges()
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)

    def __repr__(self) -> str:
        return f"IdSet.parse({str(self)!r})"


def _parse_part(part: str) -> Iterable[int]:
    matched = _PART.fullmatch(part.strip())
    if matched is None:
        raise ValueError(f"invalid list {part!r}: expected a form such as 0-3,8")
    first = int(matched[1])
    last = first if matched[2] is None else int(matched[2])
    # Of each group of `size` ids, the first `used`; without a second number, every `used`th id.
    used = 1 if matched[3] is None else int(matched[3])
    used, size = (1, used) if matched[4] is None else (used, int(matched[4]))
    if last > MAX_ID or first > last or size < 1:
        raise ValueError(f"invalid list {part!r}: expected ascending ids up to {MAX_ID}")
    return (number for number in range(first, last + 1) if (number - first) % size < used)
