"""The values of placeholders in a job."""

from collections.abc import Mapping
from dataclasses import dataclass

from common.computed import computed
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.selections import cluster_labels, contradictions
from webhook.objects.tree import Json, map_at, text_of
from webhook.rows.families import JobShape
from webhook.rows.placeholders import ABSENT, OF_ANNOTATIONS, ROLE_MAPS, SSH


@dataclass(eq=False)
class Values:
    """The values of placeholders in a job, computed for the first rule that needs any of them."""

    job: Job

    @computed
    def every(self) -> dict[str, Json]:
        """The value of each placeholder that rules use and for which the job has a value.

        The job must have its shape and identity.

        Raises:
            WrongTypeError: A field to which a placeholder refers is not text.
        """
        job = self.job
        values: dict[str, Json] = {"job.namespace": job.namespace}
        if job.workload.takes_nodes:
            values |= {"job.workers": str(job.workers), "job.nodes": str(job.nodes)}
            values |= {"job.name": job.name} if job.name else {}
        if job.shape:
            values |= _of_a_candidate(job, job.shape)
        elif job.place:
            block = job.block
            values |= {"place.unit": job.place.unit} | ({"place.block": block} if block is not None else {})
        for placeholder, name in job.table.field_placeholders[job.workload.name].items():
            values[placeholder] = job.field(name)
        for role, placeholders in job.table.role_placeholders[job.workload.name].items():
            if groups := job.of.get(role):
                values |= of_template(groups[0], placeholders)
                # A rule that uses the instance type is skipped for pods that select other machines.
                of_type = f"{role}.instanceType"
                if of_type in job.table.placeholders_of[job.workload.name] and (
                    types := job.instance_types(role)
                ):
                    values[of_type] = types[0]
        return values


def labels_of_units(job: Job) -> dict[str, Json]:
    """Returns the values of the placeholders for labels of units."""
    if not job.shape:
        return {}
    sizes = {"units.belowBlock": job.shape.node_config, "units.belowJob": job.nodes}
    units = {
        name: [unit for unit in job.family.units if unit.capacity < size] for name, size in sizes.items()
    }
    units["units.own"] = [unit for unit in job.family.units if unit.label == job.shape.topology_key]
    return {
        name: [label for unit in some for label in (unit.label, *unit.other_labels)]
        for name, some in units.items()
    }


def of_template(group: Group, placeholders: Mapping[str, str]) -> dict[str, Json]:
    """Returns the values of placeholders about the main container of a template, given with their names."""
    values: dict[str, Json] = {}
    for placeholder, name in placeholders.items():
        if name in SSH:
            value = group.ssh.get(name)
        elif name in ROLE_MAPS:
            # Go programs such as Kueue write `resources: {}` into all containers that they pass on. Without
            # it here, an added container would look like one that a user changed.
            value = map_at(group.main, (name,)) or ({} if name == "resources" else ABSENT)
        else:
            text = group.main.get("name" if name == "container" else name)
            missing = ABSENT if name == "imagePullPolicy" else None
            value = text if isinstance(text, str) else missing
        if value is not None and value != "":
            values[placeholder] = value
    return values


def _of_a_candidate(job: Job, shape: JobShape) -> dict[str, Json]:
    peers = job.peers(job.identity if job.table.job_label_rules - job.off else "")
    values: dict[str, Json] = {
        "job.id": job.identity,
        "job.instanceType": job.instance_types()[0],
        **({"job.peers": dict(peers)} if peers else {}),
        "job.groupLabels": [job.workload.group] if job.workload.group else ABSENT,
        "job.place": "",  # each template's own, known when it is filled in
        "family.name": job.family.name,
        "family.resource": job.family.device[0],
        "shape.name": shape.shape.name,
        "shape.nodeConfig": str(shape.node_config),
    }
    marks = map_at(job.object, ("metadata", "annotations"))
    values |= {name: text_of(marks[key]) for name, key in OF_ANNOTATIONS.items() if marks.get(key)}
    if own := cluster_labels(job):
        values["job.clusterLabels"] = own
    if why := next(contradictions(job, shape, job.identity), None):
        values["job.contradiction"] = why
    if shape.topology_key:
        values["shape.topologyKey"] = shape.topology_key
    return values
