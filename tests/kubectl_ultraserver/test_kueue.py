"""Tests of findings about a job that waits in a queue of Kueue.

The objects follow the API of Kueue 0.15.2 (``apis/kueue/v1beta2``). The messages are copied from its
scheduler and its controllers (``pkg/scheduler``, ``pkg/controller/core``).
"""

from typing import Any

import pytest

from kube.api import Object
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.names import JobReference
from kubectl_ultraserver.why import why
from tests.kubectl_ultraserver.build import job_case, stored_job, with_installation, workers

NO_QUOTA = (
    "couldn't assign flavors to pod set worker: insufficient unused quota for aws.amazon.com/neuron in "
    "flavor trn2u, 64 more needed"
)
NO_PLACE = (
    "couldn't assign flavors to pod set worker: topology \"trn2u\" doesn't allow to fit any of 4 pod(s)"
)


def condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def workload(*conditions: Object, **more: Any) -> Object:
    owner = {"kind": "MPIJob", "name": "train", "uid": "uid-of-train", "controller": True}
    return {
        "metadata": {"name": "mpijob-train-1a2b3", "ownerReferences": [owner]},
        "spec": {"queueName": "trn2u", "active": True} | more.pop("spec", {}),
        "status": {"conditions": list(conditions)} | more,
    }


def findings_of(*workloads: Object, queue: str = "trn2u", **known: Any) -> list[Finding]:
    job = stored_job(runPolicy={"suspend": True})
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return why(with_installation(job_case([], job=job), workloads=workloads, **{"has_kueue": True, **known}))


@pytest.mark.parametrize(
    ("message", "code", "remedy"),
    [
        (NO_QUOTA, "no-quota", "kubectl -n team describe localqueue trn2u"),
        (NO_PLACE, "no-nodes", "kubectl ultraserver topology: "),
    ],
)
def test_a_job_without_quota_or_nodes_has_the_queue_and_the_message_of_kueue(
    message: str, code: str, remedy: str
) -> None:
    (finding,) = findings_of(workload(condition("QuotaReserved", "False", "Pending", message)))
    assert (finding.code, finding.kind, finding.name) == (code, "queue", "trn2u")
    assert finding.text.endswith(f": {message}")
    assert finding.remedy.startswith(remedy)


def test_a_workload_without_conditions_has_not_been_processed() -> None:
    (finding,) = findings_of(workload())
    assert finding.code == "no-quota"
    assert finding.text.endswith(": Kueue has not processed the job yet")


def test_the_finding_about_a_job_that_waits_for_an_admission_check_names_the_check() -> None:
    check = {"name": "prov", "state": "Pending", "message": "waiting for capacity"}
    (finding,) = findings_of(
        workload(
            condition("QuotaReserved", "True", "QuotaReserved"), admissionChecks=[check, {"state": "Ready"}]
        )
    )
    assert finding.code == "admission-checks"
    assert finding.details[0] == "admission check prov: Pending: waiting for capacity"


def test_an_evicted_or_deactivated_job_is_explained() -> None:
    evicted = condition("Evicted", "True", "Preempted", "Preempted to accommodate a workload (UID: 1)")
    pending = condition("QuotaReserved", "False", "Pending", NO_QUOTA)
    (finding,) = findings_of(workload(evicted, pending))
    assert finding.details[0] == "evicted: Preempted: Preempted to accommodate a workload (UID: 1)"
    (finding,) = findings_of(workload(evicted, pending, spec={"active": False}))
    assert finding.code == "deactivated"
    assert "mpijob-train-1a2b3" in finding.text


def test_a_job_that_kueue_has_admitted_has_no_finding() -> None:
    admitted = workload(condition("QuotaReserved", "True", "x"), condition("Admitted", "True", "Admitted"))
    job = stored_job()
    running = job_case(workers("train", 4, ["n1-0", "n1-1", "n1-2", "n1-3"]), job=job)
    assert why(with_installation(running, workloads=(admitted,), has_kueue=True)) == []


def test_the_finding_about_a_suspended_job_without_a_workload_has_the_reason() -> None:
    assert findings_of()[0].code == "no-workload"
    assert findings_of(has_kueue=False)[0].code == "no-kueue"
    (finding,) = findings_of(queue="")
    assert (finding.code, finding.kind) == ("suspended", "job")
    assert "(spec.runPolicy.suspend)" in finding.text


def test_the_workload_of_another_job_is_ignored() -> None:
    other = workload(condition("QuotaReserved", "False", "Pending", NO_QUOTA))
    other["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert findings_of(other)[0].code == "no-workload"


def test_a_job_of_another_kind_is_found_by_the_owner_of_its_workload() -> None:
    pending = workload(condition("QuotaReserved", "False", "Pending", NO_QUOTA))
    pending["metadata"]["ownerReferences"][0]["kind"] = "JobSet"
    waiting_job = job_case([], reference=JobReference("jobset", "train"))
    (finding,) = why(with_installation(waiting_job, workloads=(pending,), has_kueue=True))
    assert (finding.code, finding.kind) == ("no-quota", "queue")
