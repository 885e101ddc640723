"""Defines the types of keys of rows: the form of a value in the table, and how the value is converted.

Pydantic uses these types to check and build rows, and to generate the published JSON Schema.
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
from webhook.rows import messages

T = TypeVar("T")


class Row:
    """A part of a table. A subclass's fields are keys, in camel case; its docstring describes them."""

    __pydantic_config__ = ConfigDict(alias_generator=to_camel, extra="forbid")


def read_as(source: Any, convert: Callable[[Any], Any] = lambda value: value) -> GetPydanticSchema:  # noqa: ANN401
    """Returns the type of a value that pydantic reads as one type and converts to another.

    Args:
        source: The type of the value in the table.
        convert: Converts the value; may raise ``ValueError``.
    """
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(convert, handler(source))
    )


def or_bare_off(words: Any) -> BeforeValidator:  # noqa: ANN401
    """Returns a validator that reads false as ``off``, because kubectl's YAML reads a bare off as false.

    Args:
        words: A ``Literal`` of the modes and False.
    """
    return BeforeValidator(lambda mode: "off" if mode is False else mode, json_schema_input_type=words)


def _maybe(hint: Any, handler: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    (row,) = (part for part in get_args(hint) if part is not NoneType)
    form = getattr(row, "written", None)  # conditions have this attribute
    return handler(row) if form is None else core_schema.no_info_after_validator_function(row, handler(form))


Maybe = Annotated[T | None, GetPydanticSchema(_maybe)]
"""A value that is None if its key is missing. The value of the key must not be null."""


def one_or_more(item: Any, convert: Callable[[Any], Any] = lambda value: value) -> GetPydanticSchema:  # noqa: ANN401
    """Returns the type of a tuple that is written as one value or a list. ``convert`` converts each value."""
    items = Annotated[list[item], Field(min_length=1)]
    to_list = BeforeValidator(
        lambda value: value if isinstance(value, list) else [value], json_schema_input_type=item | items
    )
    return read_as(Annotated[items, to_list], lambda values: tuple(map(convert, values)))


def _check_unique(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) < len(values):
        raise ValueError(messages.NOT_UNIQUE)
    return values


def _check_role(role: str) -> str:
    if role in RESERVED:
        raise ValueError(messages.reserved_role(role))
    return role


RESERVED = ("any", "devices", "family", "fault", "job", "shape", "field", "value", "script", "place", "units")

_POINTER = "(/([^~/]|~[01])+)+"
_POINTER_TEXT = "A JSON pointer (RFC 6901); LIST[KEY=VALUE] selects an element of LIST, LIST[*] all elements."

Integer = Annotated[int, Strict()]
Whole = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(ge=1)]
Flag = Annotated[bool, Strict()]
Words = Maybe[Annotated[str, Field(min_length=1, description="Plain words; may contain placeholders.")]]
Key = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Name = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Role = Annotated[
    str,
    Field(pattern="^[a-z][A-Za-z0-9]*$", max_length=63, json_schema_extra={"not": {"enum": [*RESERVED]}}),
    AfterValidator(_check_role),
]
ObjectKind = Annotated[str, Field(pattern="^([a-z0-9.-]+/)?v[0-9a-z]+/[A-Z][A-Za-z0-9]*$")]
Unique = Annotated[
    tuple[T, ...], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_check_unique)
]
Pointer = Annotated[
    ObjectPath, read_as(Annotated[str, Field(pattern=f"^{_POINTER}$", description=_POINTER_TEXT)], parse_path)
]
TemplatePath = Annotated[ObjectPath, read_as(Annotated[str, Field(pattern=f"^({_POINTER})?$")], parse_path)]

WORD_GLOBS: Mapping[str, str] = {"Exists": "?*", "DoesNotExist": ""}
"""The glob for each word: any text that is not empty, and the empty text."""


def _to_glob(text: str) -> str:
    word = text.removeprefix("!")
    return text.removesuffix(word) + WORD_GLOBS.get(word, word)


Texts = Annotated[tuple[str, ...], one_or_more(str, _to_glob)]
"""A text or a list of texts. The words of `WORD_GLOBS` become globs."""

Patterns = Mapping[str, Texts]
"""Values by key; ``*`` and ``?`` are wildcards, as in file names."""

SomePatterns = Annotated[Patterns, Field(min_length=1)]


@dataclass(frozen=True)
class Range(Row):
    """Whole numbers from a minimum to a maximum; both are included.

    Attributes:
        at_least: The minimum. For a resource, 0 means any amount above 0.
        at_most: The maximum. Default: no limit.
    """

    at_least: Whole = 0
    at_most: Annotated[float, read_as(Whole)] = inf

    def __contains__(self, number: int) -> bool:
        return self.at_least <= number <= self.at_most

    def is_requested(self, thousandths: int) -> bool:
        """Returns whether a requested amount, in thousandths, is above 0 and in this range."""
        return max(1, 1000 * self.at_least) <= thousandths <= 1000 * self.at_most

    def __str__(self) -> str:
        ends = [f"at least {self.at_least}" if self.at_least else ""]
        ends += [f"at most {self.at_most}" if self.at_most < inf else ""]
        return " and ".join(filter(None, ends)) or "any number"


def as_range(value: int | Range) -> Range:
    """Returns a range unchanged; for a number, returns the range from this number without a maximum."""
    return Range(value) if isinstance(value, int) else value
