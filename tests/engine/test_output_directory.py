"""A launcher that mounts something of its own where the host file would be keeps the operator's host file."""

from typing import Any

import pytest

from contract import keys
from testbed.mpijob import LAUNCHER, mpijob
from tests.engine.hostile import pod
from tests.helpers import requested
from webhook.engine import evaluate
from webhook.objects.tree import get
from webhook.rules.load import load_default

TABLE = load_default()
PLACE = "/root/ultraserver_init"
OURS = {"mountPath": PLACE, "name": "ultraserver-init"}
VARIABLES = {
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "I_MPI_HYDRA_HOST_FILE",
    "HYDRA_HOST_FILE",
}


def launcher_pod(mounts: list[Any]) -> Any:
    notes = {f"{keys.PREFIX}hostfile": f"{PLACE}/new_hostfile"}
    return pod({"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]}, **notes)


def test_a_pod_whose_output_directory_is_taken_gets_no_variable_that_points_into_it() -> None:
    outcome = evaluate(TABLE, requested(launcher_pod([{"mountPath": PLACE, "name": "data"}])))
    assert outcome.operations == ()
    (why,) = (row.why for row in outcome.rules if row.name == "hostfile")
    assert why == f"the pod mounts a volume of its own at {PLACE}"


@pytest.mark.parametrize("mounts", [[], [OURS]], ids=["nothing", "ours"])
def test_a_pod_that_mounts_it_already_or_not_yet_gets_mount_and_variables(mounts: list[Any]) -> None:
    (container,) = evaluate(TABLE, requested(launcher_pod(mounts))).after["spec"]["containers"]
    assert container["volumeMounts"] == [OURS]
    assert {item["name"] for item in container["env"]} == VARIABLES


def job(mounts: list[Any]) -> Any:
    return mpijob(4, launcher_spec={"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]})


def test_the_person_is_told_when_the_job_is_applied_and_what_to_do() -> None:
    outcome = evaluate(TABLE, requested(job([{"mountPath": PLACE, "name": "data"}])))
    (warning,) = outcome.warnings
    assert f"mounts a volume of its own at {PLACE}" in warning
    assert "mount yours elsewhere" in warning
    assert f"{keys.PREFIX}hostfile" not in get(outcome.after, (*LAUNCHER, "metadata", "annotations"))


@pytest.mark.parametrize("mounts", [[], [OURS], [{"mountPath": "/data", "name": "data"}], ["odd", None]])
def test_a_job_that_leaves_it_free_is_told_nothing(mounts: list[Any]) -> None:
    outcome = evaluate(TABLE, requested(job(mounts)))
    assert outcome.warnings == ()
    assert get(outcome.after, (*LAUNCHER, "metadata", "annotations", f"{keys.PREFIX}hostfile"))
