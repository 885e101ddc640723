"""Generates parts of the documents from the packaged rule table; ``python -m tests.docs`` writes them."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from pydantic.alias_generators import to_camel

from contract import keys
from testbed.kits.kit import required
from tests.docs import values
from tests.docs.blocks import REPOSITORY, anchor_of
from tests.helpers import metric_registries
from webhook.rows.policies import Mode
from webhook.rows.shapes import Shape
from webhook.rows.table import Rule, Table
from webhook.rules.explain import Key, keys_by_path
from webhook.rules.load import load_default, load_installed
from webhook.rules.schema import published_schema
from webhook.rules.show import conditions_of, effects_of

SHAPES = ("shape", "workers", "node config", "together", "apart", "topology key")
RULES = ("rule", "on", "when", "adds", "why")
KEYS = ("key", "type", "default", "example", "what it is")
CONTRACT = ("key", "what it is")
METRICS = ("metric", "type", "labels", "what it measures")
VERSIONS = ("program", "versions")
VERSIONS_INTRODUCTION = """
## Versions

The tests use these versions. The [requirements](install.md#requirements) are lower.

"""
MODULES = {
    "k8s.io/kubernetes": "Kubernetes",
    "github.com/kubeflow/mpi-operator": "mpi-operator",
    "github.com/kubeflow/training-operator": "training-operator",
    "github.com/kubeflow/trainer/v2": "Kubeflow Trainer",
    "sigs.k8s.io/jobset": "JobSet",
    "sigs.k8s.io/lws": "LeaderWorkerSet",
    "sigs.k8s.io/kueue": "Kueue",
}
"""The Go modules of the programs with which the tests run, and the names of these programs."""
INTRODUCTION = """\
# Reference

This page lists the rules, messages and keys of the packaged rule table, the metrics, and the tested versions.
The [README](../README.md#what-it-does-to-a-job) lists the shapes. [The rule table](rule-table.md) explains
how to change the table.

## Rules

| column | meaning |
| --- | --- |
| *on* | kind of job and role. `worker` stands for every group of Pods that takes nodes, `any` for every \
group. `pod`: the rule changes each Pod when it is created, not the template |
| *when* | conditions, which [Match](#match) and [Shape](#shape) explain. Other names are labels, \
annotations and fields of the [workload](#workload). `fault` is a mistake that [Match](#match) lists. \
`unless` and `with` name earlier rules. `\\|` means *or*; each value after a `!` is excluded. *Off, on with* \
names the chart's value that switches the rule on |
| *adds* | paths in the pod template, or an effect: `warn` or `deny` (with a message), `unplaced` (no node \
can run the workers), `placer X` (X chooses the nodes). Empty: the rule only prevents rules that name it \
after `unless` |

"""

KEYS_INTRODUCTION = """
## Keys of a table

*Globs* are `*` and `?`, as in file names. `ultraserver-webhook rules explain KEY` also explains a key.
"""

MESSAGES_INTRODUCTION = """
## Messages

A release may change the text of a message, but not the meaning of its code. `$(...)` stands for a value of
the job, and `…` for names and values. The messages of the init script are on [its
page](init-script.md#when-it-fails).

"""
MESSAGES = ("code", "severity", "message", "what to do")
POLICIES = ("policy", "message", "what to do")
CODES = ("codes", "where they are")

MEANINGS = Path(__file__).with_name("messages.yaml")

_DEFAULT = re.compile(r" Default: (.+?)(?:\.(?= |$)|$)")
"""The part of a description that the reference shows as the default."""

BY_ROWS: Mapping[str, str] = {
    "hostfile": "Annotation on a launcher: the host file for `mpirun`.",
    "hostfile-volume": "Annotation on a launcher: the volume of that file.",
}
"""Annotations that only rows write and read."""


def shapes(table: Table) -> str:
    """Returns the shapes as Markdown."""
    rows = [
        (
            f"`{shape.name}`",
            str(shape.workers),
            str(shape.node_config),
            shape.together,
            shape.apart,
            f"`{unit.label.rpartition('/')[2]}`" if unit else "",
        )
        for shape in table.enabled_families[0].shapes
        for unit in [table.enabled_families[0].unit_of(shape)]
    ]
    return _markdown(SHAPES, rows)


def reference() -> str:
    """Returns the page that has every rule, message, key, annotation and metric, and the tested versions."""
    packaged = load_default()
    return "".join(
        [
            INTRODUCTION,
            _rules(packaged.rules),
            *_rules_of_components({rule.name for rule in packaged.rules}),
            MESSAGES_INTRODUCTION,
            *_codes(packaged),
            KEYS_INTRODUCTION,
            *_keys(),
            "\n## Labels, annotations and the gate\n\n",
            _markdown(CONTRACT, [*_contract()]),
            "\n## Metrics\n\n",
            _markdown(METRICS, [*_metrics()]),
            VERSIONS_INTRODUCTION,
            _markdown(VERSIONS, [*_versions()]),
        ]
    )


def updated(text: str) -> str:
    """Returns the README with a new table of shapes."""
    before, start, rest = text.partition(_row(SHAPES))
    while rest.startswith("|"):
        rest = rest.partition("\n")[2]
    return before + (shapes(load_default()) if start else "") + rest


def _rules(rules: Sequence[Rule]) -> str:
    rows = []
    for rule in rules:
        on = [", ".join(rule.match.workload)] if rule.match.workload != (rule.match.role,) else []
        everywhere = replace(rule, match=replace(rule.match, workload=()))
        fires = conditions_of(everywhere).replace("|", r" \| ")
        rows.append(
            (
                f"`{rule.name}`",
                " ".join(filter(None, [*on, rule.match.role])),
                (fires if fires == "always" else f"`{fires}`") + _off(rule),
                f"`{effects_of(rule)}`" if effects_of(rule) != "-" else "",
                rule.reason,
            )
        )
    return _markdown(RULES, rows)


def _off(rule: Rule) -> str:
    """Returns a text that a rule is off, with the chart's value that switches it on; empty if it is on."""
    if rule.mode is not Mode.OFF:
        return ""
    value = _switched_on().get(rule.name)
    return f"; off, on with `{value}`" if value else "; off by default"


@cache
def _components() -> Mapping[str, Table]:
    """Returns, by the chart's value, the packaged table with the rows that the value adds, in file order."""
    paths = sorted((REPOSITORY / "manifests").rglob("[0-9]*-*.yaml"), key=lambda path: path.name)
    return {path.stem.partition("-")[2]: load_installed(path, placement=False) for path in paths}


@cache
def _switched_on() -> Mapping[str, str]:
    """Returns the chart's value that switches a rule on, by the name of the rule."""
    return {
        rule.name: value
        for value, table in _components().items()
        for rule in table.rules
        if rule.mode is Mode.ENFORCE
    }


def _rules_of_components(packaged: set[str]) -> Iterator[str]:
    """Yields the rules that the other tables of an installation add, each table under a heading."""
    for value, table in _components().items():
        rules = [rule for rule in table.rules if rule.name not in packaged]
        if rules:
            name = to_camel(value.replace("-", "_"))
            yield f"\n### Added by the value `{name}`\n\n{_rules(rules)}"


@cache
def meanings() -> Mapping[str, Mapping[str, Any]]:
    """Returns the meaning and the remedy of each code, by the part of the product that writes the code."""
    read: dict[str, dict[str, Any]] = yaml.safe_load(MEANINGS.read_text(encoding="utf-8"))
    return read


def _messages(table: Table) -> Iterator[tuple[str, ...]]:
    """Yields every code of a warning or denial: first the codes of the engine, then the codes of rows."""
    for code, words in meanings()["engine"].items():
        yield f"`{code}`", *words
    remedies = meanings()["rows"]
    for name, severity, text in row_messages(table):
        yield f"`{name}`", severity, text.replace("|", r"\|"), remedies.get(name, "")


def _policies() -> Iterator[tuple[str, ...]]:
    """Yields each message of an admission policy. The code is the name of the policy."""
    for name, rows in meanings()["policies"].items():
        for message, remedy in rows:
            yield f"`{name}`", message, remedy


def _codes(table: Table) -> Iterator[str]:
    """Yields a table of the kinds of code, and the codes of each kind."""
    kinds = meanings()["kinds"]
    places = [(f"[{heading}](#{anchor_of(heading)})", where) for heading, where in kinds.values()]
    yield _markdown(CODES, places)
    for part, (heading, _) in kinds.items():
        yield f"\n### {heading}\n\n"
        if part == "messages":
            yield _markdown(MESSAGES, [*_messages(table)])
        elif part == "policies":
            yield _markdown(POLICIES, [*_policies()])
        else:
            rows = [(f"`{code}`", *words) for code, words in meanings()[part].items()]
            yield _markdown((MESSAGES[0], "meaning", MESSAGES[-1]), rows)


def row_messages(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yields each message of a packaged row: the name of the row, the severity and the text."""
    shapes = [shape for family in table.enabled_families for shape in family.shapes]
    components = [rule for component in _components().values() for rule in component.rules]
    rows: dict[str, Shape | Rule] = {shape.name: shape for shape in shapes}
    rows |= {rule.name: rule for rule in (*table.rules, *components)}
    for name, row in rows.items():
        for severity, text in (("denial", row.deny), ("warning", row.warn or getattr(row, "unplaced", None))):
            if text:
                yield name, severity, text


def _keys() -> Iterator[str]:
    """Yields every row of a table with its keys, from the published schema."""
    schema = published_schema()
    yield from _keys_of("Table", schema)
    for name, row in _referenced_rows(schema, schema["$defs"], {}).items():
        yield from _keys_of(name, row)


def _referenced_rows(part: Any, rows: Mapping[str, Any], mentioned: dict[str, Any]) -> dict[str, Any]:
    """Returns the rows that a part of the schema mentions, in the order in which they are mentioned."""
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if name in rows and name not in mentioned and _has_description(rows[name]):
            mentioned[name] = rows[name]
            _referenced_rows(rows[name], rows, mentioned)
        for key, value in part.items():
            if key not in {"$defs", "add"}:  # a pod template is Kubernetes' own
                _referenced_rows(value, rows, mentioned)
    elif isinstance(part, list):
        for value in part:
            _referenced_rows(value, rows, mentioned)
    return mentioned


def _has_description(row: Mapping[str, Any]) -> bool:
    return "description" in row and "properties" in row


def _keys_of(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    names = [key for key, part in row["properties"].items() if "description" in part]
    paths = keys_by_path()
    keys_of_rows = {path.rpartition(".")[0]: [] for path in paths}
    for path, key in paths.items():
        keys_of_rows[path.rpartition(".")[0]].append(key)
    described = [
        (f"`{key.name}`", key.type, default_of(name, key), f"`{key.example}`", _DEFAULT.sub("", key.about))
        for key in next(keys for keys in keys_of_rows.values() if [key.name for key in keys] == names)
    ]
    rows = [tuple(cell.replace("|", r"\|") for cell in cells) for cells in described]
    yield f"\n### {name}\n\n{row['description']}\n\n{_markdown(KEYS, rows)}"


def default_of(row: str, key: Key) -> str:
    """Returns the default value of a key of a row, or what applies without the key."""
    complete = published_schema()["then"]
    required = {"Table": complete["required"], "Candidates": complete["properties"]["candidates"]["required"]}
    if match := _DEFAULT.search(key.about):
        return match[1]
    if not key.default and key.name in required.get(row, ()):
        return "required without `extends`"
    if key.default in {"", '""'}:
        return "no condition" if row == "Match" else "none"
    return key.default if key.default.startswith("required") else f"`{key.default}`"


def _contract() -> Iterator[tuple[str, str]]:
    """Yields each key or name that this project writes on objects, and the first paragraph about it."""
    source = (REPOSITORY / "contract" / "keys.py").read_text(encoding="utf-8")
    body = ast.parse(source).body
    for assignment, docstring in pairwise(body):
        if isinstance(assignment, ast.AnnAssign) and isinstance(assignment.target, ast.Name):
            value = getattr(keys, assignment.target.id)
            if str(value).startswith(keys.PREFIX) and value != keys.PREFIX:
                assert isinstance(docstring, ast.Expr), f"{assignment.target.id} has no text"
                text = str(ast.literal_eval(docstring.value)).partition("\n\n")[0]
                yield f"`{value}`", text.replace("``", "`")
    for name, about in BY_ROWS.items():
        yield f"`{keys.PREFIX}{name}`", about


def _metrics() -> Iterator[tuple[str, ...]]:
    """Yields each metric of the programs: its name, type, labels and description."""
    with TemporaryDirectory() as folder:
        for registry in metric_registries(Path(folder)):
            collectors = set(registry._names_to_collectors.values())  # noqa: SLF001 - no public way to the labels
            labels = {getattr(item, "_name", ""): getattr(item, "_labelnames", ()) for item in collectors}
            for metric in sorted(registry.collect(), key=attrgetter("name")):
                sample_labels = metric.samples[0].labels if metric.samples else ()
                names = labels.get(metric.name, sample_labels)
                suffix = "_total" if metric.type == "counter" else ""
                yield f"`{metric.name}{suffix}`", metric.type, ", ".join(names), metric.documentation


def _versions() -> Iterator[tuple[str, str]]:
    """Yields each program with which the tests run, and its versions. ``go.mod`` of each kit has them."""
    for module, program in MODULES.items():
        versions = set()
        for path in REPOSITORY.glob("testbed/kits/*/go.mod"):
            # The kit of Kueue builds only Kueue, although its go.mod also names libraries of other programs.
            if program == "Kueue" or not path.parent.name.startswith("kueue"):
                with suppress(LookupError):
                    versions.add(required(path, module).removeprefix("v"))
        yield program, ", ".join(sorted(versions, key=lambda text: [*map(int, text.split("."))]))


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "".join(map(_row, (head, ("---",) * len(head), *rows)))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |\n"


GENERATORS: Mapping[str, Callable[[str], str]] = {
    "README.md": updated,
    "docs/install.md": values.updated,
    "docs/reference.md": lambda _: reference(),
}
"""For each document, the function that returns its new text from its present text."""
