"""Conversion between JSON and the dataclasses of :mod:`numaio.documents`."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any, Dict, List, Literal, NamedTuple, Tuple, Type, Union, get_args, get_origin

from ._errors import DocumentError
from ._idset import IdSet

__all__ = ["decode", "encode"]


class _Field(NamedTuple):
    name: str
    key: str
    hint: Any
    required: bool


@functools.lru_cache(maxsize=None)
def _fields(cls: Type[Any]) -> Tuple[_Field, ...]:
    """Returns the fields of a dataclass with resolved types.

    ``typing.get_type_hints`` would also resolve the annotations of base classes, which are for type
    checkers only.
    """
    names = vars(sys.modules[cls.__module__])
    fields = []
    for field in dataclasses.fields(cls):
        annotation: Any = field.type
        hint = eval(annotation, names) if isinstance(annotation, str) else annotation
        missing = dataclasses.MISSING
        required = field.default is missing and field.default_factory is missing
        fields.append(_Field(field.name, field.metadata.get("json", field.name), hint, required))
    return tuple(fields)


def decode(hint: Any, value: Any, path: str = "") -> Any:
    """Converts a JSON value to a type; unknown fields are ignored.

    :raises DocumentError: if the value does not conform; the error names the field.
    """
    if dataclasses.is_dataclass(hint):
        return _decode_object(hint, value, path)
    if hint is Any:
        return value
    if isinstance(hint, type) and issubclass(hint, IdSet):
        return _decode_ids(value, path)
    if isinstance(hint, type):
        return _decode_scalar(hint, value, path)
    return _decode_generic(hint, value, path)


def _fail(path: str, expected: str, value: Any) -> DocumentError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return DocumentError(f"field '{path or '.'}': expected {expected}, got {shown}")


def _decode_object(cls: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _fail(path, "an object", value)
    arguments = {}
    for field in _fields(cls):
        below = f"{path}.{field.key}" if path else field.key
        if field.key in value:
            arguments[field.name] = decode(field.hint, value[field.key], below)
        elif field.required:
            raise DocumentError(f"field '{below}': missing")
    return cls(**arguments)


def _decode_ids(value: Any, path: str) -> IdSet:
    if not isinstance(value, str):
        raise _fail(path, "a list of ids such as '0-3,8'", value)
    try:
        return IdSet.parse(value)
    except ValueError as error:
        raise DocumentError(f"field '{path}': {error}") from None


def _decode_scalar(hint: Any, value: Any, path: str) -> Any:
    # JSON has one type of numbers, and Python's bool is an int.
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type(value) is hint:
        return value
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false", type(None): "null"}
    raise _fail(path, names.get(hint, hint.__name__), value)


def _decode_generic(hint: Any, value: Any, path: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        return _decode_union(arguments, value, path)
    if origin is Literal:
        if value in arguments and isinstance(value, str):
            return value
        raise _fail(path, " or ".join(map(repr, arguments)), value)
    if origin is list:
        if not isinstance(value, list):
            raise _fail(path, "an array", value)
        return [decode(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value)]
    if origin is tuple:
        if not isinstance(value, list) or len(value) != len(arguments):
            raise _fail(path, f"an array of {len(arguments)} values", value)
        items = enumerate(zip(arguments, value))
        return tuple(decode(of, item, f"{path}[{index}]") for index, (of, item) in items)
    if origin is dict:
        if not isinstance(value, dict):
            raise _fail(path, "an object", value)
        return {
            _decode_key(arguments[0], key, path): decode(arguments[1], item, f"{path}.{key}")
            for key, item in value.items()
        }
    raise TypeError(f"no conversion for {hint!r}")


def _decode_key(hint: Any, key: str, path: str) -> Any:
    if hint is not int:
        return decode(hint, key, path)
    if not (key.isascii() and key.isdecimal()):
        raise _fail(path, "an integer as the name of a field", key)
    return int(key)


def _decode_union(alternatives: Tuple[Any, ...], value: Any, path: str) -> Any:
    """Returns the first alternative that accepts the value.

    If none does, the error is that of the only alternative that fits the value's tag, if there is
    one: it names the wrong field.
    """
    if value is None and type(None) in alternatives:
        return None
    errors: List[DocumentError] = []
    fitting = [of for of in alternatives if of is not type(None) and _fits(of, value)]
    for of in fitting:
        try:
            return decode(of, value, path)
        except DocumentError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    raise _fail(path, " or ".join(sorted({_name(of) for of in alternatives})), value)


def _fits(hint: Any, value: Any) -> bool:
    """Returns whether a value may have a type, by the constant fields and the required ones."""
    if not dataclasses.is_dataclass(hint):
        return True
    if not isinstance(value, dict):
        return False
    cls: Any = hint
    for field in _fields(cls):
        if field.required and field.key not in value:
            return False
        if get_origin(field.hint) is Literal and field.key in value:
            constant = value[field.key]
            if not isinstance(constant, str) or constant not in get_args(field.hint):
                return False
    return True


def _name(hint: Any) -> str:
    return "null" if hint is type(None) else getattr(hint, "__name__", str(hint))


def encode(value: Any) -> Any:
    """Converts a dataclass to JSON values; optional fields that are empty by default are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        encoded: Dict[str, Any] = {}
        cls: Any = type(value)
        for field, info in zip(_fields(cls), dataclasses.fields(cls)):
            content = getattr(value, field.name)
            if field.required or content or not _is_default(info, content):
                encoded[field.key] = encode(content)
        return encoded
    if isinstance(value, IdSet):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def _is_default(field: "dataclasses.Field[Any]", value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return bool(value == field.default)
