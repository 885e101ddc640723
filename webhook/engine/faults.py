"""Faults of a job, which rows name: what will fail or have no effect, though the API server accepts it.

Only what an evaluation reads anyway is examined, so that a valid job costs little.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from common.pointers import field_name
from common.quantities import seconds
from common.texts import nearest
from contract import keys
from webhook.engine.jobs import Job
from webhook.engine.outcome import Fault
from webhook.engine.selections import units_apart
from webhook.engine.ssh import texts
from webhook.objects.templates import REQUIRED, main_container
from webhook.objects.tree import Json, Path, get, map_at, maps_at, shown, text_of
from webhook.rows.workloads import WORKER

MOST_NAMES: Final = 20
"""Maximum number of unknown keys, or resources, that are compared with known ones: comparing costs."""

SHORTEST: Final = 6
"""Minimum length of a resource's name, without its domain, for a comparison: others are called `gpu`."""

MISSPELT: Final = frozenset({"resource", "key"})
MOST_MISSPELT: Final = 5
"""Maximum number of misspelt names of one sort in an outcome."""

HOSTFILE: Final = "/etc/mpi/hostfile"
"""The operator's file, which has the workers in the order of their numbers."""

_FILE: Final = rf"[\"']?{HOSTFILE}(?![\w./-])"
_VARIABLE: Final = r"(?:OMPI|PRTE)_MCA_\w*default_hostfile|(?:I_MPI_)?HYDRA_HOST_FILE"
_GIVEN: Final = re.compile(
    rf"(?:^|[\s\"'])(--?[\w-]*(?:host|machine)[-_]?file|(?:orte|prte)_default_hostfile|-f|{_VARIABLE})[\s=\\]+{_FILE}"
)
_VARIABLES: Final = re.compile(_VARIABLE)
_ASSIGNED: Final = re.compile(rf"\b(\w+)={_FILE}")
_QUOTED: Final = re.compile(r"\$[({]?(\w+)[)}]?")
_ENDS: Final = re.compile(r"(?<!\\)\n|[;|&]")
_MPI: Final = re.compile(r"mpi(?:run|exec)|hydra")
_LETTERS: Final = re.compile(r"[^a-z]+")
_OURS: Final = {_LETTERS.sub("", key.removeprefix(keys.PREFIX)): key for key in keys.FOR_AUTHORS}
_SIGNS: Final = re.compile("ultra|webhook|inj|conf|limit|fail")
_KUEUE: Final = "kueue.x-k8s.io/"


Found = Iterator[Fault]


def faults(job: Job) -> dict[str, tuple[Fault, ...]]:
    """Returns the faults of each sort: the first one, or the first few misspelt names."""
    text = job.text
    result: dict[str, tuple[Fault, ...]] = {}
    for sort, (sign, look) in SORTS.items():
        most = MOST_MISSPELT if sort in MISSPELT else 1
        if (text is None or sign in text) and (first := tuple(islice(look(job), most))):
            result[sort] = first
    return result


def _user(job: Job) -> Found:
    """Yields workers with a read-only root that write to a directory of the root."""
    for group in job.of[WORKER]:
        path, spec = group.path, group.spec
        pod = map_at(spec, ("securityContext",))
        if not (pod or any("securityContext" in item for item in maps_at(spec, ("containers",)))):
            continue
        # The container that does the work; a mesh's may come first.
        container = main_container(group.template, (), job.table.resources)
        own = map_at(container, ("securityContext",))
        if not (own or pod) or any(map(_is_etc, maps_at(container, ("volumeMounts",)))):
            continue
        for key in ("runAsUser", "runAsNonRoot", "readOnlyRootFilesystem"):
            at = ("containers", spec["containers"].index(container)) if own.get(key) is not None else ()
            value = own[key] if at else pod.get(key)
            if value and not (key == "runAsNonRoot" and 0 in (own.get("runAsUser"), pod.get("runAsUser"))):
                yield Fault(field_name((*path, "spec", *at, "securityContext", key)), shown(value))


