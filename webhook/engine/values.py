"""The values of placeholders in a job."""

from collections.abc import Mapping

from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.selections import cluster_labels, contradictions
from webhook.objects.tree import Json, map_at, text_of
from webhook.rows.families import Fitted
from webhook.rows.placeholders import ABSENT, MARKS, OF_ROLE, ROLE_MAPS, SSH


def placeholder_values(job: Job) -> dict[str, Json]:
    """Returns the value of every placeholder that rules quote and that this job has.

    Raises:
        WrongTypeError: A field that a placeholder quotes is not text.
    """
    values: dict[str, Json] = {"job.namespace": job.namespace}
    if job.workload.takes_nodes:
        values |= {"job.workers": str(job.workers), "job.nodes": str(job.nodes)}
        values |= {"job.name": job.name} if job.name else {}
    if job.shape:
        values |= _of_a_candidate(job, job.shape)
    elif job.place:
        block = job.block
        values |= {"place.unit": job.place.unit} | ({"place.block": block} if block is not None else {})
    for whole, of, name in job.table.parts_of[job.workload.name]:
        if of == "field" and name in job.workload.fields:
            values[whole] = job.field(name)
        elif name in OF_ROLE and (groups := job.of.get(of)):
            # A rule that quotes the type is left out for pods that choose other machines.
            types = job.instance_types(of) if name == "instanceType" else ()
            value = next(iter(types), None) if name == "instanceType" else _of_main(groups[0], name)
            values |= {whole: value} if value is not None and value != "" else {}
    return values


def labels_of_units(job: Job) -> dict[str, Json]:
    """Returns the values of the placeholders for labels of units."""
    if not job.shape:
        return {}
    sizes = {"units.belowBlock": job.shape.node_config, "units.belowJob": job.nodes}
    units = {name: [unit for unit in job.family.units if unit.most < size] for name, size in sizes.items()}
    units["units.own"] = [unit for unit in job.family.units if unit.label == job.shape.topology_key]
    return {
        name: [label for unit in some for label in (unit.label, *unit.other_labels)]
        for name, some in units.items()
    }


def of_template(group: Group, own: Mapping[str, str]) -> dict[str, Json]:
    """Returns the values of placeholders of a rule's own role, `Rule.own`, in one of its templates."""
    values = {whole: _of_main(group, name) for whole, name in own.items()}
    return {whole: value for whole, value in values.items() if value is not None and value != ""}


def _of_main(group: Group, name: str) -> Json:
    """Returns the value of a placeholder about the main container."""
    if name in SSH:
        return group.ssh.get(name)
    if name in ROLE_MAPS:
        # Go programs such as Kueue write `resources: {}` into all containers that they pass on. Without it
        # here, an added container would look like one that a user changed.
        missing: Json = {} if name == "resources" else ABSENT
        return map_at(group.main, (name,)) or missing
    text = group.main.get("name" if name == "container" else name)
    return text if isinstance(text, str) else ABSENT if name == "imagePullPolicy" else None


def _of_a_candidate(job: Job, shape: Fitted) -> dict[str, Json]:
    peers = job.peers(job.identity if job.table.labelling - job.off else "")
    values: dict[str, Json] = {
        "job.id": job.identity,
        "job.instanceType": job.instance_types()[0],
        **({"job.peers": dict(peers)} if peers else {}),
        "job.groupLabels": [job.workload.group] if job.workload.group else ABSENT,
        "job.place": "",  # each template's own, known when it is filled in
        "family.name": job.family.name,
        "family.resource": job.family.device[0],
        "shape.name": shape.name,
        "shape.nodeConfig": str(shape.node_config),
    }
    marks = map_at(job.object, ("metadata", "annotations"))
    values |= {name: text_of(marks[key]) for name, key in MARKS.items() if marks.get(key)}
    if own := cluster_labels(job):
        values["job.clusterLabels"] = own
    if why := next(contradictions(job, shape, job.identity), None):
        values["job.contradiction"] = why
    if shape.topology_key:
        values["shape.topologyKey"] = shape.topology_key
    return values
