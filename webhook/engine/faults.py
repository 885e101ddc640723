"""Finds faults of a job: fields that can fail, have no effect, or hinder placement.

The API server accepts such fields. Rules can match each kind of fault. Most kinds are searched only in
objects that contain the text for the kind in `FAULT_FINDERS`, so that a valid job costs little.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from common.pointers import field_name
from common.quantities import seconds
from common.texts import nearest
from contract import keys
from webhook.engine import messages
from webhook.engine.jobs import Job
from webhook.engine.outcome import Fault
from webhook.engine.selections import find_separating_constraints
from webhook.engine.ssh import read_texts
from webhook.objects.templates import REQUIRED, main_container
from webhook.objects.tree import Json, Path, get, get_map, get_maps, shown, text_of
from webhook.rows.workloads import WORKER

MOST_NAMES: Final = 20
"""Maximum number of unknown keys, or resources, that are compared with known ones. Comparing is slow."""

SHORTEST_NAME: Final = 6
"""Minimum length of resource names that are compared without their domain. Shorter names are too common."""

MISSPELLINGS: Final = frozenset({"resource", "key"})
MOST_MISSPELLINGS: Final = 5
"""Maximum number of faults of each kind in `MISSPELLINGS`, the kinds for misspelt names."""

HOSTFILE: Final = "/etc/mpi/hostfile"
"""The host file of mpi-operator, which lists the workers in the order of their numbers."""

_FILE: Final = rf"[\"']?{HOSTFILE}(?![\w./-])"
_HOSTFILE_VARIABLE: Final = r"(?:OMPI|PRTE)_MCA_\w*default_hostfile|(?:I_MPI_)?HYDRA_HOST_FILE"
_HOSTFILE_OPTION: Final = re.compile(
    rf"(?:^|[\s\"'])(--?[\w-]*(?:host|machine)[-_]?file|(?:orte|prte)_default_hostfile|-f|{_HOSTFILE_VARIABLE})[\s=\\]+{_FILE}"
)
_VARIABLE_NAME: Final = re.compile(_HOSTFILE_VARIABLE)
_ASSIGNMENT: Final = re.compile(rf"\b(\w+)={_FILE}")
_REFERENCE: Final = re.compile(r"\$[({]?(\w+)[)}]?")
_COMMAND_END: Final = re.compile(r"(?<!\\)\n|[;|&]")
_MPI_COMMAND: Final = re.compile(r"mpi(?:run|exec)|hydra")
_NOT_LETTERS: Final = re.compile(r"[^a-z]+")
_KEY_BY_LETTERS: Final = {
    _NOT_LETTERS.sub("", key.removeprefix(keys.PREFIX)): key for key in keys.FOR_AUTHORS
}
_KEY_PARTS: Final = re.compile("ultra|webhook|inj|conf|limit|fail")
_KUEUE: Final = "kueue.x-k8s.io/"


def find_faults(job: Job) -> dict[str, tuple[Fault, ...]]:
    """Returns the first fault of each kind, by kind; for misspelt names, up to `MOST_MISSPELLINGS`."""
    result: dict[str, tuple[Fault, ...]] = {}
    for kind, (signature, find) in FAULT_FINDERS.items():
        maximum = MOST_MISSPELLINGS if kind in MISSPELLINGS else 1
        if signature in job.text and (faults_of_kind := tuple(islice(find(job), maximum))):
            result[kind] = faults_of_kind
    return result


def _find_user(job: Job) -> Iterator[Fault]:
    """Yields security settings that can prevent the init script from writing a worker's /etc/environment."""
    for group in job.by_role[WORKER]:
        path, spec = group.path, group.spec
        pod = get_map(spec, ("securityContext",))
        if not (pod or any("securityContext" in item for item in get_maps(spec, ("containers",)))):
            continue
        # The first container may be the sidecar of a service mesh instead of the main container.
        container = main_container(group.template, (), job.table.resources)
        context = get_map(container, ("securityContext",))
        if not (context or pod) or any(map(_is_etc, get_maps(container, ("volumeMounts",)))):
            continue
        users = context.get("runAsUser"), pod.get("runAsUser")
        for key in ("runAsUser", "runAsNonRoot", "readOnlyRootFilesystem"):
            part = ("containers", spec["containers"].index(container)) if context.get(key) is not None else ()
            value = context[key] if part else pod.get(key)
            if value and not (key == "runAsNonRoot" and 0 in users):
                yield Fault(field_name((*path, "spec", *part, "securityContext", key)), shown(value))


