"""Writes values as YAML that looks like ``kubectl get -o yaml``."""

import re
from typing import Any

import yaml

from webhook.documents.scalars import resolve
from webhook.objects.tree import Json

_STR = "tag:yaml.org,2002:str"
_OURS = {ord("\n"): "", ord("\t"): ""}
_UNSAFE = re.compile(r"^[ \t]*::|##\[", re.MULTILINE)
"""Texts that GitHub's CI takes for a command at the beginning of a line, or anywhere."""
_WRITE: Any = yaml.SafeDumper.write_double_quoted
_RESOLVE: Any = yaml.SafeDumper.resolve  # without types in its stubs


class _Dumper(yaml.SafeDumper):
    """Block style, no aliases, and quotes for texts that a YAML 1.1 or 1.2 reader would not take for text."""

    def ignore_aliases(self, _: Any) -> bool:  # noqa: ANN401
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else "" if self._is_plain(text) else '"'
        if _UNSAFE.search(text) or not text.translate(_OURS).isprintable():
            style = '"'
        return self.represent_scalar(_STR, text, style=style)

    def write_double_quoted(self, text: str, split: bool = True) -> None:  # noqa: FBT001, FBT002 - PyYAML's
        self.allow_unicode = text.isprintable()
        _WRITE(self, text, split)
        self.allow_unicode = True

    def _is_plain(self, text: str) -> bool:
        try:
            ours = resolve(text)
        except ValueError:
            return False
        return ours == text and _RESOLVE(self, yaml.ScalarNode, text, (True, False)) == _STR


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_multi_representer(dict, _Dumper.represent_dict)


def dump_yaml(value: Json, *, flow: bool = False) -> str:
    """Returns a value as a YAML document, which gives the same value when it is read.

    Keys keep their order (kubectl sorts them), and long lines are not folded. Texts with characters that are
    not printable are escaped, and so are those that GitHub's CI would take for commands. With `flow` it is
    one line.
    """
    text = str(
        yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=flow
        )
    )
    return text.replace("##[", r"#\u0023[")  # it is in double quotes
