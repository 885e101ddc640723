"""Recognises templates that are not rendered yet, and names the command that renders them."""

import re
from typing import Final

_PIPE: Final = "| ultraserver-webhook preview -"
_HELM: Final = f"helm template CHART {_PIPE}"
_ENVSUBST: Final = f"a template of envsubst: render it first, envsubst < FILE {_PIPE}"
_TEMPLATES: Final = {
    r"\{\{-?\s*(?:[.$(]|/\*|(?:if|else|end|range|with|include|define|template|block|to[A-Z]\w+)\b)": (
        f"a template of Helm: render it first, {_HELM}"
    ),
    r"\{[{%#]": f"a template of Jinja (or Helm): render it first, jinja2 FILE {_PIPE} (or {_HELM})",
    r"(?:^|[:\[,{-])\s*\$(?:\{[A-Za-z_]|[A-Z_]{2})": _ENVSUBST,
}
_TEMPLATES_IN_VALUES: Final = {
    **_TEMPLATES,
    r"(?<!\$)\$(?:\{?[A-Za-z_])": _ENVSUBST,
    r"<[A-Za-z][\w .-]*>": "a placeholder: replace it with your value",
}


def describe_template(text: str, *, is_value: bool = False) -> str | None:
    """Returns a message if a text looks like a template that is not rendered; otherwise None.

    The text is a part of an unreadable file or, with ``is_value``, a value in an object.
    """
    if not set("{$<").intersection(text):
        return None
    templates = _TEMPLATES_IN_VALUES if is_value else _TEMPLATES
    messages = (message for pattern, message in templates.items() if re.search(pattern, text, re.MULTILINE))
    return next((f"this looks like {message}" for message in messages), None)
