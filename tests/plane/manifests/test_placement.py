"""The component placement: what its pods may do, and that its rows and its program mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from placement import model
from placement.__main__ import main
from tests.docs.blocks import REPOSITORY
from tests.plane.manifests.objects import one, pod_specs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plane.manifests.conftest import Build

NAME = "ultraserver-placement"


@pytest.fixture
def overlay(built: Callable[[str], Build]) -> Build:
    return built("overlays/placement")


def test_every_program_leaves_ultraserver_nodes_to_jobs_where_there_are_others(overlay: Build) -> None:
    """On real nodes, two programs that said nothing of it were put there first."""
    specs = pod_specs(overlay)
    assert {*specs} == {"ultraserver-webhook", "ultraserver-webhook-certs", NAME}
    for spec in specs.values():
        (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        (term,) = preferred["preference"]["matchExpressions"]
        assert (term["key"], term["operator"]) == ("node.kubernetes.io/instance-type", "NotIn")
        assert set(term["values"]) == {"trn2u.48xlarge", "ml.trn2u.48xlarge"}


def test_it_runs_as_strictly_as_the_others(overlay: Build) -> None:
    specs = pod_specs(overlay)
    assert specs[NAME]["securityContext"] == specs["ultraserver-webhook-certs"]["securityContext"]
    (container,) = specs[NAME]["containers"]
    (other,) = specs["ultraserver-webhook-certs"]["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert container["image"] == other["image"]
    assert one(overlay, "Deployment", NAME)["spec"]["replicas"] == 2


def test_it_may_see_nodes_and_pods_change_pods_and_write_events_and_nothing_else(overlay: Build) -> None:
    rules = one(overlay, "ClusterRole", NAME)["rules"]
    assert {(rule["resources"][0], *rule["verbs"]) for rule in rules} == {
        ("nodes", "list", "watch"),
        ("pods", "list", "watch", "patch", "delete"),
        ("events", "create"),
    }
    policy = one(overlay, "ValidatingAdmissionPolicy", NAME)
    opened = one(overlay, "ValidatingAdmissionPolicy", f"{NAME}-opened")
    account = f"system:serviceaccount:ultraserver-webhook:{NAME}"
    assert account in policy["spec"]["matchConditions"][0]["expression"]
    assert account in opened["spec"]["matchConditions"][1]["expression"]
    assert model.OPENED in str(opened["spec"])
    text = str(policy["spec"]["validations"])
    assert model.GATE in text
    assert model.OPENED in text


def test_the_program_knows_every_argument_it_is_given(overlay: Build) -> None:
    known = {name for parameter in main.commands["run"].params for name in parameter.opts}
    (container,) = pod_specs(overlay)[NAME]["containers"]
    assert {argument.split("=")[0] for argument in container["args"]} <= known


def test_the_table_is_that_of_the_base_and_the_rows_of_the_component(
    overlay: Build, built: Callable[[str], Build]
) -> None:
    name = "30-placement.yaml"
    files = one(overlay, "ConfigMap", "ultraserver-webhook-rules")["data"]
    component = REPOSITORY / "manifests" / "components" / "placement" / name
    assert files.pop(name) == component.read_text(encoding="utf-8")
    assert files == one(built("base"), "ConfigMap", "ultraserver-webhook-rules")["data"]
    assert files["rules.yaml"] == (REPOSITORY / "manifests/base/rules.yaml").read_text(encoding="utf-8")
