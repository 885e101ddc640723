"""Finds probable misspellings: keys, kinds and fields that the rule table does not know."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice, product
from typing import Any, Final

from common.pointers import field_name
from common.texts import nearest
from webhook.documents.reader import lacks
from webhook.documents.templates import unrendered
from webhook.engine.messages import MOST_MESSAGES
from webhook.engine.reading import kind_of
from webhook.objects.paths import ObjectPath, Select
from webhook.objects.tree import Json, Path, get, shown, walk
from webhook.rows.table import Table
from webhook.rows.workloads import Workload
from webhook.rules.schema import pod_template, refused_parts

TEXTS: Final = {("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")}
"""Maps whose values are all text."""

KINDS: Final = re.compile(
    r"(kubeflow\.org|batch|(jobset|leaderworkerset)\.x-k8s\.io|batch\.tensorstack\.dev)/"
)
"""Kinds of the packaged table; one of another table may have other types."""
_NAMES: Final = {
    "integer": "replicas parallelism completions size slotsPerWorker nProcPerNode minReplicas maxReplicas"
    " minAvailable backoffLimit maxRestarts activeDeadlineSeconds ttlSecondsAfterFinished",
    "boolean": "suspend runLauncherAsWorker",
    "string": "nprocPerNode",
}
SCALARS: Final = {name: {"type": of} for of, names in _NAMES.items() for name in names.split()}
"""Schemas of these kinds' fields outside pod templates, by name: it is the same in all that have it."""

_ENDING: Final = {"restartPolicy": {"enum": ["Never", "OnFailure"]}}
_JOB: Final = {"properties": {"spec": {"required": ["restartPolicy"], "properties": _ENDING}}}
TEMPLATES: Final = {"batch/v1/Job": _JOB}
"""Schemas of what a kind requires of its pod templates, in addition to the schema of a Pod."""

PROGRAMS: Final = frozenset({"command", "args", "env", "annotations", "data", "stringData"})
"""Fields whose texts other programs read, so that they may look like templates."""

Schema = dict[str, Any]
"""A part of a JSON Schema: the words ``properties``, ``items`` and ``$ref``."""


def hints(table: Table, obj: Json) -> Iterator[tuple[Path, str]]:
    """Yields path and message for every key, kind and field that is similar to one that the table knows.

    Fields are checked where their names are known: next to those that a workload's row names, and in pod
    templates. A field is misspelt if it is similar to a known one that is missing.
    """
    if missing := lacks(obj, "apiVersion"):
        yield (), missing
        return
    kind = kind_of(obj)
    if not (rows := table.workloads_of(kind)):
        last = kind.rpartition("/")[2]
        kinds = {known for row in table.workloads for known in row.kinds}
        alike = (known for known in sorted(kinds) if nearest(last, (known.rpartition("/")[2],)))
        if meant := nearest(kind, tuple(alike)):
            yield ("kind",), f"no workload of the rule table is {kind!r}; did you mean {meant!r}?"
            rows = table.workloads_of(meant)
    if rows:
        yield from _fields(obj, _shape(rows), ())


def refusals(table: Table, obj: Json, denials: Sequence[str] = ()) -> Iterator[str]:
    """Yields a message for each value that the API server will refuse, or that is a template."""
    kind = kind_of(obj)
    rows = table.workloads_of(kind)
    paths = {path for row in rows for group in row.groups for path in group.template.find_all(obj)}
    messages: dict[Path, str] = {}
    wrong_fields: list[tuple[Path, str]] = []
    schemas = (pod_template(), TEMPLATES.get(kind, {}))
    for path, schema in product(sorted(paths, key=str), schemas):
        wrong = islice(refused_parts(get(obj, path), schema), MOST_MESSAGES)
        wrong_fields += (((*path, *at), why) for at, why in wrong)
    if rows and KINDS.match(kind):
        wrong_fields += islice(_mistyped(obj, paths), MOST_MESSAGES)
    for at, why in wrong_fields:
        if not any(field_name(at) in denial for denial in denials):
            messages[at] = f"the API server refuses {field_name(at)}: {why}"
    # These messages about a value are more precise.
    yield from (messages | dict(unfinished(obj, is_job=bool(rows)))).values()


def _mistyped(obj: Json, templates: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Yields fields of a job outside its pod templates whose values have the wrong type."""
    for at, value in walk(get(obj, ("spec",)), ("spec",)):
        if at[-1] in SCALARS and value is not None and not _is_within(at, templates):
            yield from ((at, why) for _, why in refused_parts(value, SCALARS[at[-1]]))


def _is_within(at: Path, templates: Collection[Path]) -> bool:
    """Returns whether a path leads into a pod template; not for a Pod, which is its own template."""
    return any(template and at[: len(template)] == template for template in templates)


def unfinished(obj: Json, *, is_job: bool) -> Iterator[tuple[Path, str]]:
    """Yields values that must be text and are not, and templates, in a job or the metadata."""
    for path, value in walk(obj):
        looked_at = (is_job or path[:1] == ("metadata",)) and not PROGRAMS.intersection(path)
        is_text = path[-3:-1] in TEXTS or (path[-3:-2], path[-1:]) == (("env",), ("value",))
        if isinstance(value, str) and looked_at and (template := unrendered(value, is_value=True)):
            yield path, f"{template}: {field_name(path)} is {shown(value, 40)}"
        elif is_text and isinstance(path[-1], str) and not isinstance(value, str | None):
            why = f"{shown(value)} is not text; quote it, as in {json.dumps(shown(value))}"
            yield path, f"the API server refuses {field_name(path)}: {why}"


def _fields(value: Json, schema: Schema, path: Path) -> Iterator[tuple[Path, str]]:
    if "$ref" in schema:
        schema = pod_template()["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict) and (known := schema.get("properties", {})):
        absent = tuple(key for key in known if key not in value)
        for key, inner in value.items():
            if key in known:
                yield from _fields(inner, known[key], (*path, key))
            elif near := nearest(key, absent):
                yield (*path, key), f"unknown field {field_name((*path, key))}; did you mean {near!r}?"


def _shape(rows: Sequence[Workload]) -> Schema:
    """Returns the known fields of workloads' objects, as a schema."""
    pod = pod_template()["properties"]
    known: Schema = {key: {} for key in ("apiVersion", "kind", "spec", "status")}
    shape: Schema = {"properties": {**known, "metadata": pod["metadata"]}}
    for group in (group for row in rows for group in row.groups):
        place = _place(shape, group.template)
        place["properties"] = {**place.get("properties", {}), **pod}
    for row in rows:
        counts = [group.number.count if group.number else () for group in row.groups]
        factors = chain.from_iterable([*counts, *(group.replicas for group in row.groups)])
        for path in (*(factor.path for factor in factors), *(field.path for field in row.fields.values())):
            if path and path.parts[0] == "spec":
                _place(shape, path)
    return shape


def _place(shape: Schema, path: ObjectPath) -> Schema:
    """Returns the schema at a path, and creates it if there is none; pod templates have their own."""
    for part in path.parts:
        if "$ref" in shape:
            break
        inner = shape if isinstance(part, Select) else shape.setdefault("properties", {})
        shape = inner.setdefault("items" if isinstance(part, Select) else part, {})
    return shape
