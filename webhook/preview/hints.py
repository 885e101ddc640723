"""Finds probable mistakes in an object: misspelt names, refused values and unrendered templates."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice, product
from typing import Any, Final

from common.pointers import field_name
from common.texts import nearest
from webhook.documents.reader import describe_missing_key
from webhook.documents.templates import describe_template
from webhook.engine.messages import MOST_MESSAGES
from webhook.engine.reading import kind_of
from webhook.objects.paths import ElementSelector, ObjectPath
from webhook.objects.tree import Json, Path, get, shown, walk
from webhook.preview import messages
from webhook.rows.table import Table
from webhook.rows.workloads import Workload
from webhook.rules.schema import pod_template, refused_parts

TEXT_MAPS: Final = {("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")}
"""The maps whose values are all texts."""

KINDS: Final = re.compile(
    r"(kubeflow\.org|batch|(jobset|leaderworkerset)\.x-k8s\.io|batch\.tensorstack\.dev)/"
)
"""Matches the kinds of jobs in the packaged table. `SCALARS` has the types of their fields."""
_NAMES_BY_TYPE: Final = {
    "integer": "replicas parallelism completions size slotsPerWorker nProcPerNode minReplicas maxReplicas"
    " minAvailable backoffLimit maxRestarts activeDeadlineSeconds ttlSecondsAfterFinished",
    "boolean": "suspend runLauncherAsWorker",
    "string": "nprocPerNode",
}
SCALARS: Final = {name: {"type": kind} for kind, names in _NAMES_BY_TYPE.items() for name in names.split()}
"""The schemas of fields outside pod templates, by the name of the field; all `KINDS` use the same type."""

_POD_FIELDS: Final = {"restartPolicy": {"enum": ["Never", "OnFailure"]}}
_JOB_POD: Final = {"properties": {"spec": {"required": ["restartPolicy"], "properties": _POD_FIELDS}}}
TEMPLATE_SCHEMAS: Final = {"batch/v1/Job": _JOB_POD}
"""For a kind, the schema that its pod templates must meet in addition to the schema of a Pod."""

PROGRAM_FIELDS: Final = frozenset({"command", "args", "env", "annotations", "data", "stringData"})
"""The fields whose texts are for other programs. There, a text that looks like a template may be right."""

Schema = dict[str, Any]
"""A part of a JSON Schema, with the keywords ``properties``, ``items`` and ``$ref``."""


def find_hints(table: Table, obj: Json) -> Iterator[tuple[Path, str]]:
    """Yields path and message for a missing apiVersion, or for each kind and field that is probably misspelt.

    A field is known if the schema of pod templates or the row of its workload names it. An unknown field is
    probably misspelt if its name is similar to a known field that is missing in the same map.
    """
    if message := describe_missing_key(obj, "apiVersion"):
        yield (), message
        return
    kind = kind_of(obj)
    if not (rows := table.workloads_of(kind)):
        version, _, name = kind.rpartition("/")
        kinds = sorted({known for row in table.workloads for known in row.kinds})
        similar_kinds = tuple(known for known in kinds if nearest(name, (known.rpartition("/")[2],)))
        # An API group without a dot, like batch, is Kubernetes' own. An operator's kind in it is a mistake.
        same_kinds = (known for known in similar_kinds if "." not in version and known.endswith(f"/{name}"))
        if similar := nearest(kind, similar_kinds) or max(same_kinds, default=None):
            yield ("kind",), messages.unknown_kind(kind, similar)
            rows = table.workloads_of(similar)
    if rows:
        yield from _misspelt_fields(obj, _known_fields(rows), ())


def find_refusals(table: Table, obj: Json, denials: Sequence[str] = ()) -> Iterator[str]:
    """Yields messages about values that the API server will refuse, or that are unrendered templates.

    A refused value has no message if a denial names its field. Each schema causes at most
    `MOST_MESSAGES` messages for a pod template.
    """
    kind = kind_of(obj)
    rows = table.workloads_of(kind)
    paths = {path for row in rows for group in row.groups for path in group.template.find_all(obj)}
    refusals: dict[Path, str] = {}
    wrong_fields: list[tuple[Path, str]] = []
    schemas = (pod_template(), TEMPLATE_SCHEMAS.get(kind, {}))
    for path, schema in product(sorted(paths, key=str), schemas):
        parts = islice(refused_parts(get(obj, path), schema), MOST_MESSAGES)
        wrong_fields += (((*path, *part_path), reason) for part_path, reason in parts)
    if rows and KINDS.match(kind):
        wrong_fields += islice(_fields_of_wrong_type(obj, paths), MOST_MESSAGES)
    for field_path, reason in wrong_fields:
        if not any(field_name(field_path) in denial for denial in denials):
            refusals[field_path] = messages.refused_field(field_name(field_path), reason)
    # If a value has two messages, the message of `find_unfinished` is used, because it is more precise.
    yield from (refusals | dict(find_unfinished(obj, is_job=bool(rows)))).values()


def _fields_of_wrong_type(obj: Json, templates: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Yields path and reason for each field in `SCALARS` whose value in a job's spec has the wrong type."""
    for path, value in walk(get(obj, ("spec",)), ("spec",)):
        if path[-1] in SCALARS and value is not None and not _is_within(path, templates):
            yield from ((path, reason) for _, reason in refused_parts(value, SCALARS[path[-1]]))


