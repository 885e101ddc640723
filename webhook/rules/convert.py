"""Converts a rule table of release 0.2.0 into the present form: candidates and shapes become a family."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from common.pointers import field_name
from common.texts import cut
from webhook.documents import Document, DocumentError, dump_yaml, read_documents
from webhook.objects.templates import matches
from webhook.rules import messages
from webhook.rules.convert_rows import (
    RefusedError,
    Row,
    convert_rule,
    convert_workload,
    converted_rows,
    errors_at,
    list_of,
)
from webhook.rules.load import NamedText, default_draft, document_of
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import OLD_VERSION, VERSION

FAMILY_SECTIONS: Final = ("candidates", "shapes")
"""The sections from which a family is made; `candidates` keeps its other keys."""

FAMILY_KEYS: Final = ("instanceTypes", "claims", "nodeLabels")
"""The keys of ``candidates`` that a family has unchanged."""

RULES_WITH_AWS_VARIANT: Final = frozenset(
    {"init-in-job-image", "wait-for-all-workers", "apart-across-namespaces", "apart-from-labelled-jobs"}
)
"""If one of these rules did not match a job, 0.2.0 applied the corresponding rule of the AWS document."""

JOINED_RULES: Final = ("kueue-level-unset-required", "kueue-level-unset-preferred")
JOINT_RULE: Final = "kueue-level-unset-in-job"
"""Two rules of 0.2.0, and the rule that replaces both."""

PLACEMENT_RULES: Final = (
    "pods-not-at-once",
    "jobs-in-order",
    "jobs-without-numbers",
    "whole-job-workers",
    "whole-job-launcher",
    "whole-job-needs-all-pods",
)
"""The rules that the file 30-placement.yaml of 0.2.0 had. The packaged table has most of them."""

REMOVED_RULES: Final = ("driver-sets-mode", "*-as-mpirun", "kueue-own-*", "kueue-more-than-*")
"""Globs for removed rules of 0.2.0 whose effect remains: a table can no longer switch this effect off."""

INDEXED_JOB: Final = "indexed-job"
"""A workload of 0.2.0 that is now a part of the workload `job`."""
JOB: Final = "job"


def convert_table(text: NamedText) -> str:
    """Returns the text of a table in the present form. Unchanged sections keep their text, if possible.

    Raises:
        TableError: The text is not a table of 0.2.0, or has a value that cannot be converted.
    """
    source, document = text[0], document_of(text[1], text[0])
    if not isinstance(document.value, dict) or document.value.get("apiVersion") != OLD_VERSION:
        raise TableError([Problem(source, 1, "apiVersion", messages.other_version(OLD_VERSION))])
    try:
        with errors_at():
            for key in ("workloads", "shapes", "rules"):
                converted_rows(key, document.value.get(key, ()), itemgetter("name"))
            new = dict(_convert_sections(document.value))
    except RefusedError as error:
        field = field_name(error.path)
        raise TableError([Problem(source, document.line_of(error.path), field, cut(str(error)))]) from error
    raw = text[1] if isinstance(text[1], str) else text[1].decode()
    return _compose_text(document, raw, new)


def find_removed_rules(text: NamedText, new: str) -> Iterator[str]:
    """Yields notes on the rules of the old table that the new table does not have or switches off."""
    old = document_of(text[1], text[0]).value
    rules = {row["name"]: row for row in document_of(new, text[0]).value.get("rules", ())}
    for row in old.get("rules", ()):
        name = row["name"]
        if name in JOINED_RULES and "extends" in old:
            yield messages.joined_rule(name, JOINT_RULE)
        elif name not in rules:
            yield messages.removed_rule(name)
        for other in list_of(row, "replaces") if name in rules else ():
            if other in rules and "extends" in old:
                yield messages.replaced_rule(other, name)
            elif other not in rules and other not in JOINED_RULES:
                yield messages.removed_replaces(other, name)


def _convert_sections(old: Row) -> Iterator[tuple[str, Any]]:
    """Yields the sections in the present form. `candidates` is left out if no key remains."""
    for key, value in old.items():
        if key == "candidates":
            moved_keys = (*FAMILY_KEYS, "requests", "wholeNode")
            with errors_at(key):
                new = _with_labels({name: item for name, item in value.items() if name not in moved_keys})
            if new:
                yield key, new
        elif key == "rules":
            rows = converted_rows(key, value, convert_rule)
            rows = _convert_changes(rows) if "extends" in old else _order_rules(rows)
            # An `off` without quotes keeps its form only if the section is unchanged.
            yield key, value if rows == value else [*map(_with_mode_text, rows)]
        elif key == "workloads":
            if "extends" in old and any(row["name"] == INDEXED_JOB for row in value):
                raise ValueError(messages.renamed_workload(INDEXED_JOB, JOB))
            yield key, converted_rows(key, value, convert_workload)
        elif key != "shapes":
            yield key, VERSION if key == "apiVersion" else value
    if family := _make_family(old):
        yield "families", [family]


def _with_labels(candidates: Row) -> Row:
    """Returns candidates with one list of all node labels that have the instance type."""
    label, *older_labels = default_draft().raw["candidates"]["instanceTypeLabels"]
    keys = ("instanceTypeLabel", "olderTypeLabels")
    if candidates.keys().isdisjoint(keys):
        return candidates
    older_labels = list_of(candidates, keys[1]) if keys[1] in candidates else older_labels
    labels = [candidates.get(keys[0], label), *older_labels]
    return {"instanceTypeLabels": labels} | {key: item for key, item in candidates.items() if key not in keys}


def _make_family(old: Row) -> Row:
    """Returns a family with the candidates and shapes of a table; empty if the table has neither."""
    packaged_family, extends = default_draft().raw["families"][0], "extends" in old
    candidates, shapes = old.get("candidates", {}), old.get("shapes", [])
    family = {key: candidates[key] for key in FAMILY_KEYS if key in candidates}
    if "requests" in candidates or "wholeNode" in candidates:
        amounts = candidates.get("wholeNode", packaged_family["wholeNode"] if extends else {})
        requests = candidates.get("requests", [*packaged_family["wholeNode"]])
        family["wholeNode"] = {name: amounts.get(name, 0) for name in requests}
    if units := _make_units(shapes, packaged_family, extends=extends):
        family["units"] = units
    if shapes:
        family["shapes"] = [{k: v for k, v in shape.items() if k != "topologyKey"} for shape in shapes]
    return {"name": packaged_family["name"], **family} if family else {}


def _make_units(shapes: list[Row], packaged_family: Row, *, extends: bool) -> list[Row]:
    """Returns the units that the shapes need; with ``extends``, only new units.

    Raises:
        ValueError: Shapes of one node config have several labels: a family has one label for each unit size.
            Or a shape of single nodes has `together` or `apart`.
    """
    units_by_label = {unit["label"]: unit for unit in packaged_family["units"]}
    packaged_labels_by_size = {unit["nodes"]: label for label, unit in units_by_label.items()}
    base = packaged_family["shapes"] if extends else ()
    packaged_shapes = [{**row, "topologyKey": packaged_labels_by_size.get(row["nodeConfig"])} for row in base]
    rows_by_name: dict[str, Row] = {row["name"]: row for row in packaged_shapes}
    rows_by_name |= {row["name"]: {**rows_by_name.get(row["name"], {}), **row} for row in shapes}
    converted_rows("shapes", shapes, lambda row: int(rows_by_name[row["name"]]["nodeConfig"]))
    changed = [row for row in rows_by_name.values() if row.get("topologyKey") and row not in packaged_shapes]
    changed_labels = {row["nodeConfig"]: row["topologyKey"] for row in changed}
    labels_by_size = (packaged_labels_by_size if extends else {}) | changed_labels
    for row in rows_by_name.values():
        size, key = row["nodeConfig"], row.get("topologyKey")
        if size == 1 and (row.get("together", "none") != "none" or row.get("apart", "none") != "none"):
            raise ValueError(messages.single_nodes(row["name"], key))
        # The label of the smallest units that have at least ``size`` nodes.
        label = labels_by_size.get(min((nodes for nodes in labels_by_size if nodes >= size), default=0))
        if size > 1 and key != label:
            raise ValueError(messages.several_labels(row["name"], size, key or "no label", label))
    known_labels = units_by_label if extends else ()
    new = {key: size for size, key in labels_by_size.items() if size > 1 and key not in known_labels}
    return [units_by_label.get(key, {"label": key, "nodes": size}) for key, size in new.items()]


def _order_rules(rules: Sequence[Row]) -> list[Row]:
    """Returns the rules with `unless` in place of `replaces`, each after the rules that it names."""
    rows_by_name = {row["name"]: row for row in rules}
    unless_by_name = {
        name: [row["name"] for row in rules if name in list_of(row, "replaces")] for name in rows_by_name
    }
    positions = {name: index for index, name in enumerate(rows_by_name)}
    added_names, ordered = set[str](), list[Row]()

    def add(name: str) -> None:
        if name in added_names or name not in rows_by_name:
            return
        added_names.add(name)
        row = {key: value for key, value in rows_by_name[name].items() if key != "replaces"}
        for earlier_name in (*unless_by_name[name], *list_of(row, "needs")):
            add(earlier_name)
        ordered.append(row | {"unless": unless_by_name[name]} if unless_by_name[name] else row)

    for row in sorted(rules, key=lambda row: positions.get((*list_of(row, "replaces"), row["name"])[0], 0)):
        add(row["name"])
    return ordered


def _with_mode_text(row: Row) -> Row:
    """Returns a row with the text ``off`` as its mode if the mode is false, as YAML reads ``off``."""
    return row | {"mode": "off"} if row.get("mode") is False else row


def _join_rules(rules: Sequence[Row]) -> list[Row]:
    """Returns the rules without `JOINED_RULES`; the joint rule is last. Changes the rules' ``replaces``.

    Raises:
        ValueError: The table changes only one of the joined rules, or both differently; or a rule replaces
            only one of them.
    """
    new_rows = [{**_with_mode_text(row), "name": JOINT_RULE} for row in rules if row["name"] in JOINED_RULES]
    if new_rows and new_rows != [new_rows[0]] * len(JOINED_RULES):
        raise ValueError(messages.joined_differently(*JOINED_RULES, JOINT_RULE))
    for row in rules:
        replaced = list_of(row, "replaces")
        names = [name for name in JOINED_RULES if name in replaced]
        if names and len(names) < len(JOINED_RULES):
            raise ValueError(messages.joined_partly(*JOINED_RULES, JOINT_RULE, row["name"], names[0]))
        if names:
            row["replaces"] = [*(name for name in replaced if name not in JOINED_RULES), JOINT_RULE]
    return [row for row in rules if row["name"] not in JOINED_RULES] + new_rows[:1]


def _convert_changes(rules: Sequence[Row]) -> list[Row]:
    """Returns the converted rules of a table that extends the packaged table."""
    packaged_by_name = {row["name"]: row for row in default_draft().raw["rules"]}
    positions_by_name = {row["name"]: [number] for number, row in enumerate(rules)}
    result = list[Row]()
    for row in _join_rules(rules):
        with errors_at("rules", *positions_by_name.get(row["name"], [])):
            result += _convert_change(row, packaged_by_name)
    return result


def _convert_change(row: Row, packaged_by_name: Mapping[str, Row]) -> Iterator[Row]:
    """Yields the rows that replace a row of a table that extends the packaged table.

    Raises:
        ValueError: The row cannot be converted, for example because it changes a rule that is removed.
    """
    if row["name"] in PLACEMENT_RULES and "reason" in row:
        raise ValueError(messages.copied_rule(row["name"]))
    kinds = list_of(row.get("match", {}), "workload")
    match = packaged_by_name.get(row["name"], {}).get("match", {}) | row.get("match", {})
    if "numbered" not in match and matches(INDEXED_JOB, (*kinds,)) != matches(JOB, (*kinds,)):
        raise ValueError(messages.some_jobs(row["name"], JOB))
    if INDEXED_JOB in kinds:
        row["match"] |= {"workload": [JOB if kind == INDEXED_JOB else kind for kind in kinds if kind != JOB]}
    name, is_off = row["name"], row.keys() == {"name", "mode"} and row["mode"] != "enforce"
    if name in RULES_WITH_AWS_VARIANT and (is_off or "match" in row):
        raise ValueError(messages.no_variant(name))
    if name not in packaged_by_name and not {"match", "reason"} <= row.keys():
        if is_off and not matches(name, REMOVED_RULES):
            return
        raise ValueError(messages.gone_rule(name))
    for other in list_of(row, "replaces") if name not in packaged_by_name else ():
        if other in packaged_by_name and not row["match"].items() <= packaged_by_name[other]["match"].items():
            raise ValueError(messages.partly_replaced(name, other))
        if other in packaged_by_name:
            yield {"name": other, "mode": "off"}
    yield {key: value for key, value in row.items() if key != "replaces"}


def _compose_text(document: Document, text: str, new: Mapping[str, Any]) -> str:
    """Returns the new table as text, with the lines of every unchanged section from the old text.

    If this text does not define the new table, returns the new table without the old comments.
    """
    lines, old, result = text.splitlines(keepends=True), document.value, ""
    starts = [document.line_of((key,)) - 1 for key in old]
    tops = list(map(partial(_find_top, lines), starts))
    last = [key for key in old if key in FAMILY_SECTIONS][-1:]
    for key, top, start, end in zip(old, tops, starts, [*tops[1:], len(lines)], strict=True):
        sections = [key] if key in new else []
        if sections and new[key] == old[key]:
            result += "".join(lines[top:end])
        elif sections or [key] == last:
            sections += ["families"] if [key] == last else []
            result += "".join(lines[top:start])
            result += dump_yaml({name: new[name] for name in sections if name in new})
    try:
        (result_document,) = read_documents(result)
    except (DocumentError, ValueError):
        return dump_yaml(new)
    return result if result_document.value == new else dump_yaml(new)


def _find_top(lines: Sequence[str], start: int) -> int:
    """Returns the index of the first line of the comments and empty lines above a line."""
    while start and lines[start - 1].startswith(("#", "\n")):
        start -= 1
    return start
