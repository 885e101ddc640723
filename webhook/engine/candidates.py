"""Whether a job is one for UltraServers: its opt-in or opt-out, its resources, its nodes."""

from collections.abc import Sequence
from typing import Final

from contract import keys
from webhook.engine.claims import Claim, claimed_node, claims, left_alone
from webhook.engine.jobs import OpenGroup, OpenJob, marked, selects_type
from webhook.engine.outcome import JobError, cut
from webhook.objects.templates import admits, matches, takes
from webhook.objects.tree import Json, Path, get, map_at, maps_at, shown, text_of
from webhook.rows.table import Devices, Table
from webhook.rows.workloads import DEVICES, WORKER, Candidates

NO_DEVICE: Final = "the workers request no Neuron device"


def candidacy(table: Table, job: OpenJob, *, opted: bool) -> tuple[bool, str]:
    """Whether a job that is not opted out is a candidate, and why: design.md, "Which jobs, and what wins"."""
    if not job.workload.takes_nodes:
        return True, f"a {job.workload.name} is no job of its own, and only rules about such objects apply"
    templates = job.templates(WORKER)
    if not templates:
        groups = [group for group in job.workload.groups if group.takes_nodes is True or group.role == WORKER]
        places = cut(" or ".join(dict.fromkeys(str(group.template) for group in groups)))
        if any(group.takes_nodes == DEVICES for group in groups):
            return (
                False,
                f"no pod template at {places} asks for a node's Neuron devices or selects UltraServers",
            )
        return False, f"the job has no {WORKER} template: there is none at {places}"
    if not job.has_workers():
        return False, "the job has no workers"
    if not job_types(table, job):
        return False, f"its own selection of nodes {_left_out(table, job)}"
    if opted:
        return True, f"opted in by {keys.INJECT}"
    candidate, why = _by_content(table.candidates, job, templates)
    if not candidate and any(marked(template, keys.INJECT) for template in templates):
        why = f"{why} ({keys.INJECT} counts on the job's own metadata, not on that of its template)"
    return candidate, why


def _by_content(wanted: Candidates, job: OpenJob, templates: Sequence[Json]) -> tuple[bool, str]:
    """Whether what a job says of itself makes it a candidate, where nobody opted it in or out."""
    if elsewhere := _elsewhere(wanted, job, templates):
        return False, f"{elsewhere}; {keys.INJECT} opts it in"
    least = {name: wanted.whole_node.get(name, 0) for name in wanted.requests}
    asked = [job.asked[path] for path in job.paths(WORKER)]
    whole = [name for found in asked for name in least if takes(found, name, least[name])]
    if whole:
        return True, f"its workers ask for {whole[0]}"
    for template in templates:
        if name := claimed_node(wanted, template):
            return True, f"its workers claim a node by the template {cut(name)}"
    if less := next((name for found in asked for name in wanted.requests if found.get(name)), None):
        said = f"its workers ask for less than the {least[less]} {less} that a node has"
        return False, f"{said}; {keys.INJECT} opts it in"
    if any(selects_type(wanted, template) for template in templates):
        return True, "its workers select an UltraServer instance type"
    if why := next(filter(None, (left_alone(wanted, template) for template in templates)), None):
        return False, f"{cut(why)}; {keys.INJECT} opts it in"
    return False, NO_DEVICE


def _elsewhere(wanted: Candidates, job: OpenJob, templates: Sequence[Json]) -> str | None:
    """What says that somebody else chooses a job's nodes; None if nothing does."""
    for owner in maps_at(job.object, ("metadata", "ownerReferences")):
        group, kind = text_of(owner.get("apiVersion")).partition("/")[0], text_of(owner.get("kind"))
        if matches(kind, wanted.elsewhere.owners.get(group, ())):
            return f"it was made by a {cut(kind)} of {group}, which chooses its nodes"
    others = "which is for other nodes than UltraServers"
    labels = map_at(job.object, ("metadata", "labels"))
    for key, values in wanted.elsewhere.labels.items() if labels else ():
        found = labels.get(key)
        if found is not None and matches(text_of(found), values):
            return f"its label {key} is {shown(found, 40)}, {others}"
    for template in templates:
        for item in maps_at(template, ("spec", "tolerations")):
            taint, value = item.get("key"), text_of(item.get("value") or "")
            if isinstance(taint, str) and matches(value, wanted.elsewhere.tolerations.get(taint, ())):
                return f"its workers tolerate {cut(f'{taint}={value}' if value else taint)}, {others}"
    return None


