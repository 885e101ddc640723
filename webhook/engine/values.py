"""What placeholders stand for in one job."""

from collections.abc import Mapping

from webhook.engine import placing
from webhook.engine.candidates import job_types
from webhook.engine.jobs import OpenJob
from webhook.engine.selections import cluster_labels, contradictions
from webhook.engine.ssh import ssh_of
from webhook.objects.templates import main_container
from webhook.objects.tree import Json, Path, get, map_at
from webhook.rows.placeholders import ABSENT, OF_ROLE, ROLE_MAPS, SSH
from webhook.rows.table import Shape, Table


def placeholder_values(
    table: Table, job: OpenJob, shape: Shape | None, identity: str, off: frozenset[str]
) -> dict[str, Json]:
    """The value of every placeholder that rules quote and that this job has one for.

    What is not a job of its own, or not a candidate, has no shape and no identity, the job label's value.
    ``off`` has the names of rules that are switched off.

    Raises:
        WrongTypeError: if a field that a placeholder quotes is not text.
    """
    values: dict[str, Json] = {"job.namespace": job.namespace}
    if job.workload.takes_nodes:
        values |= {"job.workers": str(job.workers()), "job.nodes": str(job.nodes())}
        values |= {"job.name": job.name} if job.name else {}
    if shape:
        values |= _of_a_candidate(table, job, shape, identity, labelled=bool(table.labelling - off))
    elif said := placing.said_by(job):
        block = placing.block_of(job.object, said)
        values |= {"place.unit": said.unit} | ({"place.block": block} if block is not None else {})
    mains: dict[str, dict[str, Json]] = {}
    for whole, of, name in table.parts_of[job.workload.name]:
        if of == "field" and name in job.workload.fields:
            values[whole] = job.field(name)
        elif name in OF_ROLE and (paths := job.paths(of)):
            if name == "instanceType":
                # A rule that quotes it is left out for pods that choose other machines.
                found: Json = next(iter(job_types(table, job, of)), None)
            else:
                if of not in mains:
                    mains[of] = _main(table, job, paths[0])
                found = _of_container(mains[of], name)
            values |= {whole: found} if found is not None and found != "" else {}
    return values


def of_template(table: Table, job: OpenJob, own: Mapping[str, str], path: Path) -> dict[str, Json]:
    """What placeholders of a rule's own role, `Rule.own`, stand for in one of the templates of that role."""
    main = _main(table, job, path)
    found = {whole: _of_container(main, name) for whole, name in own.items()}
    return {whole: value for whole, value in found.items() if value is not None and value != ""}


def _main(table: Table, job: OpenJob, path: Path) -> dict[str, Json]:
    found = main_container(get(job.object, path), job.workload.main_container, table.candidates.requests)
    return dict(found)


def _of_container(main: dict[str, Json], name: str) -> Json:
    if name in SSH:
        if name not in main:  # found out once
            main.update({**dict.fromkeys(SSH), **ssh_of(main)})
        return main[name]
    if name in ROLE_MAPS:
        # Programs in Go, Kueue for one, write `resources: {}` into all containers they pass on. Without
        # it here a container that was added would be taken for one that somebody changed.
        missing: Json = {} if name == "resources" else ABSENT
        return map_at(main, (name,)) or missing
    found = main.get("name" if name == "container" else name)
    return found if isinstance(found, str) else ABSENT if name == "imagePullPolicy" else None


def _of_a_candidate(
    table: Table, job: OpenJob, shape: Shape, identity: str, *, labelled: bool
) -> dict[str, Json]:
    peers = placing.peers(job, identity if labelled else "")
    values: dict[str, Json] = {
        "job.id": identity,
        "job.instanceType": job_types(table, job)[0],
        **({"job.peers": dict(peers)} if peers else {}),
        "job.groupLabels": [job.workload.group] if job.workload.group else ABSENT,
        "job.place": "",  # of each template its own: known where it is filled in
        "shape.name": shape.name,
        "shape.nodeConfig": str(shape.node_config),
    }
    if own := cluster_labels(table.candidates, job):
        values["job.clusterLabels"] = own
    if why := next(contradictions(job, shape, identity), None):
        values["job.contradiction"] = why
    if shape.topology_key:
        values["shape.topologyKey"] = shape.topology_key
    return values
