"""Computes the values of placeholders in a job."""

from collections.abc import Mapping

from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.selections import find_contradictions, find_unknown_labels
from webhook.objects.tree import Json, get_map, text_of
from webhook.rows.families import JobShape
from webhook.rows.placeholders import ABSENT, OF_ANNOTATIONS, ROLE_MAPS, SSH_NAMES


def compute_values(job: Job) -> dict[str, Json]:
    """Returns the values of placeholders. Call this only after the job's shape and job label are set.

    Placeholders for which the job has no value are missing. Placeholders about fields and containers are also
    missing if no rule uses them.

    Raises:
        WrongTypeError: A field to which a placeholder refers cannot be read as text (see `Field.text`).
    """
    values: dict[str, Json] = {"job.namespace": job.namespace}
    if job.workload.takes_nodes:
        values |= {"job.workers": str(job.workers), "job.nodes": str(job.nodes)}
        values |= {"job.name": job.name} if job.name else {}
    if job.shape:
        values |= _compute_candidate_values(job, job.shape)
    elif job.placement:
        block = job.block
        values |= {"place.unit": job.placement.unit} | ({"place.block": block} if block is not None else {})
    for placeholder, name in job.table.field_placeholders[job.workload.name].items():
        values[placeholder] = job.field(name)
    for role, placeholders in job.table.role_placeholders[job.workload.name].items():
        if groups := job.by_role.get(role):
            values |= compute_template_values(groups[0], placeholders)
            # If the pods select no machine of the family, there is no value. Rules that use it are skipped.
            type_placeholder = f"{role}.instanceType"
            is_used = type_placeholder in job.table.placeholders_by_workload[job.workload.name]
            if is_used and (types := job.instance_types(role)):
                values[type_placeholder] = types[0]
    return values


def find_unit_labels(job: Job) -> dict[str, Json]:
    """Returns the values of the placeholders for the labels of units; empty for a job without a shape."""
    if not job.shape:
        return {}
    sizes = {"units.belowBlock": job.shape.node_config, "units.belowJob": job.nodes}
    units = job.family.units
    units_by_name = {name: [unit for unit in units if unit.capacity < size] for name, size in sizes.items()}
    units_by_name["units.own"] = [unit for unit in units if unit.label == job.shape.topology_key]
    return {
        name: [label for unit in named_units for label in (unit.label, *unit.other_labels)]
        for name, named_units in units_by_name.items()
    }


def compute_template_values(group: Group, placeholders: Mapping[str, str]) -> dict[str, Json]:
    """Returns the values of placeholders about the main container of a template, by placeholder."""
    values: dict[str, Json] = {}
    for placeholder, name in placeholders.items():
        if name in SSH_NAMES:
            value = group.ssh.get(name)
        elif name in ROLE_MAPS:
            # Go programs such as Kueue write `resources: {}` into all containers. If an added container did
            # not have it from the start, the container would look as if a user had changed it.
            value = get_map(group.main_container, (name,)) or ({} if name == "resources" else ABSENT)
        else:
            text = group.main_container.get("name" if name == "container" else name)
            default = ABSENT if name == "imagePullPolicy" else None
            value = text if isinstance(text, str) else default
        if value is not None and value != "":
            values[placeholder] = value
    return values


def _compute_candidate_values(job: Job, shape: JobShape) -> dict[str, Json]:
    peers = job.peer_labels(job.job_label if job.table.job_label_rules - job.off_rules else "")
    values: dict[str, Json] = {
        "job.id": job.job_label,
        "job.instanceType": job.instance_types()[0],
        **({"job.peers": dict(peers)} if peers else {}),
        "job.groupLabels": [job.workload.group] if job.workload.group else ABSENT,
        "job.place": "",  # replaced for each template, by `MatchingRule.find_values`
        "family.name": job.family.name,
        "family.resource": job.family.device[0],
        "shape.name": shape.shape.name,
        "shape.nodeConfig": str(shape.node_config),
    }
    annotations = get_map(job.object, ("metadata", "annotations"))
    values |= {
        name: text_of(annotations[key]) for name, key in OF_ANNOTATIONS.items() if annotations.get(key)
    }
    if labels := find_unknown_labels(job):
        values["job.clusterLabels"] = labels
    if contradiction := next(find_contradictions(job, shape, job.job_label), None):
        values["job.contradiction"] = contradiction
    if shape.topology_key:
        values["shape.topologyKey"] = shape.topology_key
    return values
