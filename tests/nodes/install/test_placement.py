"""Whole-job admission of an installation, taken out by the commands of its document and installed again."""

from collections.abc import Callable

from contract.keys import GATE
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import JOB_NAME, ROLE, clear, template, workers_of
from testbed.plane.kubectl import Object
from testbed.waiting import until
from tests.nodes.install.installation import TEAM, Installation

PLACEMENT = "docs/placement.md"
KINDS = "all,configmaps,serviceaccounts,roles,rolebindings,leases,networkpolicies"
WIDE = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"


def test_it_places_whole_jobs_is_taken_out_and_comes_back(installed: Installation) -> None:
    try:
        jobs_wait_and_are_placed_whole(installed)
        it_is_taken_out(installed)
    finally:
        clear(installed.team)
    installed.reset()
    until(lambda: new_jobs_have_the_gate(installed) == {True}, "a gate on new jobs")
    installed.wait_places()


def jobs_wait_and_are_placed_whole(installed: Installation) -> None:
    installed.team.create(mpijob(16, name="first"))
    pods_when(installed, "first", 17, bound)
    installed.team.create(mpijob(4, name="second"))
    pods_when(installed, "second", 5, gated)
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
    workers = workers_of(pods_when(installed, "second", 5, bound))
    assert len({server_of(installed, pod) for pod in workers}) == 1


def it_is_taken_out(installed: Installation) -> None:
    installed.team.create(mpijob(16, name="third"))
    pods_when(installed, "third", 17, gated)
    output = installed.run(PLACEMENT, "Take it out")
    assert [line.split()[0] for line in output.splitlines() if line.startswith(f"{TEAM}/")] == [
        f"{TEAM}/second",
        f"{TEAM}/third",
    ]
    until(lambda: new_jobs_have_the_gate(installed) == {False}, "no gate on new jobs")
    pods_when(installed, "third", 17, gated)
    installed.run(PLACEMENT, "Admit jobs without the program")
    pods_when(installed, "third", 17, lambda pod: not gated(pod))
    # One block of four has no nodes; a worker of it that is recreated waits again.
    workers = ("pods", "-l", f"{JOB_NAME}=third,{ROLE}=worker")
    items = installed.team.wait_for(lambda obj: sum(map(bound, obj["items"])) == 12, *workers)["items"]
    name = next(pod["metadata"]["name"] for pod in items if not bound(pod))
    installed.team.run("delete", "pod", name, "--grace-period=0", "--force")
    installed.team.wait_for(lambda obj: any(map(gated, obj["items"])), *workers)
    installed.run(PLACEMENT, "Admit jobs by hand")
    pods_when(installed, "third", 17, lambda pod: not gated(pod))
    installed.run(PLACEMENT, "Delete the program")
    until(lambda: "ultraserver-placement" not in everything(installed), "placement to be gone", every=1)


def new_jobs_have_the_gate(installed: Installation) -> set[bool]:
    """Returns whether; both while one serving process has a newer table than the other."""
    shown = [installed.create()[0] for _ in range(4)]
    return {gated(template(job, role)) for job in shown for role in ("Launcher", "Worker")}


def pods_when(
    installed: Installation, job: str, count: int, condition: Callable[[Object], bool]
) -> list[Object]:
    """Returns the pods of a job, when this many are there and something holds of each."""

    def hold(obj: Object) -> bool:
        return len(obj["items"]) == count and all(map(condition, obj["items"]))

    items: list[Object] = installed.team.wait_for(hold, "pods", "-l", f"{JOB_NAME}={job}")["items"]
    return items


def gated(pod: Object) -> bool:
    return {"name": GATE} in pod["spec"].get("schedulingGates", ())


def bound(pod: Object) -> bool:
    return "nodeName" in pod["spec"]


def server_of(installed: Installation, pod: Object) -> str:
    node = installed.kubectl.get_json("node", pod["spec"]["nodeName"])
    server: str = node["metadata"]["labels"][nodes.SERVER_ID_4]
    return server


def everything(installed: Installation) -> str:
    """Returns the names of all that an installation can bring."""
    return "".join(
        kubectl.run("get", kinds, "-o", "name").stdout
        for kubectl, kinds in ((installed.own, KINDS), (installed.kubectl, WIDE))
    )
