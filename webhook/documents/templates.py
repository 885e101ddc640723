"""Recognises templates that are not rendered yet, and names the command that renders each sort."""

import re
from typing import Final

_PIPE: Final = "| ultraserver-webhook preview -"
_HELM: Final = f"helm template CHART {_PIPE}"
_ENVSUBST: Final = f"a template of envsubst: render it first, envsubst < FILE {_PIPE}"
_SORTS: Final = {
    r"\{\{-?\s*(?:[.$(]|/\*|(?:if|else|end|range|with|include|define|template|block|to[A-Z]\w+)\b)": (
        f"a template of Helm: render it first, {_HELM}"
    ),
    r"\{[{%#]": f"a template of Jinja (or Helm): render it first, jinja2 FILE {_PIPE} (or {_HELM})",
    r"(?:^|[:\[,{-])\s*\$(?:\{[A-Za-z_]|[A-Z_]{2})": _ENVSUBST,
}
_IN_A_VALUE: Final = {
    **_SORTS,
    r"(?<!\$)\$(?:\{?[A-Za-z_])": _ENVSUBST,
    r"<[A-Za-z][\w .-]*>": "a placeholder: write your own value in its place",
}


def unrendered(text: str, *, is_value: bool = False) -> str | None:
    """Returns a message if an unreadable text, or a value, comes from an unrendered template; else None."""
    if not set("{$<").intersection(text):
        return None
    sorts = _IN_A_VALUE if is_value else _SORTS
    matching = (matching for sort, matching in sorts.items() if re.search(sort, text, re.MULTILINE))
    return next((f"this looks like {sort}" for sort in matching), None)
