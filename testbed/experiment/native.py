"""Kubernetes' own gangs: a control plane with the alpha gates on, PodGroups, and the rows for their Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contract.keys import PLACE
from testbed.experiment.judge import UNIT, config_of
from testbed.plane.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "scheduling.k8s.io/v1alpha2"
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"

GROUPS = {"native": "$(field.name)-$(place.block)", "native-job": "$(field.name)"}
"""The name of a Pod's group: one for each block, or one for the whole job."""


class NativePlane(ControlPlane):
    """A control plane with gangs; a release without these gates says so when its programs start."""

    flags: Mapping[str, Mapping[str, object]] = {
        "kube-apiserver": {"feature-gates": GATES, "runtime-config": f"{VERSION}=true"},
        "kube-scheduler": {"feature-gates": GATES},
    }


FIELD = {"path": "/metadata/labels/training.kubeflow.org~1job-name", "default": ""}
"""Of the workload of Pods: the name of the job, which a group has its name from."""


def rules(policy: str) -> list[dict[str, Any]]:
    """The rows that put every Pod of a job which fills units into its group."""
    several, one = ["* size=2 *", "* size=4 *"], ["* workers=2 size=2 *", "* workers=4 size=4 *"]
    found = [_rule("native-group", GROUPS[policy], several)]
    # A job of one unit has no blocks by number.
    return [*found, _rule("native-one", "$(field.name)-0", one)] if policy == "native" else found


def _rule(name: str, group: str, places: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "reason": "The scheduler binds all Pods of a group or none.",
        "match": {"workload": "pod", "role": "pod", "annotations": {PLACE: places}},
        "add": {"spec": {"schedulingGroup": {"podGroupName": group}}},
    }


def groups(policy: str, name: str, workers: int) -> list[dict[str, Any]]:
    """The PodGroups of a job.

    A group may have one topology constraint, and all its Pods share one value of that node label: the group
    of a job of several units has none.
    """
    size = config_of(workers)
    if size == 1:
        return []
    if policy == "native":
        members = {f"{name}-{block}": size for block in range(workers // size)}
    else:
        members = {name: workers}
    return [_group(group, count, size) for group, count in members.items()]


def _group(name: str, members: int, size: int) -> dict[str, Any]:
    constraints = {"schedulingConstraints": {"topology": [{"key": UNIT[size]}]}} if members == size else {}
    return {
        "apiVersion": VERSION,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": members}}, **constraints},
    }
