"""Values to YAML that looks like ``kubectl get -o yaml``."""

import math
import re
from typing import Any

import yaml

from webhook.documents.places import Json, Refusal
from webhook.documents.words import resolve

# YAML breaks lines at these, which would come back as "\n" from a block.
_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_STR = "tag:yaml.org,2002:str"
_RESOLVER: Any = yaml.SafeDumper.resolve  # without types in its stubs


class _Dumper(yaml.SafeDumper):
    """Block style, no aliases, and quotes on whatever any YAML 1.1 or 1.2 reader would take for no string."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - PyYAML's signature
        return True


def _represent_str(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if _OTHER_BREAKS.search(text):
        style: str | None = '"'
    elif "\n" in text:
        style = "|"
    elif not _is_text(text) or _RESOLVER(dumper, yaml.ScalarNode, text, (True, False)) != _STR:
        style = '"'
    else:
        style = None
    return dumper.represent_scalar(_STR, text, style=style)


def _is_text(word: str) -> bool:
    try:
        return resolve(word) == word
    except Refusal:
        return False


def _represent_float(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not JSON and cannot be written")
    return yaml.SafeDumper.represent_float(dumper, number)


_Dumper.add_representer(str, _represent_str)
_Dumper.add_representer(float, _represent_float)


def dump_yaml(value: Json) -> str:
    """One value as a YAML document.

    Keys keep their order (kubectl sorts them), long lines stay whole. Reading it back gives the same value.

    Raises:
        ValueError: if it holds a NaN or an infinity.
        yaml.representer.RepresenterError: if it holds anything that is not JSON.
    """
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31))
