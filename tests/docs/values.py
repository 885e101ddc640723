"""Generates the table of values in docs/install.md from the chart's schema and defaults."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from testbed import chart
from tests.docs.blocks import anchor_of, without_blocks

Json = Mapping[str, Any]

HEAD = "| value | type | default | meaning |\n| --- | --- | --- | --- |\n"
_PAGE = re.compile(r"docs/([a-z-]+)\.md(#[a-z-]+)?")


def updated(text: str) -> str:
    """Returns the document with a new table of values."""
    before, head, rest = text.partition(HEAD)
    while rest.startswith("|"):
        rest = rest.partition("\n")[2]
    return before + head + "".join(table()) + rest


def table() -> Iterator[str]:
    """Yields a line for each value: its name, type, default and meaning."""
    schema = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
    for name, default in defaults.items():
        yield from _rows(name, schema["properties"][name], default, schema["definitions"])


def _rows(name: str, value: Json, default: object, definitions: Json) -> Iterator[str]:
    if "description" in value:
        meaning = _PAGE.sub(_link, value["description"])
        yield f"| `{name}` | {_type(value, definitions)} | {_shown(default)} | {meaning} |\n"
    else:
        for key, inner in value["properties"].items():
            assert isinstance(default, dict), f"{name} has neither a description nor keys"
            yield from _rows(f"{name}.{key}", inner, default.get(key, ""), definitions)


def _link(match: re.Match[str]) -> str:
    """Returns a link whose text is the heading of its target."""
    page, anchor = match[1], match[2] or ""
    headings = re.findall(r"^#+ (.+)$", without_blocks(match[0].partition("#")[0]), re.MULTILINE)
    text = next((heading for heading in headings if anchor == f"#{anchor_of(heading)}"), headings[0])
    return f"[{text}]({anchor if page == 'install' else f'{page}.md{anchor}'})"


def _type(value: Json, definitions: Json) -> str:
    if reference := value.get("$ref"):
        return _type(definitions[reference.rpartition("/")[2]], definitions)
    if parts := value.get("allOf"):
        return _type(parts[0], definitions)
    if "enum" in value:
        # The schema of `guard` has `off` and false, because YAML reads a bare `off` as false.
        choices = [choice for choice in value["enum"] if not ("off" in value["enum"] and choice is False)]
        return ", ".join(
            f"`{choice if isinstance(choice, str) else json.dumps(choice)}`" for choice in choices
        )
    return {"array": "list", "object": "map", "string": "text"}.get(value["type"], value["type"])


def _shown(default: object) -> str:
    """Returns a default as in values.yaml: a map in one line, and a text with each line as code."""
    if default and isinstance(default, str):
        return "<br>".join(f"`{line}`" for line in default.splitlines())
    if default and isinstance(default, dict):
        return f"`{yaml.safe_dump(default, default_flow_style=True, sort_keys=False, width=1000).strip()}`"
    return f"`{json.dumps(default)}`"
