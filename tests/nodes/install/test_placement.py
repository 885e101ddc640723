"""Tests of an installation's whole-job admission, which is removed as documented and installed again."""

from collections.abc import Callable

from contract.keys import GATE
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import JOB_NAME, ROLE, clear, template, workers_of
from testbed.plane.kubectl import Object
from testbed.waiting import until
from tests.nodes.install.installation import TEAM, Installation

PLACEMENT = "docs/placement.md"
NAMESPACED_KINDS = "all,configmaps,serviceaccounts,roles,rolebindings,leases,networkpolicies"
CLUSTER_KINDS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
)


def test_whole_job_admission_places_jobs_is_removed_and_is_installed_again(installed: Installation) -> None:
    try:
        check_that_jobs_wait_and_are_placed_whole(installed)
        remove_whole_job_admission(installed)
    finally:
        clear(installed.team)
    installed.reset()
    until(lambda: new_jobs_have_the_gate(installed) == {True}, "a gate on new jobs")
    installed.wait_until_jobs_are_placed()


def check_that_jobs_wait_and_are_placed_whole(installed: Installation) -> None:
    installed.team.create(mpijob(16, name="first"))
    wait_for_pods(installed, "first", 17, bound)
    installed.team.create(mpijob(4, name="second"))
    wait_for_pods(installed, "second", 5, gated)
    installed.team.wait_for(
        lambda obj: any(
            event["message"].startswith("needs 1 whole UltraServer; 0 free; ")
            and event["message"].endswith("held by team-a/first")
            for event in obj["items"]
        ),
        *("events", "--field-selector=involvedObject.name=second-worker-0,reason=Waiting"),
    )
    installed.team.run("delete", "mpijob", "first")
    installed.team.run("delete", "pods", "-l", f"{JOB_NAME}=first", "--grace-period=0", "--force")
    workers = workers_of(wait_for_pods(installed, "second", 5, bound))
    assert len({server_of(installed, pod) for pod in workers}) == 1


def remove_whole_job_admission(installed: Installation) -> None:
    installed.team.create(mpijob(16, name="third"))
    wait_for_pods(installed, "third", 17, gated)
    output = installed.run(PLACEMENT, "Take it out")
    assert [line.split()[0] for line in output.splitlines() if line.startswith(f"{TEAM}/")] == [
        f"{TEAM}/second",
        f"{TEAM}/third",
    ]
    until(lambda: new_jobs_have_the_gate(installed) == {False}, "no gate on new jobs")
    wait_for_pods(installed, "third", 17, gated)
    installed.run(PLACEMENT, "Admit jobs without the program")
    wait_for_pods(installed, "third", 17, lambda pod: not gated(pod))
    # One block of four workers has no nodes. A recreated worker of this block waits again.
    workers = ("pods", "-l", f"{JOB_NAME}=third,{ROLE}=worker")
    items = installed.team.wait_for(lambda obj: sum(map(bound, obj["items"])) == 12, *workers)["items"]
    name = next(pod["metadata"]["name"] for pod in items if not bound(pod))
    installed.team.run("delete", "pod", name, "--grace-period=0", "--force")
    installed.team.wait_for(lambda obj: any(map(gated, obj["items"])), *workers)
    installed.run(PLACEMENT, "Admit jobs by hand")
    wait_for_pods(installed, "third", 17, lambda pod: not gated(pod))
    installed.run(PLACEMENT, "Delete the program")
    until(lambda: "ultraserver-placement" not in all_names(installed), "placement to be gone", every=1)


def new_jobs_have_the_gate(installed: Installation) -> set[bool]:
    """Returns whether new jobs have the gate; both values while serving Pods have different tables."""
    jobs = [installed.create()[0] for _ in range(4)]
    return {gated(template(job, role)) for job in jobs for role in ("Launcher", "Worker")}


def wait_for_pods(
    installed: Installation, job: str, count: int, condition: Callable[[Object], bool]
) -> list[Object]:
    """Returns the pods of a job, once there are this many and each meets a condition."""

    def are_complete(obj: Object) -> bool:
        return len(obj["items"]) == count and all(map(condition, obj["items"]))

    items: list[Object] = installed.team.wait_for(are_complete, "pods", "-l", f"{JOB_NAME}={job}")["items"]
    return items


def gated(pod: Object) -> bool:
    return {"name": GATE} in pod["spec"].get("schedulingGates", ())


def bound(pod: Object) -> bool:
    return "nodeName" in pod["spec"]


def server_of(installed: Installation, pod: Object) -> str:
    node = installed.kubectl.get_json("node", pod["spec"]["nodeName"])
    server: str = node["metadata"]["labels"][nodes.SERVER_ID_4]
    return server


def all_names(installed: Installation) -> str:
    """Returns the names of all objects of the kinds that an installation creates."""
    return "".join(
        kubectl.run("get", kinds, "-o", "name").stdout
        for kubectl, kinds in ((installed.own, NAMESPACED_KINDS), (installed.kubectl, CLUSTER_KINDS))
    )
