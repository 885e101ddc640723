"""What a preview over HTTP may be asked for: read from a query, and told in refusals and in OpenAPI."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadRequest

from common.texts import did_you_mean, printable
from webhook.preview.formats import FORMATS

WITHOUT_PODS: Final = frozenset({"patch", "json-old"})
"""Formats that have no place for the Pods of a job."""
SHOWN = 60
"""Characters of a value that a refusal repeats."""


class ParameterError(BadRequest):
    """A query that is refused.

    Attributes:
        code_name: what is wrong, for programs.
    """

    def __init__(self, code_name: str, reason: str) -> None:
        super().__init__(reason)
        self.code_name = code_name


@dataclass(frozen=True)
class Parameter:
    """One parameter of a query.

    Attributes:
        meaning: what it does.
        values: each text that it takes and what that means; None: names of namespaces.
    """

    meaning: str
    values: Mapping[str, Any] | None = None

    @property
    def allowed(self) -> str:
        """What it takes, for people."""
        if self.values is None:
            return "a name of 1 to 63 characters a-z, 0-9 and '-' that begins and ends with a letter or digit"
        return ", ".join(self.values)

    @property
    def schema(self) -> dict[str, Any]:
        """What it takes, as JSON Schema."""
        if self.values is None:
            return {"type": "string", "pattern": NAMESPACE, "maxLength": 63}
        return {"type": "boolean"} if self.values is FLAG else {"type": "string", "enum": [*self.values]}

    def read(self, text: str) -> Any:  # noqa: ANN401 - whatever it means
        """What a text means.

        Raises:
            LookupError: if it is not allowed.
        """
        if self.values is not None:
            return self.values[text]
        if not re.fullmatch(NAMESPACE[1:-1], text):
            raise LookupError(text)
        return text


NAMESPACE: Final = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""A label of DNS (RFC 1123)."""
FLAG: Final = {"true": True, "false": False}

PARAMETERS: Final[Mapping[str, Parameter]] = {
    "namespace": Parameter("Is the namespace of documents that name none; those that do name the same."),
    "format": Parameter(
        "Is the format of the answer, whatever `Accept` says.", {key: key for key in FORMATS}
    ),
    "all-rules": Parameter("Tells of rules for other kinds of objects as well.", FLAG),
    "pods": Parameter("Shows the Pods made of a job, and what they get, as well.", FLAG),
}


def read_query(query: MultiDict[str, str]) -> dict[str, Any]:
    """What a query asks for, by parameter; what it does not name is left out.

    Raises:
        ParameterError: if a parameter is unknown, given twice or wrong.
    """
    asked = {}
    for name, texts in query.lists():
        if name not in PARAMETERS:
            allowed = ", ".join(PARAMETERS) + did_you_mean(name, PARAMETERS)
            message = f"unknown parameter {_quoted(name)}, allowed are {allowed}"
            raise ParameterError("unknown-parameter", message)
        if len(texts) > 1:
            message = f"parameter {name} is given {len(texts)} times: give it once"
            raise ParameterError("repeated-parameter", message)
        try:
            asked[name] = PARAMETERS[name].read(texts[0])
        except LookupError:
            message = f"parameter {name} is {_quoted(texts[0])}; allowed is {PARAMETERS[name].allowed}"
            raise ParameterError("invalid-parameter", message) from None
    return asked


def refuse_pods(form: str, *, pods: bool) -> None:
    """Refuses Pods in a format that has none.

    Raises:
        ParameterError: if the format has no place for them.
    """
    if pods and form in WITHOUT_PODS:
        message = f"parameter pods is 'true', but format {form} has no Pods: ask for format json"
        raise ParameterError("invalid-parameter", message)


def _quoted(text: str) -> str:
    return repr(printable(text, SHOWN))
