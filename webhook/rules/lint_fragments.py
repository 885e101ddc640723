"""What the schema cannot see of fragments: what Kubernetes would take otherwise than it looks."""

from collections.abc import Iterator, Mapping

from contract import keys
from webhook.documents import Json, Path
from webhook.objects.tree import map_at, maps_at, nodes
from webhook.rows.placeholders import PATTERN
from webhook.rows.table import Rule
from webhook.rules.rows import Rows

Found = Iterator[tuple[Path, str]]

_NEGATIVE = (
    "{} here makes kube-scheduler 1.36 match the job's own namespace too; use an empty namespaceSelector "
    "and tell jobs apart by a label"
)

_OWN_LABELS = {
    keys.JOB: "it needs job-label, or a job repels itself",
    keys.BLOCK: "it has to set it, or a Pod is not of its own block",
}
"""What becomes of a rule that selects by a label of ours which it does not set."""


def _labels(rule: Rule) -> Mapping[str, Json]:
    return map_at(rule.add, ("metadata", "labels"))


def _sets_label(rows: Rows, rule: Rule, key: str) -> bool:
    """Whether what the rule fires for has a label of ours: before, from this rule, or from each it needs."""
    if "" not in rule.match.labels.get(key, ("",)):
        return True
    needed = [row for name in rule.needs for row in rows.named.get(name, ())]
    return key in _labels(rule) or (bool(needed) and all(key in _labels(row) for row in needed))


def _is_without(rows: Rows, rule: Rule, key: str) -> bool:
    """Whether the rule is for Pods only that do not have a label of ours."""
    pods = all(not str(group.template) for row in rows.workloads(rule) for group in row.groups)
    return pods and rule.match.labels.get(key) == ("",)


def fragment_problems(rows: Rows, rule: Rule, at: Path) -> Found:
    """Every problem of what a rule adds: path and message."""
    for path, node in nodes(rule.add, (*at, "add")):
        if isinstance(node, dict):
            yield from _map_problems(node, path)
            for key, why in _OWN_LABELS.items():
                if _selects(node, key) and not (_sets_label(rows, rule, key) or _is_without(rows, rule, key)):
                    yield path, f"selects by {key}: {why}"
    if _labels(rule).get(keys.JOB, "$(job.id)") != "$(job.id)":
        yield (*at, "add", "metadata", "labels", keys.JOB), "the value of this label must be $(job.id)"


def _map_problems(node: Mapping[str, Json], path: Path) -> Found:
    for key in node:
        if PATTERN.search(key):
            yield (*path, key), "a key cannot be a placeholder"
    if keys.ADDED in node:
        yield (*path, keys.ADDED), "this annotation is the webhook's own record"
    for item in maps_at(node, ("namespaceSelector", "matchExpressions")):
        if item.get("operator") in {"NotIn", "DoesNotExist"}:
            yield (*path, "namespaceSelector"), _NEGATIVE.format(item["operator"])
    terms = node.get("nodeSelectorTerms")
    if terms is not None and len(terms) != 1:
        yield (*path, "nodeSelectorTerms"), "terms are alternatives, so a rule can require only one"


def _selects(node: Mapping[str, Json], key: str) -> bool:
    expressions = maps_at(node, ("labelSelector", "matchExpressions"))
    return key in map_at(node, ("labelSelector", "matchLabels")) or any(
        item.get("key") == key for item in expressions
    )


def texts(node: Json, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text of a tree with its path."""
    return ((at, text) for at, text in nodes(node, path) if isinstance(text, str))
