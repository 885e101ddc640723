"""A rule table in short, for people."""

from common.texts import columns
from webhook.engine.devices import ranges
from webhook.rows.table import Mode, Rule, Table


def overview(table: Table) -> str:
    """Shapes and rules, a line each, and why each rule is there."""
    shapes = [
        (row.name, str(row.workers), str(row.node_config), row.together, row.apart, row.topology_key or "-")
        for row in table.shapes
    ]
    devices = [(name, ranges(counts)) for name, counts in table.device_counts.items()]
    head = ("SHAPE", "WORKERS", "NODE CONFIG", "TOGETHER", "APART", "TOPOLOGY KEY")
    rules = [(row.name, row.mode, row.match.role, _when(row), row.reason) for row in table.rules]
    return (
        f"revision {table.revision}\n\n"
        + _block([head, *shapes])
        + "\n"
        + _block([("RULE", "MODE", "ROLE", "WHEN", "REASON"), *rules])
        + "\n"
        + _block([("INSTANCE TYPE", "DEVICES OF A CONTAINER"), *devices])
    )


def _when(rule: Rule) -> str:
    match = rule.match
    parts = [f"{key} {'|'.join(values)}" for key, values in match.shape.items()]
    parts += [] if match.candidate else ["any object" if match.candidate is None else "no candidate"]
    parts += [f"workload {'|'.join(match.workload)}"] if match.workload else []
    parts += [] if match.named is None else ["named" if match.named else "unnamed"]
    parts += [f"asks for {'|'.join(match.requests_shown())}"] if match.requests else []
    parts += ["every template"] if match.every else []
    wrong = "|".join(match.unsupported_count)
    parts += [f"asks for a number of {wrong} that its instance type does not accept"] if wrong else []
    template = {str(place): values for place, values in match.template.items()}
    conditions = (template, match.fields, match.labels, match.annotations)
    parts += [f"{key} {_any(values)}" for part in conditions for key, values in part.items()]
    parts += [f"namespace {_any(match.namespace)}"] if match.namespace else []
    parts += [f"{rule.waits_for} given"] if rule.waits_for else []
    parts += [f"replaces {'|'.join(rule.replaces)}"] if rule.replaces and rule.mode is not Mode.OFF else []
    return ", ".join(parts) or "always"


def _any(values: tuple[str, ...]) -> str:
    return "|".join(value or '""' for value in values)


def _block(rows: list[tuple[str, ...]]) -> str:
    return "".join(f"{line}\n" for line in columns(rows))
