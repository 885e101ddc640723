"""What placeholders stand for in one job."""

from collections.abc import Mapping

from webhook.engine import placing
from webhook.engine.candidates import job_types
from webhook.engine.identity import job_id
from webhook.engine.jobs import OpenJob, field
from webhook.engine.outcome import Request
from webhook.objects.templates import first_container
from webhook.objects.tree import Json, map_at
from webhook.rows.placeholders import ABSENT, ROLE, ROLE_MAPS
from webhook.rows.table import Shape, Table


def placeholder_values(
    table: Table, job: OpenJob, shape: Shape | None, request: Request, uid: str
) -> dict[str, Json]:
    """The value of every placeholder that rules quote and that this job has one for.

    What is not a job of its own, or not a candidate, has no shape. The uid is that of the review in which an
    unnamed job was first seen.

    Raises:
        WrongTypeError: if a field that a placeholder quotes is not text.
    """
    values: dict[str, Json] = {"job.namespace": request.namespace}
    if job.workload.takes_nodes:
        values |= {"job.workers": str(job.workers()), "job.nodes": str(job.nodes())}
        values |= {"job.name": job.name} if job.name else {}
    if shape:
        values |= _of_a_candidate(table, job, shape, job_id(request, job.name, job.generate_name, uid))
    elif said := placing.said_by(job):
        block = placing.block_of(job.object, said)
        values |= {"place.unit": said.unit} | ({"place.block": block} if block is not None else {})
    for whole in table.quoted_of[job.workload.name]:
        of, _, name = whole.partition(".")
        if of == "field" and name in job.workload.fields:
            values[whole] = field(job.workload, job.object, name)
        elif name in {*ROLE, *ROLE_MAPS} and job.paths(of):
            found = _of_a_role(table, job, of, name)
            values |= {whole: found} if found is not None and found != "" else {}
    return values


def _of_a_role(table: Table, job: OpenJob, role: str, name: str) -> Json:
    """What a template has for one of the placeholders of its role; nothing where there is none."""
    if name == "instanceType":  # a rule that quotes this is left out for pods that choose other machines
        return next(iter(job_types(table, job, role)), None)
    return _of_its_first_container(job.templates(role)[0], name)


def of_template(own: Mapping[str, str], template: Json) -> dict[str, Json]:
    """What placeholders of a rule's own role, `Rule.own`, stand for in one of the templates of that role."""
    found = {whole: _of_its_first_container(template, name) for whole, name in own.items()}
    return {whole: value for whole, value in found.items() if value is not None and value != ""}


def _of_its_first_container(template: Json, name: str) -> Json:
    main = first_container(template)
    if name in ROLE_MAPS:
        # Programs in Go, Kueue for one, write `resources: {}` into all containers they pass on. Without
        # it here a container that was added would be taken for one that somebody changed.
        missing: Json = {} if name == "resources" else ABSENT
        return map_at(main, (name,)) or missing
    found = main.get("name" if name == "container" else name)
    return found if isinstance(found, str) else None


def _of_a_candidate(table: Table, job: OpenJob, shape: Shape, identity: str) -> dict[str, Json]:
    peers = placing.peers(job, identity if table.labels_jobs else "")
    values: dict[str, Json] = {
        "job.id": identity,
        "job.instanceType": job_types(table, job)[0],
        **({"job.peers": dict(peers)} if peers else {}),
        "job.groupLabels": [job.workload.group] if job.workload.group else ABSENT,
        "job.place": "",  # of each template its own: known where it is filled in
        "shape.name": shape.name,
        "shape.nodeConfig": str(shape.node_config),
    }
    if shape.topology_key:
        values["shape.topologyKey"] = shape.topology_key
    return values
