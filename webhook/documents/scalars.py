"""What an unquoted YAML word means to kubectl: go-yaml v2's ``resolve.go``, then a trip through Go's JSON.

YAML 1.1 as go-yaml has it: ``y`` and ``no`` are booleans, ``0777`` and ``0o17`` octal, ``08`` a float,
``1_000`` an integer, ``1:30`` a string, ``2001-01-01`` a string. What cannot be represented (``1e999``, a hex
number of 65 bits) stays a string.
"""

import math
import re
import struct
from decimal import Decimal

from webhook.documents.errors import LONE_SURROGATE, Refusal

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

Scalar = str | bool | int | float | None

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
# After the underscores are gone: strconv.ParseInt with base 0.
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
# go-yaml's second try for binary, which lets a sign stand behind the prefix.
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# A word that starts with a dot goes to strconv.ParseFloat as it stands: underscores between digits only.
_DOTTED = re.compile(r"\.[0-9](?:_?[0-9])*(?:[eE][-+]?[0-9](?:_?[0-9])*)?")
_MAX_DIGITS = 70  # more than a 64-bit number has in any base, fewer than Python's limit for int()


def resolve(word: str) -> Scalar:
    """The value of an unquoted word, before JSON narrows it (see ``as_value``, ``as_key``)."""
    if word in _WORDS:
        return _WORDS[word]
    first = word[0]
    if first == ".":
        return _finite(word) if _DOTTED.fullmatch(word) else word
    if first in "+-0123456789":
        return _number(word)
    return word


def _number(word: str) -> Scalar:
    plain = word.replace("_", "")
    if (number := _integer(plain)) is not None:
        return number
    if _FLOAT.fullmatch(plain):
        found = _finite(plain)
        return word if isinstance(found, str) else found
    return word


def _finite(word: str) -> float | str:
    number = float(word)
    return word if math.isinf(number) else number


def _integer(plain: str) -> int | None:
    if signed := _SIGNED_BINARY.fullmatch(plain):
        return _in_range(int(signed[1][:_MAX_DIGITS], 2), unsigned=False)
    match = _INT.fullmatch(plain)
    if match is None:
        return None
    sign, *bodies = match.groups()
    base, digits = next((base, body) for base, body in zip((16, 2, 8, 10), bodies, strict=True) if body)
    if len(digits := digits.lstrip("0")) > _MAX_DIGITS:
        return None
    number = int(digits or "0", base)
    return _in_range(-number if sign == "-" else number, unsigned=not sign)


def _in_range(number: int, *, unsigned: bool) -> int | None:
    """Go tries int64, then uint64, which takes no sign."""
    return number if INT64_MIN <= number <= (UINT64_MAX if unsigned else INT64_MAX) else None


def resolve_tagged(tag: str, word: str) -> Scalar:
    """The value of a word under a ``tag:yaml.org,2002:`` tag, quoted or not.

    Raises:
        Refusal: if the tag is not one of JSON's types, or the word is not of that type.
    """
    if tag == "str":
        return word
    value = resolve(word)
    match tag, value:
        case ("bool", bool()) | ("null", None) | ("float", float()):
            return value
        case ("int", int()) if not isinstance(value, bool):
            return value
        case ("float", int()) if not isinstance(value, bool) and value <= INT64_MAX:
            return float(value)
        case (("bool" | "null" | "float" | "int"), _):
            raise Refusal(f"{word[:40]!r} is no !!{tag}: take the tag off, or write such a value")
    raise Refusal(f"tag !!{tag} is not supported: take it off and write the value as Kubernetes wants it")


def as_value(scalar: Scalar) -> Scalar:
    """What arrives at the API server: Go prints ``1.0`` as ``1``, and reads past int64 as float64.

    Raises:
        Refusal: if it is NaN or infinite, which JSON does not have.
    """
    if isinstance(scalar, bool) or not isinstance(scalar, int | float):
        return scalar
    if isinstance(scalar, int):
        return scalar if INT64_MIN <= scalar <= INT64_MAX else float(scalar)
    if not math.isfinite(scalar):
        raise Refusal("NaN and infinity are not JSON: quote it if a string is meant, or write a number")
    if scalar.is_integer() and abs(scalar) < 2**64:
        # Go prints the shortest digits that name the float, padded with zeros, so 2**62 ends in 8000.
        shortest = int(Decimal(repr(scalar)))
        if INT64_MIN <= shortest <= INT64_MAX:
            return shortest
    return scalar


def as_key(scalar: Scalar) -> str:
    """A map key as sigs.k8s.io/yaml makes it a string.

    Raises:
        Refusal: if it is null or beyond int64.
    """
    match scalar:
        case str():
            return scalar
        case bool():
            return "true" if scalar else "false"
        case int() if INT64_MIN <= scalar <= INT64_MAX:
            return str(scalar)
        case float():
            return _go_float32(scalar)
        case None:
            raise Refusal("null is no key: write the key, or quote it")
    raise Refusal(f"{scalar} is too large for a key: quote it")


def _go_float32(number: float) -> str:
    """``strconv.FormatFloat(number, 'g', -1, 32)``: yes, sigs.k8s.io/yaml narrows float keys to 32 bits."""
    if math.isnan(number):
        return ".nan"
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        narrow = math.copysign(math.inf, number)
    if math.isinf(narrow):
        return ".inf" if narrow > 0 else "-.inf"
    if narrow == 0:
        return "-0" if math.copysign(1, narrow) < 0 else "0"
    mantissa, exponent = _shortest32(narrow)
    sign, digits = ("-" if narrow < 0 else ""), mantissa.lstrip("-").replace(".", "").rstrip("0")
    if exponent < -4 or exponent >= 6:  # noqa: PLR2004 - %g's own bounds for the shortest form
        fraction = f".{digits[1:]}" if digits[1:] else ""
        return f"{sign}{digits[0]}{fraction}e{exponent:+03d}"
    return f"{sign}{Decimal(digits).scaleb(exponent - len(digits) + 1):f}"


def _shortest32(narrow: float) -> tuple[str, int]:
    for precision in range(9):
        text = f"{narrow:.{precision}e}"
        try:
            back = struct.unpack("<f", struct.pack("<f", float(text)))[0]
        except OverflowError:
            continue
        if back == narrow:
            break
    mantissa, exponent = text.split("e")
    return mantissa, int(exponent)


def check_text(text: str) -> None:
    r"""Refuses halves of surrogate pairs, which escapes such as ``\ud800`` bring in and UTF-8 cannot carry.

    Raises:
        Refusal: if there is one.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refusal(LONE_SURROGATE) from None