def _is_within(path: Path, templates: Collection[Path]) -> bool:
    """Returns whether a path is inside a pod template of a job; false if the object is a Pod."""
    return any(template and path[: len(template)] == template for template in templates)


def find_unfinished(obj: Json, *, is_job: bool) -> Iterator[tuple[Path, str]]:
    """Yields path and message for each unrendered template, and each value that must be text but is not."""
    for path, value in walk(obj):
        is_checked = (is_job or path[:1] == ("metadata",)) and not PROGRAM_FIELDS.intersection(path)
        must_be_text = path[-3:-1] in TEXT_MAPS or (path[-3:-2], path[-1:]) == (("env",), ("value",))
        if isinstance(value, str) and is_checked and (template := describe_template(value, is_value=True)):
            yield path, messages.at_field(template, field_name(path), shown(value, 40))
        elif must_be_text and isinstance(path[-1], str) and not isinstance(value, str | None):
            reason = messages.not_text(shown(value), json.dumps(shown(value)))
            yield path, messages.refused_field(field_name(path), reason)


def _misspelt_fields(value: Json, schema: Schema, path: Path) -> Iterator[tuple[Path, str]]:
    if "$ref" in schema:
        schema = pod_template()["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _misspelt_fields(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict) and (fields := schema.get("properties", {})):
        missing_keys = tuple(key for key in fields if key not in value)
        for key, item in value.items():
            if key in fields:
                yield from _misspelt_fields(item, fields[key], (*path, key))
            elif similar := nearest(key, missing_keys):
                yield (*path, key), messages.unknown_field(field_name((*path, key)), similar)


def _known_fields(rows: Sequence[Workload]) -> Schema:
    """Returns a schema with the fields of pod templates, and the fields that the rows of workloads name."""
    pod = pod_template()["properties"]
    top_fields: Schema = {key: {} for key in ("apiVersion", "kind", "spec", "status")}
    schema: Schema = {"properties": {**top_fields, "metadata": pod["metadata"]}}
    for group in (group for row in rows for group in row.groups):
        template = _schema_at(schema, group.template)
        template["properties"] = {**template.get("properties", {}), **pod}
    for row in rows:
        counts = [group.number.count if group.number else () for group in row.groups]
        factors = chain.from_iterable([*counts, *(group.replicas for group in row.groups)])
        for path in (*(factor.path for factor in factors), *(field.path for field in row.fields.values())):
            if path and path.parts[0] == "spec":
                _schema_at(schema, path)
    return schema


def _schema_at(schema: Schema, path: ObjectPath) -> Schema:
    """Returns the part of a schema at a path, and adds missing parts outside of pod templates."""
    for part in path.parts:
        if "$ref" in schema:
            break
        parts = schema if isinstance(part, ElementSelector) else schema.setdefault("properties", {})
        schema = parts.setdefault("items" if isinstance(part, ElementSelector) else part, {})
    return schema