def _is_etc(mount: Json) -> bool:
    return mount.get("mountPath") in ("/etc", "/etc/environment") and not mount.get("readOnly")


def _find_deadline(job: Job) -> Iterator[Fault]:
    """Yields deadlines of Pods that take nodes, and leaves out list elements whose Pods take no nodes."""
    if field := job.workload.fields.get("deadline"):
        end = len(field.path.list_path.parts) + 1 if field.path.list_path else 0
        prefixes = [group.path[:end] for group in job.by_role[WORKER]]
        for path in field.path.find_all(job.object):
            if (value := get(job.object, path)) and path[:end] in prefixes:
                yield Fault(field_name(path), shown(value))


def _find_amount(job: Job) -> Iterator[Fault]:
    """Yields requests for more than a node has. A node with LNC=1 has twice the cores of one with LNC=2."""
    for group in job.by_role[WORKER]:
        for name, limits in job.family.whole_node.items():
            amount = group.amounts.get(name, 0)
            maximum = min(limits.at_most, limits.at_least * (1 + name.endswith("core"))) if amount else 0
            if amount > 1000 * maximum > 0:
                yield Fault(group.find_request(name)[0], str(amount // 1000), str(maximum))


def _find_limit(job: Job) -> Iterator[Fault]:
    """Yields device limits that are missing or differ from the request: Kubernetes refuses such Pods."""
    for group in job.by_role[WORKER]:
        for path, container in group.containers("containers"):
            limits, requests = (get_map(container, ("resources", key)) for key in ("limits", "requests"))
            for name in job.family.whole_node:
                amount = requests.get(name)
                if amount and str(amount) != str(limit := limits.get(name)):
                    value = "missing" if limit is None else shown(limit)
                    yield Fault(field_name((*path, "resources", "limits", name)), value, shown(amount))


def _find_idle(job: Job) -> Iterator[Fault]:
    """Yields the template of a Pod without devices, if all other Pods that take nodes have devices."""
    for group in job.by_role[WORKER] if job.devices == "mixed" else ():
        if group.devices == "none":
            yield Fault(field_name((*group.path, "spec")), "")


def _find_resource(job: Job) -> Iterator[Fault]:
    """Yields requests for unknown resources whose name resembles that of a known one."""
    known_names = job.table.resources
    requests = [(group, name) for group in job.groups for name in group.amounts if name not in known_names]
    if not requests:
        return
    suffixes = ((name.rpartition("/")[2], name) for name in known_names)
    names_by_suffix = {suffix: name for suffix, name in suffixes if len(suffix) >= SHORTEST_NAME}
    for group, name in requests[:MOST_NAMES]:
        is_similar = any(suffix in name for suffix in names_by_suffix)
        suffix = nearest(name.rpartition("/")[2], (*names_by_suffix,)) if is_similar else None
        if nearest_name := nearest(name, known_names) or (suffix and names_by_suffix[suffix]):
            yield Fault(group.find_request(name)[0], name, nearest_name)


def _find_key(job: Job) -> Iterator[Fault]:
    """Yields labels and annotations whose key is like one of `keys.FOR_AUTHORS`, or is in a wrong place."""
    similar_paths: list[Path] = []
    for path in () if job.is_pod else ((), *[group.path for group in job.groups]):
        metadata = get_map(job.object, (*path, "metadata"))
        for kind in ("annotations", "labels"):
            if isinstance(values := metadata.get(kind), dict) and _resembles_key(" ".join(values)):
                similar_paths += ((*path, "metadata", kind, key) for key in filter(_resembles_key, values))
    job_annotations = get_map(job.object, ("metadata", "annotations"))
    for field in similar_paths[:MOST_NAMES]:
        *template, _, kind, key = map(str, field)
        meant = match = _find_nearest_key(key[:100])
        if match and kind == "labels" and match not in keys.LABELS_FOR_AUTHORS:
            meant = messages.meant_annotation(match)
        elif match == key:
            is_misplaced = template and kind == "annotations" and key not in job_annotations
            meant = messages.meant_job(key) if is_misplaced else None
        if meant:
            yield Fault(field_name(field), shown(get(job.object, field), 40), meant)


def _resembles_key(text: str) -> bool:
    return bool(_KEY_PARTS.search(text.lower()))


def _find_nearest_key(key: str) -> str | None:
    """Returns the key in `keys.FOR_AUTHORS` that equals or resembles a key; None if there is no such key."""
    prefix, name = (_NOT_LETTERS.sub("", part) for part in key.lower().rpartition("/")[::2])
    if not prefix and name.startswith("ultraserver"):
        prefix, name = "ultraserver", re.sub("^ultraserver(webhook)?(io)?", "", name)
    is_webhook_prefix = "ultraserver" in prefix or nearest(prefix, ("ultraserverwebhookio",))
    letters = nearest(name, tuple(_KEY_BY_LETTERS)) if is_webhook_prefix or not prefix else None
    return _KEY_BY_LETTERS[letters] if letters and (is_webhook_prefix or name == letters) else None


def _find_hostfile(job: Job) -> Iterator[Fault]:
    """Yields options and variables by which MPI reads the operator's host file."""
    for group in job.by_role["launcher"]:
        for path, container in group.containers("containers"):
            variables = (item for item in get_maps(container, ("env",)) if item.get("value") == HOSTFILE)
            names = [str(item.get("name")) for item in variables]
            command, args = (" ".join(read_texts(container.get(key))) for key in ("command", "args"))
            text = f"{command} {args}"
            for name in filter(_VARIABLE_NAME.fullmatch, names):
                yield Fault(field_name((*path, "env")), f"{name}={HOSTFILE}")
            if (names or HOSTFILE in text) and (option := _find_hostfile_option(text, {*names})):
                list_name = "args" if option in args else "command"
                yield Fault(field_name((*path, list_name)), f"{option} {HOSTFILE}")


def _find_hostfile_option(text: str, variables: set[str]) -> str | None:
    """Returns the option or variable with which a command gives MPI the host file; None if there is none.

    ``variables`` has the names of variables whose value is the host file. This function adds the variables
    to which the text assigns the host file.
    """
    text = re.sub(r"(?<!\S)#[^\n]*", "", text)  # removes comments
    variables |= set(_ASSIGNMENT.findall(text))
    text = _REFERENCE.sub(lambda match: HOSTFILE if match[1] in variables else match[0], text)
    for command in _COMMAND_END.split(text):
        options = {match[1] for match in _HOSTFILE_OPTION.finditer(command)}
        if options := options if _MPI_COMMAND.search(command) else options - {"-f"}:  # ignores `test -f`
            return min(options)
    return None


def _find_queue(job: Job) -> Iterator[Fault]:
    """Yields the label of a Kueue queue, or an annotation that requests a topology from Kueue."""
    label = ("metadata", "labels", f"{_KUEUE}queue-name")
    if queue := get(job.object, label):
        yield Fault(field_name(label), shown(queue, 40))
    for group in job.by_role[WORKER]:
        annotations_path = ("metadata", "annotations")
        for key, value in get_map(group.template, annotations_path).items():
            if key.startswith(f"{_KUEUE}podset-") and key.endswith("-topology"):
                yield Fault(field_name((*group.path, *annotations_path, key)), shown(value, 40))


def _find_time_limit(job: Job) -> Iterator[Fault]:
    """Yields the annotation of a time limit that the placement program cannot read."""
    path = ("metadata", "annotations", keys.TIME_LIMIT)
    limit = get(job.object, path)
    if limit and seconds(limit) is None:
        yield Fault(field_name(path), text_of(limit))


def _find_spread(job: Job) -> Iterator[Fault]:
    """Yields spread constraints that separate the workers of a block."""
    return (Fault(field, "") for field in find_separating_constraints(job))


def _find_affinity(job: Job) -> Iterator[Fault]:
    """Yields required pod affinity and anti-affinity terms whose topology key is the label of a unit."""
    labels = [unit.label for unit in job.family.units]
    for group in job.by_role[WORKER]:
        for affinity_kind in ("podAffinity", "podAntiAffinity"):
            path = ("spec", "affinity", affinity_kind, REQUIRED)
            for index, term in enumerate(get_maps(group.template, path)):
                if (key := term.get("topologyKey")) in labels:
                    yield Fault(field_name((*group.path, *path, index)), key)


FAULT_FINDERS: Final[Mapping[str, tuple[str, Callable[[Job], Iterator[Fault]]]]] = {
    "user": ("securityContext", _find_user),
    "deadline": ("", _find_deadline),
    "amount": ("", _find_amount),
    "limit": ("requests", _find_limit),
    "idle": ("", _find_idle),
    "resource": ("", _find_resource),
    "key": ("", _find_key),
    "hostfile": (HOSTFILE, _find_hostfile),
    "queue": (_KUEUE, _find_queue),
    "timeLimit": (keys.TIME_LIMIT, _find_time_limit),
    "spread": ("topologySpreadConstraints", _find_spread),
    "affinity": ("topologyKey", _find_affinity),
}
"""For each kind of fault: a text that every object with the fault contains, and a function that finds it."""
