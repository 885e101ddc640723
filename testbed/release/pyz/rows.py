"""What a rule table's types need of pydantic, in Python alone: the plugin's one file has it as pydantic.

It checks and builds what `webhook.rows` is made of, as strictly, with pydantic's types of errors where
`webhook.rules.schema` has words for them. There is no JSON Schema. A test holds it to pydantic's results.
"""

from __future__ import annotations

import collections.abc
import difflib
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

ConfigDict = dict
ErrorDetails = dict
Error = dict[str, Any]
_NAMES = {str: "string", int: "int", bool: "bool", list: "list", tuple: "tuple", dict: "dict"}
_LIMITS = {
    "pattern": ("string_pattern_mismatch", lambda value, limit: re.search(limit, value)),
    "min_length": ("too_short", lambda value, limit: len(value) >= limit),
    "max_length": ("too_long", lambda value, limit: len(value) <= limit),
    "ge": ("greater_than_equal", lambda value, limit: value >= limit),
    "le": ("less_than_equal", lambda value, limit: value <= limit),
}


class GenerateJsonSchema:
    """There is none here."""


class AwareDatetime:
    """A date and a time with its zone."""


class ValidationError(ValueError):
    """What is wrong with a value."""

    def __init__(self, found: list[Error]) -> None:
        super().__init__(f"{len(found)} errors")
        self._found = found

    def errors(self, **_: object) -> list[Error]:
        """Every error."""
        return self._found


class Strict:
    """Whole numbers and truth values are always taken as nothing else here."""


@dataclass(frozen=True)
class BeforeValidator:
    """Changes or refuses what is written."""

    func: Any
    json_schema_input_type: Any = None


@dataclass(frozen=True)
class AfterValidator:
    """Changes or refuses what was built."""

    func: Any


@dataclass(frozen=True)
class GetPydanticSchema:
    """Takes the place of a type."""

    func: Any


class Field:
    """Limits of a value."""

    def __init__(self, **limits: Any) -> None:
        self.limits = {name: limit for name, limit in limits.items() if name in _LIMITS}


class core_schema:  # noqa: N801 - a module of pydantic_core
    """What a type's stand-in is made by; names of schemas, which are not made."""

    DataclassSchema = DictSchema = WithDefaultSchema = dict

    @staticmethod
    def no_info_after_validator_function(func: Any, schema: Any) -> Any:
        """The type with what is done afterwards."""
        return Annotated[schema, AfterValidator(func)]


class TypeAdapter:
    """Checks and builds values of a type."""

    def __init__(self, of: Any) -> None:
        self._of = of

    @classmethod
    def __class_getitem__(cls, _: object) -> type[TypeAdapter]:
        return cls

    def validate_python(self, value: object) -> Any:
        """The value that is built.

        Raises:
            ValidationError: with every error.
        """
        return _built(self._of, value, ())


