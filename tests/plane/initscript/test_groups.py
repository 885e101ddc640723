"""Workers of a large job are asked in groups through a leader, and directly if the leader fails.

The script asks more than 32 workers in this way. Here it asks more than three, so that the leaders of eight
are 0, 3 and 6.
"""

import re

import pytest

from tests.initscript.stages import VARIABLE
from tests.plane.initscript.harness import Fleet
from tests.plane.initscript.run import container, given_up
from webhook.initscript import text

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.limit(60, "several sshd share two processors, and the script waits"),
]
LEADERS = ("demo-worker-0", "demo-worker-3", "demo-worker-6")
LAUNCHER = "10.77.0.1"
LEADER = "10.77.0.5"
ASKED = "[[ $BASH_EXECUTION_STRING != *'for member'* ]] || "
"""A line of .bashrc starts with it, if the line is for leaders only."""
WITHOUT_SSH = (
    "mkdir -p /root/bin; ln -sf /usr/bin/{sh,readlink,id,mktemp,mv,cp,chmod,rm,env,printf} /root/bin; "
    "PATH=/root/bin"
)
BUSYBOX = (
    "mkdir -p /root/bin; for tool in sh timeout; do ln -sf /usr/bin/busybox /root/bin/$tool; done; "
    "PATH=/root/bin:$PATH"
)
MARK = "mark=${BASH_EXECUTION_STRING#*mark=} mark=${mark%%;*}"
# What a leader might print about workers of other groups.
FORGED = (
    f"{MARK}; for i in 0 1 2 6 7; do "
    'for l in server_id_4=f00 node_id_4=0 ok; do echo "$mark<$i $mark $l"; done; done'
)


def grouped() -> dict[str, str]:
    """Returns a variable with the script, in which more than three workers form groups."""
    result = text().replace("direct=32", "direct=3")
    assert result != text()
    return {VARIABLE: result}


def logins(fleet: Fleet, pod: str) -> list[str]:
    """Returns the addresses that logged in to a worker, in their order."""
    return re.findall(r"Accepted publickey for root from (\S+)", (fleet.folder / f"{pod}.log").read_text())


def configured(fleet: Fleet) -> None:
    """Asserts that every worker has its own values."""
    for pod in fleet.workers:
        env = fleet.environment(pod)
        assert len(env) == 5, pod
        assert env["NEURON_RT_ULTRASERVER_SERVER_ID"] == fleet.sysfs[pod]["server_id_4"]
        assert env["NEURON_RT_ULTRASERVER_NODE_ID"] == fleet.sysfs[pod]["node_id_4"]
    ranks = sorted(int(fleet.environment(pod)["NEURON_GLOBAL_TOPOID"]) for pod in fleet.workers)
    assert ranks == list(range(len(fleet.workers)))


def test_the_launcher_logs_in_to_leaders_only() -> None:
    with Fleet(8) as fleet:
        for stage in ("wait", "init"):
            done = container(fleet, stage, **grouped())
            assert not done.returncode, done.stdout
        configured(fleet)
        direct = {pod: logins(fleet, pod).count(LAUNCHER) for pod in fleet.workers}
    # The wait, two questions, and for the first one the question whether a session has the variables.
    assert direct == {pod: (3 if pod in LEADERS else 0) + (pod == LEADERS[0]) for pod in fleet.workers}


def run_with(rc: str, *pods: str) -> set[str]:
    """Runs both containers with a start-up file of the pods; returns who logged in to a member."""
    with Fleet(8) as fleet:
        for pod in pods:
            fleet.write(pod, "/root/.bashrc", f"{rc}\n")
        for stage in ("wait", "init"):
            done = container(fleet, stage, **grouped())
            assert not done.returncode, done.stdout
        configured(fleet)
        return set(logins(fleet, "demo-worker-4"))


@pytest.mark.parametrize(
    "rc",
    [
        pytest.param("rm -f /root/.ssh/id_rsa", id="without the key"),
        pytest.param(f"{ASKED}exit 9", id="dies"),
        pytest.param(f"{ASKED}yes", id="prints without end"),
        pytest.param(f"{ASKED}head -c 9999 /dev/zero", id="prints zeros"),
        pytest.param(f"rm -f /root/.ssh/id_rsa; {ASKED}{{ {FORGED}; }}", id="answers for other groups"),
    ],
)
def test_the_group_of_a_leader_that_fails_is_asked_directly(rc: str) -> None:
    assert LAUNCHER in run_with(rc, "demo-worker-3")


def test_an_image_without_ssh_is_asked_directly_by_every_question() -> None:
    assert run_with(WITHOUT_SSH, *(f"demo-worker-{number}" for number in range(8))) == {LAUNCHER}


@pytest.mark.parametrize(
    "rc",
    [
        pytest.param(BUSYBOX, id="BusyBox", marks=pytest.mark.program("busybox")),
        pytest.param("echo hi @ok; echo oh >&2; printf x", id="chatters"),
    ],
)
def test_a_leader_needs_a_plain_shell_only(rc: str) -> None:
    assert run_with(rc, "demo-worker-3") == {LEADER}


def test_a_leader_that_hangs_and_one_that_is_dead_do_not_hide_their_groups() -> None:
    with Fleet(8, late={6}) as fleet:
        fleet.write("demo-worker-3", "/root/.bashrc", f"{ASKED}sleep 600\n")
        lines, log = given_up(fleet, "7 of 8 workers answer ssh", **grouped())
    assert "missing: demo-worker-6 (demo-worker-6: ssh: connect to host demo-worker-6." in lines[-1]
    assert log[1].startswith("pod demo-worker-6: ssh: connect to host demo-worker-6.")


@pytest.mark.parametrize(
    ("dead", "liar", "line"),
    [
        pytest.param(5, 4, "$mark<5 $mark ok", id="a member, for another of its group"),
        pytest.param(0, 1, "$mark< $mark ok", id="one asked directly, for the first"),
    ],
)
def test_a_worker_that_is_not_a_leader_answers_for_itself_only(dead: int, liar: int, line: str) -> None:
    with Fleet(8, late={dead}) as fleet:
        fleet.write(f"demo-worker-{liar}", "/root/.bashrc", f'{MARK}; echo "{line}"\n')
        lines, _ = given_up(fleet, "7 of 8 workers answer ssh", **grouped())
    assert f"missing: demo-worker-{dead} (" in lines[-1]