def job_types(table: Table, job: OpenJob, role: str = WORKER) -> tuple[str, ...]:
    """The table's instance types that all pods of a role leave open; by default all that take nodes.

    None of them, where the pods' own selection by another label leaves out UltraServers.
    """
    wanted, selections = table.candidates, [job.selections[path] for path in job.paths(role)]
    if not any(part.selector or part.terms for part in selections):
        return wanted.instance_types
    of_type = {name: dict.fromkeys(wanted.type_labels, (name,)) for name in wanted.instance_types}
    return tuple(
        name
        for name, labels in of_type.items()
        if all(admits(part, {**wanted.node_labels, **labels}) for part in selections)
    )


def _left_out(table: Table, job: OpenJob) -> str:
    """The labels, and their values, by which a job leaves out UltraServers, or every node."""
    wanted = table.candidates
    for selector in (job.selections[path].selector for path in job.paths(WORKER)):
        types = {label: shown(selector[label], 40) for label in wanted.type_labels if label in selector}
        if len({*types.values()}) > 1:
            both = " and ".join(f"{label} {value}" for label, value in types.items())
            return f"asks for two instance types at once, which no node has: {both}; take one out"
    every = {**dict.fromkeys(wanted.type_labels, wanted.instance_types), **wanted.node_labels}
    found = [
        f"{' and '.join(values)} ({label})"
        for label, values in every.items()
        if not all(admits(job.selections[path], {label: values}) for path in job.paths(WORKER))
    ]
    return f"leaves out {', '.join(found) or 'nodes with all labels of an UltraServer'}"


def devices(wanted: Candidates, job: OpenJob) -> Devices:
    """How a job's workers get their devices."""
    found = {_devices(wanted, job, path) for path in job.paths(WORKER)}
    if len(found) == 1:
        return found.pop()
    idle = (max(group.replicas, 1) for group in job.groups if group.takes_nodes and _idle(wanted, job, group))
    return "mixed" if sum(idle) <= 1 else "some"


def _devices(wanted: Candidates, job: OpenJob, path: Path) -> Devices:
    found = list(claims(wanted, get(job.object, path)))
    own = _own_devices(wanted, job, path, [claim for claim in found if not claim.shared])
    if any(claim.shared for claim in found):
        # Whole-job admission does not know where a claim of several pods is.
        return "unknown" if own == "none" else "shared"
    return own


def _idle(wanted: Candidates, job: OpenJob, group: OpenGroup) -> bool:
    return _devices(wanted, job, group.template) in {"none", "unknown"}


def _own_devices(wanted: Candidates, job: OpenJob, path: Path, found: Sequence[Claim]) -> Devices:
    if any(job.asked[path].get(name) for name in wanted.requests):
        return "requested"
    if any(claim.takes and claim.takes.node_config for claim in found):
        return "configured"
    return "claimed" if found else "none"


def injection(obj: Json) -> bool | None:
    """Whether the object is opted in (True), out (False), or says nothing.

    Raises:
        JobError: if it says something that is neither.
    """
    mark = marked(obj, keys.INJECT)
    if mark is None:
        return None
    if mark[1] in keys.ON:
        return True
    if mark[1] in keys.OFF:
        return False
    raise JobError(f'{mark[0]} is {shown(mark[1])}: use "true" to opt in, "false" to opt out, or remove it')
