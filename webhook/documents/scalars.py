"""Resolves unquoted words as kubectl does, or refuses them.

Null and booleans are those of YAML 1.1, as in go-yaml v2's ``resolve.go``. A number is written as in JSON, or
as an octal file mode such as ``0644``. All other words that go-yaml takes for numbers are refused; the rest
is text, including ``1:30`` and ``2001-01-01``.
"""

import re

Scalar = str | bool | int | float | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
# Twenty octal digits are less than an int64.
_FILE_MODE = re.compile(r"0[0-7]{1,20}")
# All words that go-yaml resolves to a number, and few others: +1, 08, .5, 5., 1_000, 0x1F, 0o17, 0b1, .inf.
_OTHER_NUMBER = re.compile(
    r"(?!_)[-+]?(?:\.(?:inf|nan)|0_*x[0-9a-f_]+|0_*o[0-7_]+|0_*b[-+]?[01_]+"
    r"|(?=[._]*[0-9])[0-9_]*(?:\.[0-9_]*)?(?:e[-+]?[0-9_]+)?)",
    re.IGNORECASE,
)
_LONGEST_INT64 = len(str(-(2**63)))


def resolve(word: str) -> Scalar:
    """Returns the value of an unquoted word.

    Raises:
        ValueError: The word is a number for kubectl, but in a form that is refused.
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
        message = "quote it if it is text, or write a decimal number, or a file mode such as 0644"
        raise ValueError(f"kubectl may read {word[:40]} as a number: {message}")
    return word


def _number(word: str) -> int | float:
    """Returns a number in JSON's form: Go writes ``1.0`` as ``1``, and rounds beyond int64 and 2^53."""
    if len(word) <= _LONGEST_INT64 and word.lstrip("-").isdecimal():
        whole = int(word)
        if -(2**63) <= whole < 2**63:
            return whole
    elif abs(value := float(word)) < 2**53:
        return int(value) if value.is_integer() else value
    raise ValueError(f"kubectl refuses or rounds the number {word[:40]}: quote it, or write fewer digits")
