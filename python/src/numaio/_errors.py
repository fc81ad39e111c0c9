"""Errors of the package."""

from __future__ import annotations

from typing import Optional

__all__ = ["DocumentError", "NumaioError"]


class NumaioError(Exception):
    """A command failed, or an object cannot be used.

    ``message`` states what failed, on which object, and why. ``hint`` is the remedy, if one is
    known. ``status`` is the exit status of the command: 1 failure, 2 wrong usage, 130 interrupted;
    ``None`` if no command ran.
    """

    def __init__(
        self,
        message: str,
        hint: Optional[str] = None,
        status: Optional[int] = None,
        stderr: str = "",
    ) -> None:
        super().__init__(message, hint, status, stderr)
        self.message = message
        self.hint = hint
        self.status = status
        self.stderr = stderr

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class DocumentError(NumaioError):
    """A file is not a document of numaio, or does not conform to its schema."""
