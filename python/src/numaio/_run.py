"""Runs commands of numaio as child processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import NumaioError
from ._load import from_value
from ._program import find_program

__all__ = ["Option", "Progress", "run_command"]

#: The value of an option: a flag, a single value, or a value for each repetition.
Option = Union[
    None, bool, str, int, float, "os.PathLike[str]", Sequence[Union[str, int, float, "os.PathLike[str]"]]
]

#: A progress event of a command; its field ``event`` names it.
Progress = Mapping[str, Any]

#: Words of commands that print no JSON. All others take ``--json``.
_WITHOUT_JSON = frozenset(
    {
        "config",
        "fleet add",
        "fleet export",
        "fleet rebuild",
        "generate",
        "irq undo",
        "keygen",
        "metrics",
        "record",
        "report",
        "run",
        "serve",
    }
)

#: Seconds that an interrupted command gets to finish.
_GRACE_S = 10.0


def run_command(
    words: Sequence[str],
    options: Mapping[str, Option],
    on_progress: Optional[Callable[[Progress], None]],
    timeout: Optional[float],
) -> Any:
    """Implements :func:`numaio.run`."""
    arguments = [*words, *_option_arguments(options)]
    wants_json = "json" not in options and "format" not in options and _prints_json(words)
    if wants_json:
        arguments.append("--json")
    is_copy = words[:1] == ["copy"]
    if is_copy and wants_json and on_progress is not None and "progress" not in options:
        arguments.append("--progress")
    status, output, errors = _communicate(arguments, on_progress, timeout, is_copy)
    return _result(words, status, output, errors, lines=is_copy and wants_json)


def _prints_json(words: Sequence[str]) -> bool:
    return words[0] not in _WITHOUT_JSON and " ".join(words[:2]) not in _WITHOUT_JSON


def _option_arguments(options: Mapping[str, Option]) -> List[str]:
    """Returns command-line arguments: ``near="eth0", all=True`` is ``--near=eth0 --all``.

    An underscore stands for a hyphen; one at the end, as in ``from_``, avoids a word of Python.
    """
    arguments: List[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
        elif isinstance(value, (str, int, float, os.PathLike)):
            arguments.append(f"{option}={_text(value)}")
        else:
            arguments.extend(f"{option}={_text(item)}" for item in value)
    return arguments


def _text(value: Union[str, int, float, "os.PathLike[str]"]) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _communicate(
    arguments: Sequence[str],
    on_progress: Optional[Callable[[Progress], None]],
    timeout: Optional[float],
    progress_on_stdout: bool,
) -> Tuple[int, str, List[str]]:
    """Runs the program to its end; returns its status, its output and its messages."""
    environment = dict(os.environ, NUMAIO_COLOR="never")
    environment.pop("NUMAIO_PROGRESS", None)
    if on_progress is not None:
        environment["NUMAIO_PROGRESS"] = "json"
    try:
        process = subprocess.Popen(
            [find_program(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise NumaioError(f"cannot start numaio: {error.strerror or error}") from None
    stdout, stderr = process.stdout, process.stderr
    assert stdout is not None and stderr is not None
    readers = _Readers(on_progress)
    readers.start(stdout, readers.output, is_progress=progress_on_stdout)
    readers.start(stderr, readers.errors, is_progress=True)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        _interrupt(process)
        readers.join()
        raise NumaioError(
            f"numaio {' '.join(arguments)}: no result within {timeout:g} s", status=130
        ) from None
    except BaseException:
        _interrupt(process)
        raise
    readers.join()
    if readers.failure is not None:
        raise readers.failure
    return process.returncode, "".join(readers.output), readers.errors


def _interrupt(process: "subprocess.Popen[str]") -> None:
    """Ends a command as Ctrl-C does: it keeps what it measured."""
    try:
        process.send_signal(signal.SIGINT)
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Readers:
    """Threads that read the child's output, so that neither pipe fills up."""

    def __init__(self, on_progress: Optional[Callable[[Progress], None]]) -> None:
        self.output: List[str] = []
        self.errors: List[str] = []
        #: The first exception of the callback, which the caller gets.
        self.failure: Optional[BaseException] = None
        self._on_progress = on_progress
        self._threads: List[threading.Thread] = []
        self._lock = threading.Lock()

    def start(self, pipe: IO[str], lines: List[str], is_progress: bool) -> None:
        """Reads a pipe in a thread; events go to the callback, all else to ``lines``."""
        thread = threading.Thread(target=self._read, args=(pipe, lines, is_progress), daemon=True)
        thread.start()
        self._threads.append(thread)

    def join(self) -> None:
        """Waits until all output was read."""
        for thread in self._threads:
            thread.join()

    def _read(self, pipe: IO[str], lines: List[str], is_progress: bool) -> None:
        with pipe:
            for line in pipe:
                event = _event(line) if is_progress else None
                # Events of a copy are its result too.
                if event is None or lines is self.output:
                    lines.append(line)
                if event is not None:
                    self._report(event)

    def _report(self, event: Dict[str, Any]) -> None:
        with self._lock:
            if self._on_progress is None or self.failure is not None:
                return
            try:
                self._on_progress(event)
            except BaseException as failure:
                self.failure = failure


def _event(line: str) -> Optional[Dict[str, Any]]:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


def _result(words: Sequence[str], status: int, output: str, errors: List[str], lines: bool) -> Any:
    """Returns the document, the events of a copy, or the text that a command printed.

    Some commands report findings by status 1: without an error message that is a result.
    """
    message, hint = _message(errors)
    is_finding = status == 1 and message is None and output.strip() != ""
    if status != 0 and not is_finding:
        message = message or f"numaio {' '.join(words)}: exit status {status}"
        raise NumaioError(message, hint, status, "".join(errors))
    if lines:
        return [json.loads(line) for line in output.splitlines() if line.strip()]
    if not output.lstrip().startswith(("{", "[")):
        return output
    try:
        value = json.loads(output)
    except ValueError:
        return output
    return from_value(value)


def _message(errors: Sequence[str]) -> Tuple[Optional[str], Optional[str]]:
    """Returns the error message and hint of a command from its messages.

    The first line is ``numaio: MESSAGE``, or ``error: MESSAGE`` of the parser of the command line;
    more lines of both are indented.
    """
    message: Optional[str] = None
    hint: Optional[str] = None
    for line in errors:
        text = line.strip()
        if line.startswith(("numaio: ", "error: ")):
            message, hint = text.split(": ", 1)[1], None
        elif message is not None and text.startswith(("hint: ", "tip: ")):
            hint = text.split(": ", 1)[1]
        elif message is not None and text and line.startswith("  "):
            if hint is None:
                message = f"{message} {text}"
            else:
                hint = f"{hint} {text}"
    return message, hint
