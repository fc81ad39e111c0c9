"""Reads documents and tapes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

from . import documents
from ._codec import decode, encode
from ._errors import DocumentError

__all__ = ["ChangedFile", "Run", "Tape", "dump", "dumps", "from_value", "load", "loads"]

#: Schema and version of tapes.
_TAPE = "numaio/tape/1"


@dataclass
class Run:
    """A workload that was run on the recorded machine."""

    workload: documents.Workload
    """The workload."""
    outcome: Optional[documents.Outcome]
    """Its raw samples; ``None`` if it failed."""
    error: Optional[documents.ProbeError]
    """Why it failed."""


@dataclass
class ChangedFile:
    """A later content of a file."""

    read: int
    """Number of the first read with this content; the first read of a file is 1."""
    content: bytes
    """The content."""


@dataclass
class Tape:
    """A recorded machine: its files, and what ran on it."""

    header: documents.TapeHeader
    """The first line."""
    files: Dict[str, bytes] = field(default_factory=dict)
    """Contents of files at their first read, by path."""
    changes: Dict[str, List[ChangedFile]] = field(default_factory=dict)
    """Later contents of files, by path."""
    links: Dict[str, str] = field(default_factory=dict)
    """Targets of symbolic links, by path."""
    directories: List[str] = field(default_factory=list)
    """Empty directories."""
    unreadable: Dict[str, documents.ReadErrorKind] = field(default_factory=dict)
    """Reasons why files were not read, by path."""
    runs: List[Run] = field(default_factory=list)
    """Runs in chronological order."""
    documents: List[Tuple[Any, Tuple[int, int]]] = field(default_factory=list)
    """Documents, each with the runs it was made of: the first, and the one after the last."""
    answers: List[Dict[str, Any]] = field(default_factory=list)
    """Queries about paths, hosts and processes, with the kernel's answers."""

    def text(self, path: str) -> str:
        """Returns the content of a file as text, without the line break at its end."""
        return self.files[path].decode("utf-8", "replace").rstrip("\n")


def load(path: Union[str, "os.PathLike[str]"]) -> Any:
    """Reads a document or a tape from a file.

    Returns an object of a class of :mod:`numaio.documents`, or a :class:`Tape`.

    :raises DocumentError: if the file is not a document, or does not conform to its schema.
    :raises OSError: if the file cannot be read.
    """
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    try:
        return loads(text)
    except DocumentError as error:
        raise DocumentError(f"{os.fspath(path)}: {error.message}", error.hint) from None


def loads(text: str) -> Any:
    """Reads a document or a tape from text, as :func:`load` does from a file."""
    first = text.split("\n", 1)[0]
    if '"tape"' in first:
        header = _json(first)
        if isinstance(header, dict) and "tape" in header:
            return _tape(header, text)
    value = _json(text)
    if not isinstance(value, dict) or not isinstance(value.get("schema"), str):
        raise DocumentError("no field 'schema': not a document of numaio")
    if value["schema"] not in documents.DOCUMENTS:
        raise _unknown(value["schema"])
    return from_value(value)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DocumentError(f"not JSON: {error}") from None


def _unknown(schema: str) -> DocumentError:
    name, _, version = schema.rpartition("/")
    known = [other for other in documents.DOCUMENTS if other.rpartition("/")[0] == name]
    if not known or not version.isdecimal():
        return DocumentError(f"unknown kind of document '{schema}'")
    hint = "install the version of this package that belongs to the numaio that wrote it"
    return DocumentError(f"unknown version '{schema}': this package reads {known[-1]}", hint)


def from_value(value: Any) -> Any:
    """Returns the document in a JSON value; a value without a known schema is returned as it is."""
    schema = value.get("schema") if isinstance(value, dict) else None
    cls = documents.DOCUMENTS.get(schema) if isinstance(schema, str) else None
    return value if cls is None else decode(cls, value)


def dumps(document: Any) -> str:
    """Returns a document as JSON text, which numaio reads."""
    return json.dumps(encode(document), indent=2, ensure_ascii=False) + "\n"


def dump(document: Any, path: Union[str, "os.PathLike[str]"]) -> None:
    """Writes a document to a file, which numaio reads."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(dumps(document))


def _tape(header: Dict[str, Any], text: str) -> Tape:
    if header["tape"] != _TAPE:
        raise DocumentError(f"unknown version '{header['tape']}': this package reads {_TAPE}")
    tape = Tape(decode(documents.TapeHeader, header))
    lines = text.split("\n")
    # A crash of the recorder can leave an incomplete last line, which has no line break.
    incomplete = len(lines)
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            _add(tape, _json(line))
        except (DocumentError, KeyError, ValueError, TypeError) as error:
            if number == incomplete:
                break
            raise DocumentError(f"line {number} is not an entry of a tape: {error}") from None
    return tape


def _add(tape: Tape, line: Dict[str, Any]) -> None:
    if "read" in line:
        tape.changes.setdefault(line["file"], []).append(ChangedFile(int(line["read"]), _content(line)))
    elif "file" in line:
        tape.files[line["file"]] = _content(line)
    elif "link" in line:
        tape.links[line["link"]] = line["target"]
    elif "dir" in line:
        tape.directories.append(line["dir"])
    elif "unreadable" in line or "unreachable" in line:
        path = line["unreadable"] if "unreadable" in line else line["unreachable"]
        tape.unreadable[path] = decode(documents.ReadErrorKind, line["error"], "error")
    elif "run" in line:
        tape.runs.append(_run(line))
    elif "document" in line:
        first, end = line["runs"]
        tape.documents.append((from_value(line["document"]), (first, end)))
    elif "query" in line:
        tape.answers.append(line)
    else:
        raise DocumentError(f"unknown fields: {', '.join(sorted(line))}"[:200])


def _content(line: Dict[str, Any]) -> bytes:
    if "text" in line:
        return str(line["text"]).encode("utf-8", "surrogateescape")
    return bytes.fromhex(line["hex"])


def _run(line: Dict[str, Any]) -> Run:
    workload = decode(documents.Workload, line["run"], "run")
    if "outcome" in line:
        return Run(workload, decode(documents.Outcome, line["outcome"], "outcome"), None)
    return Run(workload, None, decode(documents.ProbeError, line["error"], "error"))
