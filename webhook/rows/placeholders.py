"""Defines the placeholders, ``$(a.b)``, that a rule may contain, and fills in their values.

The set of placeholders is closed, and there is no expression language.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from operator import itemgetter, methodcaller
from typing import Final

from contract import keys
from webhook.objects.tree import Json, walk

ABSENT: Final = object()
"""The value of a placeholder whose key or list element is removed, because the job has no value for it."""

PATTERN: Final = re.compile(r"(\$?)\$\(([a-z][A-Za-z0-9]*\.[A-Za-z0-9][A-Za-z0-9_-]*)\)")
"""Matches a placeholder. A further dollar sign before the placeholder escapes it.

A shell's command substitution, ``$(...)``, matches only if it is a command with a dot, without arguments.
"""

OF_JOB: Final[dict[str, str]] = {
    "job.name": "name of the job; a rule that uses it does not apply to jobs with a generateName",
    "job.namespace": "namespace of the job",
    "job.id": "value of the job label: unique in the cluster, at most 63 characters",
    "job.workers": "number of pods with the role worker, without a launcher or master that takes a node",
    "job.nodes": "number of nodes the job takes, also for a master, and for a launcher that runs ranks",
    "job.instanceType": "the first instance type of the family that the job's workers permit",
    "job.clusterLabels": "labels by which the job's workers select nodes, and which the table does not have",
    "job.contradiction": "why no nodes can meet both the author's requirements and the job's shape",
    "job.peers": "a map of labels that, in the namespace, only the job's pods that take nodes have",
    "job.groupLabels": "a list with the workload's `group`. Without `group`, the list's key is removed",
    "job.timeLimit": "value of the annotation ultraserver-webhook.io/time-limit",
    "job.onNodeFailure": "value of the annotation ultraserver-webhook.io/on-node-failure",
    "job.place": "the placement annotation for the pods of a template",
    "family.name": "name of the family",
    "family.resource": "the first resource in the family's wholeNode",
    "shape.name": "name of the shape",
    "shape.nodeConfig": "how many workers share a unit: the node config",
    "shape.topologyKey": "topology key of the shape; only for rules whose shapes all have a topology key",
}
"""Placeholders about the object, with descriptions. A value is text if its description names no type."""

OF_ANNOTATIONS: Final = {"job.timeLimit": keys.TIME_LIMIT, "job.onNodeFailure": keys.ON_NODE_FAILURE}
"""Placeholders for annotations of the job, with the keys of the annotations."""

OF_CANDIDATE: Final = frozenset(
    {
        "job.id",
        "job.instanceType",
        "job.clusterLabels",
        "job.contradiction",
        "job.peers",
        "job.groupLabels",
        "job.place",
        *OF_ANNOTATIONS,
        *(name for name in OF_JOB if name.startswith(("shape.", "family."))),
    }
)
"""The placeholders of `OF_JOB` that have a value only for a candidate."""

OF_ROLE: Final[dict[str, str]] = {
    "image": "image of the main container of the role's template",
    "container": "name of the main container of the role's template",
    "instanceType": "the first instance type of the family that the role's templates permit",
    "imagePullPolicy": "imagePullPolicy of the main container; its key is removed if the container has none",
    "sshEnv": "a list of the main container's variables, if the container configures how mpirun calls ssh",
    "sshEnvFrom": "the list envFrom of the main container, if it configures how mpirun calls ssh",
    "sshMounts": "the list volumeMounts of the main container, if it configures how mpirun calls ssh",
    "sshUnclear": "the ssh options in the main container's command that cannot be read",
}
"""Placeholders for each role of a workload, such as ``$(worker.image)``. Types are named as in `OF_JOB`."""

ROLE_MAPS: Final[dict[str, str]] = {
    "securityContext": "securityContext of the main container of the role's template",
    "resources": "resources of the main container of the role's template",
}
"""Placeholders for maps of each role. If the container has no such map, ``resources`` is an empty map, and
the key of ``securityContext`` is removed."""

SSH_LISTS: Final = frozenset({"sshEnv", "sshEnvFrom", "sshMounts"})
SSH_NAMES: Final = SSH_LISTS | {"sshUnclear"}
OF_CONTAINER: Final = frozenset({*OF_ROLE, *ROLE_MAPS} - {"instanceType"})
"""The placeholders for a role that describe its main container, including `SSH_NAMES`."""

OF_POD: Final[dict[str, str]] = {
    "place.unit": "the node label whose value the nodes of a unit share",
    "place.block": "the block of the Pod, if the Pod's job has several blocks",
}
"""Placeholders for a Pod, from its placement annotation. All are text."""

OF_REQUEST: Final[dict[str, str]] = {
    "devices.instanceType": "the instance types that the pod selects",
    "devices.asked": "the number of devices that a container requests",
    "devices.accepted": "the numbers that at least one of these types accepts",
    "devices.place": "the field of the container's request",
}
"""Placeholders of rules that match ``unsupportedCount``. All are text."""

OF_FAULT: Final[dict[str, str]] = {
    "fault.field": "the field that has the fault",
    "fault.value": "the value of this field",
    "fault.meant": "the value that was probably meant, or the largest possible value",
}
"""Placeholders of rules that match ``fault``. All are text."""

OF_UNITS: Final[dict[str, str]] = {
    "units.own": "the labels of the job's unit",
    "units.belowBlock": "the labels of units with fewer nodes than a block of the job",
    "units.belowJob": "the labels of units with fewer nodes than the job",
}
"""Placeholders in the values of ``match.template``. All are lists."""

SCRIPTS: Final = ("script.wait", "script.init")
"""Placeholders for the init script of ``webhook/initscript``. Both have the same value."""


def placeholders_in(node: Json) -> Iterator[str]:
    """Yields the names of all placeholders in the values of a tree, in order and with repetitions."""
    texts = (text for _, text in walk(node) if isinstance(text, str))
    return (match[2] for text in texts for match in PATTERN.finditer(text) if not match[1])


def lists_in(node: Json) -> Iterator[str]:
    """Yields `SSH_LISTS` placeholders that are elements of lists. Without a value, they add no elements."""
    for path, text in walk(node):
        if path and isinstance(path[-1], int) and (match := PATTERN.fullmatch(str(text))):
            yield from [match[2]] if match[2].partition(".")[2] in SSH_LISTS else []


def substitute(node: Json, texts: Mapping[str, Json]) -> Json:
    """Returns a tree with texts in place of their placeholders. Placeholders in these texts remain."""
    if isinstance(node, str):
        return PATTERN.sub(lambda match: match[0] if match[1] else texts.get(match[2], match[0]), node)
    if isinstance(node, dict):
        return {key: substitute(value, texts) for key, value in node.items()}
    return [substitute(value, texts) for value in node] if isinstance(node, list) else node


def fill_texts(texts: Iterable[str], values: Mapping[str, Json]) -> Iterator[str]:
    """Yields texts with placeholders filled in. A placeholder for a list yields one text for each element."""
    for text in texts:
        lists = [(name, values[name]) for name in placeholders_in(text) if isinstance(values.get(name), list)]
        for name, items in lists:
            yield from (substitute(text, {name: item}) for item in items)
        if not lists:
            yield substitute(text, values)


Filler = Callable[[Mapping[str, Json]], Json]
"""A function that takes the values of placeholders, and returns a tree with its placeholders filled in."""


def make_filler(node: Json) -> Filler | None:
    """Returns the function that fills in a tree; None if no text in the tree contains ``$(``.

    The filled tree shares all parts without placeholders with the original tree.
    """
    if isinstance(node, str):
        return _make_text_filler(node) if "$(" in node else None
    optional_lists = {f"$({name})": methodcaller("get", name, []) for name in lists_in(node)}
    texts = ((path, text) for path, text in walk(node) if isinstance(text, str) and "$(" in text)
    leaves = [(path, optional_lists.get(text) or _make_text_filler(text)) for path, text in texts]
    parents = dict.fromkeys(path[:end] for path, _ in leaves for end in range(len(path)))
    indices = {parent: index for index, parent in enumerate(parents)}
    copies = [(indices[parent[:-1]], parent[-1]) for parent in parents if parent]
    # The last path is first: an absent element is removed, which changes only the indices after it.
    fills = [(indices[path[:-1]], path[-1], fill) for path, fill in reversed(leaves)]
    return partial(_fill, node, copies, fills) if fills else None


def render(text: str, values: Mapping[str, Json]) -> str:
    """Returns a message with every placeholder replaced."""
    fill = make_filler(text)
    return str(fill(values)) if fill else text


def _fill(
    node: Json,
    copies: list[tuple[int, str | int]],
    fills: list[tuple[int, str | int, Filler]],
    values: Mapping[str, Json],
) -> Json:
    """Returns a tree with its placeholders filled in. Copies only the maps and lists above placeholders.

    For each map or list to copy, ``copies`` has the index of its parent in ``new_nodes`` and its key in the
    parent. For each text, ``fills`` has the same two and a filler. A list that becomes empty is removed.
    """
    new_nodes = [node.copy()]
    changed_lists: dict[int, None] = {}  # indices in new_nodes of the lists that get or lose elements
    for parent, key in copies:
        new_nodes[parent][key] = new_node = new_nodes[parent][key].copy()
        new_nodes.append(new_node)
    for parent, key, fill in fills:
        value = new_nodes[parent][key] = fill(values)
        if isinstance(key, int) and (value is ABSENT or isinstance(value, list)):
            new_nodes[parent][key : key + 1] = [] if value is ABSENT else value
            changed_lists[parent] = None
        elif value is ABSENT:
            del new_nodes[parent][key]
    for list_index in changed_lists:
        items_by_name: dict[str | int, Json] = {}
        for item in new_nodes[list_index]:  # if names are equal, the first item is kept, as in a merge
            name = (item.get("mountPath") or item.get("name")) if isinstance(item, dict) else None
            items_by_name.setdefault(name or len(items_by_name), item)
        parent, key = copies[list_index - 1]
        new_nodes[parent][key] = [*items_by_name.values()]
        if not items_by_name:
            del new_nodes[parent][key]
    return new_nodes[0]


@lru_cache(maxsize=4096)
def _make_text_filler(text: str) -> Filler:
    """Returns the function that fills in a text. Results are cached, so that a text is parsed only once."""
    parts = PATTERN.split(text)
    # The parts are a text and, for each match, escape, placeholder and text. An escape makes a text.
    template, placeholders = parts[0].replace("%", "%%"), []
    for escape, name, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        template += (f"$({name})" if escape else "%s") + literal.replace("%", "%%")
        placeholders += [] if escape else [name]
    # If a text is only a placeholder, its value can be a map or a list.
    return itemgetter(*placeholders) if template == "%s" else partial(_fill_text, template, placeholders)


def _fill_text(template: str, placeholders: list[str], values: Mapping[str, Json]) -> Json:
    return template % tuple(map(values.__getitem__, placeholders))
