"""Reads unquoted words as kubectl does, or refuses them.

Null and booleans are those of YAML 1.1, as in ``resolve.go`` of go-yaml v2. A number has the form of JSON, or
is an octal file mode such as ``0644``. All other words that go-yaml reads as numbers are refused. The
remaining words are text, such as ``1:30`` and ``2001-01-01``.
"""

import re

Scalar = str | bool | int | float | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
# A number with twenty octal digits fits into an int64.
_FILE_MODE = re.compile(r"0[0-7]{1,20}")
# Matches all words that go-yaml reads as numbers, such as +1, 08, .5, 5., 1_000, 0x1F, 0o17, 0b1 and .inf.
_OTHER_NUMBER = re.compile(
    r"(?!_)[-+]?(?:\.(?:inf|nan)|0_*x[0-9a-f_]+|0_*o[0-7_]+|0_*b[-+]?[01_]+"
    r"|(?=[._]*[0-9])[0-9_]*(?:\.[0-9_]*)?(?:e[-+]?[0-9_]+)?)",
    re.IGNORECASE,
)
_MAX_INT64_LENGTH = len(str(-(2**63)))


def read_word(word: str) -> Scalar:
    """Returns the value of an unquoted word.

    Raises:
        ValueError: The word is a number that kubectl refuses or rounds, or may be a number (ambiguous form).
    """
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in "+-.0123456789":
        return word
    if _NUMBER.fullmatch(word):
        return _number(word)
    if _FILE_MODE.fullmatch(word):
        return int(word, 8)
    if _OTHER_NUMBER.fullmatch(word):
        remedy = "quote it if it is text, or write a decimal number, or a file mode such as 0644"
        raise ValueError(f"kubectl may read {word[:40]} as a number: {remedy}")
    return word


def _number(word: str) -> int | float:
    """Returns a number as Go writes it to JSON: ``1.0`` as ``1``. Refuses numbers that Go would round."""
    if len(word) <= _MAX_INT64_LENGTH and word.lstrip("-").isdecimal():
        integer = int(word)
        if -(2**63) <= integer < 2**63:
            return integer
    elif abs(value := float(word)) < 2**53:
        return int(value) if value.is_integer() else value
    raise ValueError(f"kubectl refuses or rounds the number {word[:40]}: quote it, or write fewer digits")
