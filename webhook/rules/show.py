"""Shows a rule table in short."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from pydantic.alias_generators import to_camel

from common.texts import columns
from common.times import stamp
from webhook.documents import dump_yaml
from webhook.objects.tree import Json
from webhook.rows.conditions import Condition, describe_numbers, join_bar
from webhook.rows.policies import Mode, Policy
from webhook.rows.table import Match, MountFree, Rule, Table
from webhook.rules import messages
from webhook.rules.draft import Draft, with_off_text

HEAD = ("RULE", "MODE", "ROLE", "WHEN", "ADDS", "REASON", "FROM")


def overview(table: Table, width: int = 0) -> str:
    """Returns a table's revision and mode, and a line for each shape, rule, policy and device count.

    A width other than 0 wraps the lines.
    """
    shapes: list[tuple[str, ...]] = [("SHAPE", "WORKERS", "NODE CONFIG", "TOGETHER", "APART", "TOPOLOGY KEY")]
    for family in table.enabled_families:
        for row in family.shapes:
            unit, numbers = family.unit_of(row), (str(row.workers), str(row.node_config or "-"))
            shapes.append((row.name, *numbers, row.together, row.apart, unit.label if unit else "-"))
    blocks = [f"revision {table.revision}, mode {table.mode}\n", _block(shapes, width)]
    for number, stage in enumerate(messages.STAGES):
        rules = [_rule_cells(table, rule) for rule in table.rules if rule.stage == number]
        blocks.append(f"{stage}\n{_block([HEAD, *rules], width)}")
    if policies := [_policy_cells(row) for row in table.policies]:
        blocks.append(_block([("NAMESPACES", "LABELS", "MODES", "UNTIL", "REASON"), *policies], width))
    devices = [(name, describe_numbers(counts)) for name, counts in table.device_counts.items()]
    blocks.append(_block([("INSTANCE TYPE", "DEVICES OF A CONTAINER"), *devices], width))
    return "\n".join(blocks)


def _rule_cells(table: Table, row: Rule) -> tuple[str, ...]:
    places = ", ".join(f"{origin.file}:{origin.line}" for origin in table.origins.get(row.name, ()))
    mode = max(table.mode, row.mode, key=[*Mode].index)
    return row.name, mode, row.match.role, conditions_of(row), effects_of(row), row.reason, places


def rows_as_yaml(draft: Draft, name: str) -> str:
    """Returns the rows with a name as YAML, each below its places in the files; empty if there is no row."""
    return "".join(
        "".join(f"# {document.source}:{document.line_of(path)}\n" for document, path in row.places)
        + dump_yaml(with_off_text({section: [row]}))
        for section, row in draft.named_rows
        if row["name"] == name
    )


def effects_of(rule: Rule) -> str:
    """Returns what a rule does, in short: the paths that it sets, its keys for messages, and its placer."""
    texts = [key for key in ("warn", "deny", "unplaced") if getattr(rule, key)]
    placer = [f"placer {rule.placer}"] if rule.placer else []
    return ", ".join([*(_leaves(rule.add) if rule.add else ()), *texts, *placer]) or "-"


def _leaves(value: Json, path: str = "") -> Iterator[str]:
    """Yields the paths of all values in a fragment that are not maps."""
    if not isinstance(value, Mapping):
        yield path
        return
    for key, item in value.items():
        yield from _leaves(item, f"{path}/{key}" if path else key)


def _policy_cells(row: Policy) -> tuple[str, ...]:
    labels = ", ".join(f"{key} {join_bar(values)}" for key, values in row.labels.items())
    rule_modes = [f"{name} {mode}" for name, mode in row.rules.items()]
    modes = ", ".join([row.mode, *rule_modes] if row.mode else rule_modes)
    until = stamp(row.until) if row.until else "-"
    return join_bar(row.namespaces) or "every", labels or "any", modes, until, row.reason


def conditions_of(rule: Rule) -> str:
    """Returns when a rule fires, in short."""
    parts = [part for key in fields(Match) for part in _in_short(rule.match, key)]
    parts += [f"{rule.missing_value} given"] if rule.missing_value else []
    parts += [f"with {'|'.join(rule.needs)}"] if rule.needs else []
    parts += [f"unless {'|'.join(rule.unless)}"] if rule.unless else []
    return ", ".join(parts) or "always"


def _in_short(match: Match, key: Field[Any]) -> Iterable[str]:
    """Returns a key of ``match`` in short; empty if the key is not set."""
    value, name = getattr(match, key.name), to_camel(key.name)
    if key.name == "role" or value in (key.default, {}):
        return []
    if isinstance(value, Condition):
        return value.short_form(name)
    if isinstance(value, MountFree):
        return [f"{name} {value.mount_path}"]
    if key.name == "candidate":
        return ["any object" if value is None else "not a candidate"]
    return [f"{name} {join_bar(value)}" if isinstance(value, tuple) else name if value else f"not {name}"]


def _block(rows: list[tuple[str, ...]], width: int) -> str:
    return "".join(f"{line}\n" for line in columns(rows, width))
