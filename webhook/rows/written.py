"""Types for the rows' fields: how the values of a table's keys are written, and what they are converted to.

Only pydantic reads these types: it checks and builds rows, and makes the published JSON Schema.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, GetPydanticSchema, Strict
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

from webhook.objects.paths import ObjectPath, parse_path

T = TypeVar("T")


class Row:
    """A part of a table: its keys are the fields, in camel case. Their descriptions are in the docstring."""

    __pydantic_config__ = ConfigDict(alias_generator=to_camel, extra="forbid")


def written(as_: Any, make: Callable[[Any], Any] = lambda value: value) -> GetPydanticSchema:  # noqa: ANN401
    """Returns the type of a value that is written as one type and is another, or None if the key is missing.

    Args:
        as_: The type of the written value.
        make: Converts the written value; may raise ``ValueError``.
    """
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(make, handler(as_))
    )


def or_bare_off(words: Any) -> BeforeValidator:  # noqa: ANN401
    """Returns a validator for a mode: a bare off is false to kubectl's YAML and means the same.

    Args:
        words: The modes and False, as a ``Literal``.
    """
    return BeforeValidator(lambda mode: "off" if mode is False else mode, json_schema_input_type=words)


def _given(source: Any, handler: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    (of,) = (part for part in get_args(source) if part is not NoneType)
    as_ = getattr(of, "written", None)  # of a class with its own written type
    return handler(of) if as_ is None else core_schema.no_info_after_validator_function(of, handler(as_))


Given = Annotated[T | None, GetPydanticSchema(_given)]
"""A value that is None if its key is missing; null is not permitted."""


def one_or_more(of: Any, make: Callable[[Any], Any] = lambda value: value) -> GetPydanticSchema:  # noqa: ANN401
    """Returns the type of a tuple that is written as one value or as a list; ``make`` converts each value."""
    several = Annotated[list[of], Field(min_length=1)]
    listed = BeforeValidator(
        lambda value: value if isinstance(value, list) else [value], json_schema_input_type=of | several
    )
    return written(Annotated[several, listed], lambda values: tuple(map(make, values)))


def _unique(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) < len(values):
        raise ValueError("has a value twice")
    return values


def _not_reserved(role: str) -> str:
    if role in RESERVED:
        raise ValueError(
            f"{role!r} cannot be a role: placeholders and match use this word for something else"
        )
    return role


RESERVED = ("any", "devices", "family", "fault", "job", "shape", "field", "value", "script", "place", "units")

_POINTER = "(/([^~/]|~[01])+)+"
_POINTED = "A JSON pointer (RFC 6901); LIST[KEY=VALUE] selects an element of a list, LIST[*] every one."

Integer = Annotated[int, Strict()]
Whole = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(ge=1)]
Flag = Annotated[bool, Strict()]
Message = Given[Annotated[str, Field(min_length=1, description="Plain words; may contain placeholders.")]]
Key = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Name = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Role = Annotated[
    str,
    Field(pattern="^[a-z][A-Za-z0-9]*$", max_length=63, json_schema_extra={"not": {"enum": [*RESERVED]}}),
    AfterValidator(_not_reserved),
]
Kind = Annotated[str, Field(pattern="^([a-z0-9.-]+/)?v[0-9a-z]+/[A-Z][A-Za-z0-9]*$")]
Unique = Annotated[
    tuple[T, ...], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_unique)
]
Pointer = Annotated[
    ObjectPath,
    written(Annotated[str, Field(pattern=f"^{_POINTER}$", description=_POINTED)], parse_path),
]
TemplatePath = Annotated[ObjectPath, written(Annotated[str, Field(pattern=f"^({_POINTER})?$")], parse_path)]

WORDS: Mapping[str, str] = {"Exists": "?*", "DoesNotExist": ""}
"""Operators that stand for a glob: any text, or none."""


def _glob(text: str) -> str:
    word = text.removeprefix("!")
    return text.removesuffix(word) + WORDS.get(word, word)


Texts = Annotated[tuple[str, ...], one_or_more(str, _glob)]
"""A text or a list of texts."""

Patterns = Mapping[str, Texts]
"""Values by key; ``*`` and ``?`` are wildcards, as in file names."""

SomePatterns = Annotated[Patterns, Field(min_length=1)]


@dataclass(frozen=True)
class Range(Row):
    """Whole numbers, both ends included.

    Attributes:
        at_least: The minimum. For a resource, 0 means any amount.
        at_most: The maximum; without it there is no limit.
    """

    at_least: Whole = 0
    at_most: Annotated[float, written(Whole)] = inf

    def __contains__(self, number: int) -> bool:
        return self.at_least <= number <= self.at_most

    def __str__(self) -> str:
        ends = [f"at least {self.at_least}" if self.at_least else ""]
        ends += [f"at most {self.at_most}" if self.at_most < inf else ""]
        return " and ".join(filter(None, ends)) or "any number"


def as_range(value: int | Range) -> Range:
    """Returns a range; a number alone is its least."""
    return Range(value) if isinstance(value, int) else value