def _is_etc(mount: Json) -> bool:
    return mount.get("mountPath") in ("/etc", "/etc/environment") and not mount.get("readOnly")


def _deadline(job: Job) -> Found:
    """Yields deadlines of Pods that take nodes; in a list, those of others do not wait for these."""
    if row := job.workload.fields.get("deadline"):
        end = len(row.path.list.parts) + 1 if row.path.list else 0
        for at in row.path.find_all(job.object):
            if (value := get(job.object, at)) and at[:end] in [group.path[:end] for group in job.of[WORKER]]:
                yield Fault(field_name(at), shown(value))


def _amount(job: Job) -> Found:
    """Yields requests for more devices than a node has, or twice as many cores, which LNC=2 halves."""
    for group in job.of[WORKER]:
        for name, whole in job.family.whole_node.items():
            amount = group.amounts.get(name, 0)
            most = min(whole.at_most, whole.at_least * (1 + name.endswith("core"))) if amount else 0
            if amount > 1000 * most > 0:
                yield Fault(group.requested(name)[0], str(amount // 1000), str(most))


def _limit(job: Job) -> Found:
    """Yields requests that differ from their limits, with which Kubernetes creates no Pod."""
    for group in job.of[WORKER]:
        for at, container in group.containers("containers"):
            limits, requests = (map_at(container, ("resources", key)) for key in ("limits", "requests"))
            for name in job.family.whole_node:
                amount = requests.get(name)
                if amount and str(amount) != str(limit := limits.get(name)):
                    value = "missing" if limit is None else shown(limit)
                    yield Fault(field_name((*at, "resources", "limits", name)), value, shown(amount))


def _idle(job: Job) -> Found:
    """Yields a Pod without devices that takes a node like the others."""
    for group in job.of[WORKER] if job.devices == "mixed" else ():
        if group.devices == "none":
            yield Fault(field_name((*group.path, "spec")), "")


def _resource(job: Job) -> Found:
    known = job.table.resources
    unknown = [(group, name) for group in job.groups for name in group.amounts if name not in known]
    if not unknown:
        return
    shorts = {name.rpartition("/")[2]: name for name in known}
    shorts = {short: name for short, name in shorts.items() if len(short) >= SHORTEST}
    for group, name in unknown[:MOST_NAMES]:
        like = any(short in name for short in shorts)
        short = nearest(name.rpartition("/")[2], (*shorts,)) if like else None
        if meant := nearest(name, known) or (short and shorts[short]):
            yield Fault(group.requested(name)[0], name, meant)


def _key(job: Job) -> Found:
    """Yields labels or annotations that are similar to one of the webhook's for jobs."""
    like: list[Path] = []
    for path in () if job.is_pod else ((), *[group.path for group in job.groups]):
        metadata = map_at(job.object, (*path, "metadata"))
        for kind in ("annotations", "labels"):
            if isinstance(marks := metadata.get(kind), dict) and _like_ours(" ".join(marks)):
                like += ((*path, "metadata", kind, key) for key in filter(_like_ours, marks))
    for at in like[:MOST_NAMES]:
        *_, kind, key = map(str, at)
        if (meant := _meant(key[:100])) and kind == "labels" and meant not in keys.LABELS_FOR_AUTHORS:
            yield Fault(field_name(at), shown(get(job.object, at), 40), f"the annotation {meant}")
        elif meant and meant != key:
            yield Fault(field_name(at), shown(get(job.object, at), 40), meant)


def _like_ours(text: str) -> bool:
    return bool(_SIGNS.search(text.lower()))


def _meant(key: str) -> str | None:
    """Returns the key of the webhook that a key is or resembles."""
    prefix, name = (_LETTERS.sub("", part) for part in key.lower().rpartition("/")[::2])
    if not prefix and name.startswith("ultraserver"):
        prefix, name = "ultraserver", re.sub("^ultraserver(webhook)?(io)?", "", name)
    ours = "ultraserver" in prefix or nearest(prefix, ("ultraserverwebhookio",))
    near = nearest(name, tuple(_OURS)) if ours or not prefix else None
    return _OURS[near] if near and (ours or name == near) else None


def _hostfile(job: Job) -> Found:
    """Yields uses of the operator's host file by MPI."""
    for group in job.of["launcher"]:
        for at, container in group.containers("containers"):
            named = (item for item in maps_at(container, ("env",)) if item.get("value") == HOSTFILE)
            env = [str(item.get("name")) for item in named]
            command, args = (" ".join(texts(container.get(key))) for key in ("command", "args"))
            text = f"{command} {args}"
            for name in filter(_VARIABLES.fullmatch, env):
                yield Fault(field_name((*at, "env")), f"{name}={HOSTFILE}")
            if (env or HOSTFILE in text) and (given := _given(text, {*env})):
                kind = "args" if given in args else "command"
                yield Fault(field_name((*at, kind)), f"{given} {HOSTFILE}")


def _given(text: str, variables: set[str]) -> str | None:
    """Returns the option or variable by which a command passes the file to MPI."""
    text = re.sub(r"(?<!\S)#[^\n]*", "", text)  # without comments
    variables |= set(_ASSIGNED.findall(text))
    text = _QUOTED.sub(lambda match: HOSTFILE if match[1] in variables else match[0], text)
    for command in _ENDS.split(text):
        options = {match[1] for match in _GIVEN.finditer(command)}
        if options := options if _MPI.search(command) else options - {"-f"}:  # `test -f` is another
            return min(options)
    return None


def _queue(job: Job) -> Found:
    """Yields the label of a Kueue queue, or an annotation that requests a topology from Kueue."""
    label = ("metadata", "labels", f"{_KUEUE}queue-name")
    if queue := get(job.object, label):
        yield Fault(field_name(label), shown(queue, 40))
    for group in job.of[WORKER]:
        at = ("metadata", "annotations")
        for key, value in map_at(group.template, at).items():
            if key.startswith(f"{_KUEUE}podset-") and key.endswith("-topology"):
                yield Fault(field_name((*group.path, *at, key)), shown(value, 40))


def _time_limit(job: Job) -> Found:
    """Yields the annotation of a time limit that placement ignores."""
    at = ("metadata", "annotations", keys.TIME_LIMIT)
    limit = get(job.object, at)
    if limit and seconds(limit) is None:
        yield Fault(field_name(at), text_of(limit))


def _spread(job: Job) -> Found:
    """Yields spread constraints on the label of the job's unit."""
    return (Fault(at, "") for at in units_apart(job))


def _affinity(job: Job) -> Found:
    """Yields required (anti-)affinity terms whose topology key is the label of a unit."""
    labels = [unit.label for unit in job.family.units]
    for group in job.of[WORKER]:
        for kind in ("podAffinity", "podAntiAffinity"):
            at = ("spec", "affinity", kind, REQUIRED)
            for index, term in enumerate(maps_at(group.template, at)):
                if (key := term.get("topologyKey")) in labels:
                    yield Fault(field_name((*group.path, *at, index)), key)


SORTS: Final[Mapping[str, tuple[bytes, Callable[[Job], Found]]]] = {
    "user": (b"securityContext", _user),
    "deadline": (b"", _deadline),
    "amount": (b"", _amount),
    "limit": (b"requests", _limit),
    "idle": (b"", _idle),
    "resource": (b"", _resource),
    "key": (b"", _key),
    "hostfile": (HOSTFILE.encode(), _hostfile),
    "queue": (_KUEUE.encode(), _queue),
    "timeLimit": (keys.TIME_LIMIT.encode(), _time_limit),
    "spread": (b"topologySpreadConstraints", _spread),
    "affinity": (b"topologyKey", _affinity),
}
"""By the name that a rule matches, a text in objects with such a fault, and the function that finds it."""
