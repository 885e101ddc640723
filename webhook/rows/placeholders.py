"""Placeholders, ``$(a.b)``: the closed set of names that a fragment may use.

There is no expression language.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from operator import itemgetter, methodcaller
from typing import Final

from contract import keys
from webhook.objects.tree import Json, walk

ABSENT: Final = object()
"""The value of a placeholder for a map or a list that the job does not have."""

PATTERN: Final = re.compile(r"(\$?)\$\(([a-z][A-Za-z0-9]*\.[A-Za-z0-9][A-Za-z0-9_-]*)\)")
"""A placeholder; a second dollar escapes it.

Shell substitutions do not match, unless they run a command with a dot in its name.
"""

JOB: Final[dict[str, str]] = {
    "job.name": "name of the job; a rule that uses it does not apply to jobs with a generateName",
    "job.namespace": "namespace of the job",
    "job.id": "value of the job label: unique in the cluster, at most 63 characters",
    "job.workers": "number of workers, without a launcher that runs ranks",
    "job.nodes": "number of nodes the job takes: its workers, and the launcher where it runs ranks",
    "job.instanceType": "the instance type that the job chose, or the first of the table",
    "job.clusterLabels": "labels by which its workers select nodes, and which the table does not know",
    "job.contradiction": "why no nodes can meet the requirements of its author and its shape",
    "job.peers": "labels of the job's own pods that take nodes, and of no others in its namespace; a map",
    "job.groupLabels": "a list with the label that distinguishes an object's groups; no key if there is none",
    "job.timeLimit": "value of the annotation ultraserver-webhook.io/time-limit",
    "job.onNodeFailure": "value of the annotation ultraserver-webhook.io/on-node-failure",
    "job.place": "how the pods of a template are placed: the value of the annotation for it",
    "family.name": "name of the family",
    "family.resource": "the first resource of its whole node",
    "shape.name": "name of the shape",
    "shape.nodeConfig": "how many workers share a unit: the node config",
    "shape.topologyKey": "topology key of the shape; only for rules whose shapes all have one",
}
"""Placeholders that any rule may use, and what their values are: text unless another type is given."""

MARKS: Final = {"job.timeLimit": keys.TIME_LIMIT, "job.onNodeFailure": keys.ON_NODE_FAILURE}
"""Placeholders for annotations of the job."""

CANDIDATES: Final = frozenset(
    {
        "job.id",
        "job.instanceType",
        "job.clusterLabels",
        "job.contradiction",
        "job.peers",
        "job.groupLabels",
        "job.place",
        *MARKS,
        *(name for name in JOB if name.startswith(("shape.", "family."))),
    }
)
"""The placeholders of `JOB` that only a candidate has."""

ROLE: Final[dict[str, str]] = {
    "image": "image of the main container of the role's template",
    "container": "name of the main container of the role's template",
    "instanceType": "the first instance type of the table that the role's templates do not exclude",
    "imagePullPolicy": "imagePullPolicy of the main container; its key is removed if that has none",
    "sshEnv": "a list of the main container's variables, if the container configures how mpirun calls ssh",
    "sshEnvFrom": "envFrom of such a container",
    "sshMounts": "volumeMounts of such a container",
    "sshUnclear": "the ssh options in its command that cannot be read",
}
"""Placeholders for every role of a workload, as in ``$(ROLE.image)``; text unless another type is given."""

ROLE_MAPS: Final[dict[str, str]] = {
    "securityContext": "securityContext of the main container of the role's template",
    "resources": "resources of the main container of the role's template",
}
"""Placeholders like ``ROLE`` that are maps: each is a whole value; its key is removed if the job has none."""

SSH_LISTS: Final = frozenset({"sshEnv", "sshEnvFrom", "sshMounts"})
SSH: Final = SSH_LISTS | {"sshUnclear"}
OF_CONTAINER: Final = frozenset({*ROLE, *ROLE_MAPS} - {"instanceType"})

PLACE: Final[dict[str, str]] = {
    "place.unit": "the node label whose value the nodes of a unit share",
    "place.block": "the block of the Pod in its job, if the job has several",
}
"""Placeholders of rules about Pods, from their placement annotation. All are text."""

DEVICES: Final[dict[str, str]] = {
    "devices.instanceType": "the instance types that the pod may get",
    "devices.asked": "the number of devices that a container requests",
    "devices.accepted": "the numbers that one of the types accepts",
    "devices.place": "the field of the container's request",
}
"""Placeholders of rules that match ``unsupportedCount``. All are text."""

FAULT: Final[dict[str, str]] = {
    "fault.field": "the field",
    "fault.value": "its value",
    "fault.meant": "the value that was probably meant, or the largest possible one",
}
"""Placeholders of rules that match ``fault``. All are text."""

UNITS: Final[dict[str, str]] = {
    "units.own": "the labels of the job's unit",
    "units.belowBlock": "those of units with fewer nodes than a block of the job",
    "units.belowJob": "those of units with fewer nodes than the job",
}
"""Placeholders of the values of ``match.template``. All are lists."""

SCRIPTS: Final = ("script.wait", "script.init")
"""The text of ``webhook/initscript``."""


def names(node: Json) -> Iterator[str]:
    """Yields every placeholder in a tree, in order of appearance, with repetitions."""
    texts = (text for _, text in walk(node) if isinstance(text, str))
    return (match[2] for text in texts for match in PATTERN.finditer(text) if not match[1])


def elements(node: Json) -> Iterator[str]:
    """Yields the placeholders for lists that are elements of a list, which a job may lack."""
    for path, text in walk(node):
        if path and isinstance(path[-1], int) and (match := PATTERN.fullmatch(str(text))):
            yield from [match[2]] if match[2].partition(".")[2] in SSH_LISTS else []


def quoting(node: Json, texts: Mapping[str, Json]) -> Json:
    """Returns a tree with the given placeholders replaced by texts, whose own placeholders stay."""
    if isinstance(node, str):
        return PATTERN.sub(lambda match: match[0] if match[1] else texts.get(match[2], match[0]), node)
    if isinstance(node, dict):
        return {key: quoting(value, texts) for key, value in node.items()}
    return [quoting(value, texts) for value in node] if isinstance(node, list) else node


def spliced(texts: Iterable[str], values: Mapping[str, Json]) -> Iterator[str]:
    """Yields texts with placeholders filled in; one for each element of a list."""
    for text in texts:
        lists = [(name, values[name]) for name in names(text) if isinstance(values.get(name), list)]
        for name, items in lists:
            yield from (quoting(text, {name: item}) for item in items)
        if not lists:
            yield quoting(text, values)


Filling = Callable[[Mapping[str, Json]], Json]
"""A function that fills in a tree, with values of placeholders by name; every one in the tree has a value."""


def filling(node: Json) -> Filling | None:
    """Returns the function that fills in a tree; None for one without placeholders.

    The result shares all parts of the tree that have no placeholder.
    """
    if isinstance(node, str):
        return _text(node) if "$(" in node else None
    may_lack = {f"$({name})": methodcaller("get", name, []) for name in elements(node)}
    texts = ((path, text) for path, text in walk(node) if isinstance(text, str) and "$(" in text)
    leaves = [(path, may_lack.get(text) or _text(text)) for path, text in texts]
    ways = dict.fromkeys(path[:end] for path, _ in leaves for end in range(len(path)))
    at = {way: index for index, way in enumerate(ways)}
    copies = [(at[way[:-1]], way[-1]) for way in ways if way]
    # From the end: an element that the job does not have is removed, and the positions before it stay valid.
    fills = [(at[path[:-1]], path[-1], fill) for path, fill in reversed(leaves)]
    return partial(_fill, node, copies, fills) if fills else None


def render(text: str, values: Mapping[str, Json]) -> str:
    """Returns a message with every placeholder replaced."""
    fill = filling(text)
    return str(fill(values)) if fill else text


def _fill(
    node: Json,
    copies: list[tuple[int, str | int]],
    fills: list[tuple[int, str | int, Filling]],
    values: Mapping[str, Json],
) -> Json:
    """Returns a copy of a tree, filled in; parent and key identify the nodes above placeholders."""
    copied = [node.copy()]
    spliced: dict[int, None] = {}  # the indices of lists that have placeholders for elements
    for parent, key in copies:
        copied[parent][key] = inner = copied[parent][key].copy()
        copied.append(inner)
    for parent, key, fill in fills:
        value = copied[parent][key] = fill(values)
        if isinstance(key, int) and (value is ABSENT or isinstance(value, list)):
            copied[parent][key : key + 1] = [] if value is ABSENT else value
            spliced[parent] = None
        elif value is ABSENT:
            del copied[parent][key]
    for at in spliced:
        named: dict[str | int, Json] = {}
        for item in copied[at]:  # the first with a name counts, as in a merge; other values may be equal, too
            name = (item.get("mountPath") or item.get("name")) if isinstance(item, dict) else None
            named.setdefault(name or len(named), item)
        parent, key = copies[at - 1]
        copied[parent][key] = [*named.values()]
        if not named:
            del copied[parent][key]
    return copied[0]


@lru_cache(maxsize=4096)
def _text(text: str) -> Filling:
    """Returns the function that fills in a text, which is parsed once: each evaluation fills it in."""
    parts = PATTERN.split(text)
    # Text, then placeholder and text in turn; an escaped placeholder is text.
    form, quoted = parts[0].replace("%", "%%"), []
    for escape, name, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        form += (f"$({name})" if escape else "%s") + literal.replace("%", "%%")
        quoted += [] if escape else [name]
    # A text that is only a placeholder may become a map.
    return itemgetter(*quoted) if form == "%s" else partial(_fill_text, form, quoted)


def _fill_text(form: str, quoted: list[str], values: Mapping[str, Json]) -> Json:
    return form % tuple(map(values.__getitem__, quoted))
