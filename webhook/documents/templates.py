"""Texts that are no object yet: templates, and the command that renders each sort."""

import re
from typing import Final

_PIPE: Final = "| ultraserver-webhook preview -"
_HELM: Final = f"helm template CHART {_PIPE}"
_SORTS: Final = {
    r"\{\{-?\s*(?:[.$(]|/\*|(?:if|else|end|range|with|include|define|template|block|to[A-Z]\w+)\b)": (
        f"Helm: render it first, {_HELM}"
    ),
    r"\{[{%#]": f"Jinja (or Helm): render it first, jinja2 FILE {_PIPE} (or {_HELM})",
    r"(?:^|[:\[,{-])\s*\$(?:\{[A-Za-z_]|[A-Z_]{2})": f"envsubst: render it first, envsubst < FILE {_PIPE}",
}


def unrendered(text: str) -> str | None:
    """Which template a text that cannot be read, or a value of an object, is of; None where it is of none."""
    if "{" not in text and "$" not in text:
        return None
    told = (told for sort, told in _SORTS.items() if re.search(sort, text, re.MULTILINE))
    return next((f"this looks like a template of {sort}" for sort in told), None)
