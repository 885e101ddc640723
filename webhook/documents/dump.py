"""Writes values as YAML that looks like ``kubectl get -o yaml``."""

import re
from typing import Any

import yaml

from webhook.documents.scalars import read_word
from webhook.objects.tree import Json

_STR = "tag:yaml.org,2002:str"
_ALLOWED_CONTROLS = {ord("\n"): "", ord("\t"): ""}
_COMMAND = re.compile(r"^[ \t]*::|##\[", re.MULTILINE)
"""Matches commands of GitHub's CI: ``::`` at the start of a line, even after spaces or tabs, and ``##[``."""
_write_quoted: Any = yaml.SafeDumper.write_double_quoted
_find_tag: Any = yaml.SafeDumper.resolve  # the stubs have no types for these two methods


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and quotes texts that a reader of YAML 1.1 or 1.2 would not read as texts."""

    def ignore_aliases(self, _: Any) -> bool:  # noqa: ANN401
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else "" if self._needs_no_quotes(text) else '"'
        if _COMMAND.search(text) or not text.translate(_ALLOWED_CONTROLS).isprintable():
            style = '"'
        return self.represent_scalar(_STR, text, style=style)

    def write_double_quoted(self, text: str, split: bool = True) -> None:  # noqa: FBT001, FBT002 - PyYAML's
        self.allow_unicode = text.isprintable()
        _write_quoted(self, text, split)
        self.allow_unicode = True

    def _needs_no_quotes(self, text: str) -> bool:
        try:
            value = read_word(text)
        except ValueError:
            return False
        return value == text and _find_tag(self, yaml.ScalarNode, text, (True, False)) == _STR


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_multi_representer(dict, _Dumper.represent_dict)


def dump_yaml(value: Json, *, flow: bool = False) -> str:
    """Returns a value as a YAML document, from which the same value can be read.

    Unlike kubectl, keeps the order of keys. Long lines are not folded. Texts with unprintable characters,
    and texts that GitHub's CI would read as commands, are quoted; such characters and ``##[`` are escaped.
    With `flow`, the document has one line.
    """
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=flow
    )
    return text.replace("##[", r"#\u0023[")  # `_Dumper` writes a text with ``##[`` in double quotes