def to_camel(name: str) -> str:
    """A name in camel case."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def _wrong(kind: str, path: tuple[Any, ...], value: object, **more: Any) -> ValidationError:
    return ValidationError([{"type": kind, "loc": path, "input": value, "ctx": more, "msg": kind}])


def _all(parts: typing.Iterable[typing.Callable[[], Any]]) -> list[Any]:
    """What all of the parts are, or the errors of all."""
    made, wrong = [], []
    for part in parts:
        try:
            made.append(part())
        except ValidationError as error:
            wrong += error.errors()
    if wrong:
        raise ValidationError(wrong)
    return made


def _built(of: Any, value: Any, path: tuple[Any, ...]) -> Any:
    origin, args = get_origin(of), get_args(of)
    if origin is Annotated:
        return _annotated(args[0], list(args[1:]), value, path)
    if of is Any or isinstance(of, typing.TypeVar):
        return value
    if is_dataclass(of):
        return _row(of, value, path)
    if of is AwareDatetime:
        return _moment(value, path)
    if isinstance(of, type) and issubclass(of, Enum):
        return _one_of(of, [one.value for one in of], "enum", value, path)
    build = _FORMS.get(origin)
    if build:
        return build(args, value, path)
    if type(value) is not of:
        raise _wrong(f"{_NAMES.get(of, 'none')}_type", path, value)
    return value


def _one_of(make: Any, values: Sequence[Any], kind: str, value: Any, path: tuple[Any, ...]) -> Any:
    if value in values:
        return make(value)
    raise _wrong(kind, path, value, expected=_listed(values))


def _literal(args: tuple[Any, ...], value: Any, path: tuple[Any, ...]) -> Any:
    return _one_of(lambda one: one, args, "literal_error", value, path)


def _several(make: Any, args: tuple[Any, ...], value: Any, path: tuple[Any, ...]) -> Any:
    if type(value) is not list:
        raise _wrong(f"{_NAMES[make]}_type", path, value)
    return make(_all(partial(_built, args[0], item, (*path, at)) for at, item in enumerate(value)))


def _map(args: tuple[Any, ...], value: Any, path: tuple[Any, ...]) -> Any:
    if type(value) is not dict:
        raise _wrong("dict_type", path, value)

    def pair(key: Any) -> tuple[Any, Any]:
        return _built(args[0], key, (*path, key)), _built(args[1], value[key], (*path, key))

    return dict(_all(partial(pair, key) for key in value))


def _listed(values: typing.Iterable[object]) -> str:
    *others, last = map(repr, values)
    return f"{', '.join(others)} or {last}" if others else last


def _annotated(of: Any, meta: list[Any], value: Any, path: tuple[Any, ...]) -> Any:
    for index, one in enumerate(meta):
        if isinstance(one, GetPydanticSchema):
            return _annotated(one.func(of, lambda as_: as_), meta[index + 1 :], value, path)
    try:
        for one in reversed(meta):
            value = one.func(value) if isinstance(one, BeforeValidator) else value
        value = _built(of, value, path)
        for one in meta:
            _within(one.limits if isinstance(one, Field) else {}, value, path)
            value = one.func(value) if isinstance(one, AfterValidator) else value
    except ValidationError:
        raise
    except ValueError as error:
        raise _wrong("value_error", path, value, error=error) from error
    return value


def _within(limits: dict[str, Any], value: Any, path: tuple[Any, ...]) -> None:
    for name, limit in limits.items():
        kind, holds = _LIMITS[name]
        if not holds(value, limit):
            text = isinstance(value, str) and "length" in name
            raise _wrong(f"string_{kind}" if text else kind, path, value, **{name: limit})


def _any_of(choices: tuple[Any, ...], value: Any, path: tuple[Any, ...]) -> Any:
    wrong: list[Error] = []
    for index, choice in enumerate(choices):
        try:
            return _built(choice, value, (*path, f"choice {index}"))
        except ValidationError as error:
            wrong += error.errors()
    raise ValidationError(wrong)


@cache
def _keys(row: Any) -> dict[str, tuple[str, Any, bool]]:
    hints = typing.get_type_hints(row, include_extras=True)
    lacks = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(row)}
    return {to_camel(name): (name, hints[name], needed) for name, needed in lacks.items()}


def _row(row: Any, value: Any, path: tuple[Any, ...]) -> Any:
    if type(value) is not dict:
        raise _wrong("dataclass_type", path, value)
    known = _keys(row)

    def part(key: str) -> tuple[str, Any]:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known)[:12])}"
            raise _wrong("value_error", (*path, key), value[key], error=f"unknown key {key!r}; {hint}")
        if key not in value:
            raise _wrong("missing", (*path, key), value)
        name, of, _ = known[key]
        return name, _built(of, value[key], (*path, key))

    needed = [key for key, (_, _, needed) in known.items() if needed and key not in value]
    return row(**dict(_all(partial(part, key) for key in (*value, *needed))))


def _moment(value: Any, path: tuple[Any, ...]) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise _wrong("datetime_parsing", path, value) from error
    if moment.tzinfo is None:
        raise _wrong("timezone_aware", path, value)
    return moment


_FORMS: dict[Any, Any] = {
    Union: _any_of,
    types.UnionType: _any_of,
    Literal: _literal,
    tuple: partial(_several, tuple),
    list: partial(_several, list),
    dict: _map,
    collections.abc.Mapping: _map,
}
"""What builds a type, by what it is made from."""
