"""Tests of large jobs: the script asks only the leader of each group, which asks the other workers.

The script forms such groups for more than 32 workers, but in these tests for more than three: of eight
workers, numbers 0, 3 and 6 are leaders. If a leader fails, the script asks the members directly.
"""

import re

import pytest

from tests.initscript.stages import VARIABLE
from tests.plane.initscript.harness import Fleet
from tests.plane.initscript.run import container, wait_until_timeout
from webhook.initscript import text

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.limit(60, "several sshd share two processors, and the script waits"),
]
LEADERS = ("demo-worker-0", "demo-worker-3", "demo-worker-6")
LAUNCHER = "10.77.0.1"
LEADER = "10.77.0.5"
ONLY_LEADER = "[[ $BASH_EXECUTION_STRING != *'for member'* ]] || "
"""The beginning of a line of .bashrc that only leaders run."""
WITHOUT_SSH = (
    "mkdir -p /root/bin; ln -sf /usr/bin/{sh,readlink,id,mktemp,mv,cp,chmod,rm,env,printf} /root/bin; "
    "PATH=/root/bin"
)
BUSYBOX = (
    "mkdir -p /root/bin; for tool in sh timeout; do ln -sf /usr/bin/busybox /root/bin/$tool; done; "
    "PATH=/root/bin:$PATH"
)
MARK = "mark=${BASH_EXECUTION_STRING#*mark=} mark=${mark%%;*}"
# A leader prints answers for the workers of other groups.
FORGED = (
    f"{MARK}; for i in 0 1 2 6 7; do "
    'for l in server_id_4=f00 node_id_4=0 ok; do echo "$mark<$i $mark $l"; done; done'
)


def grouping_script() -> dict[str, str]:
    """Returns a variable with the script, changed so that more than three workers form groups."""
    result = text().replace("direct=32", "direct=3")
    assert result != text()
    return {VARIABLE: result}


def logins(fleet: Fleet, pod: str) -> list[str]:
    """Returns the addresses of the logins to a worker, in the order of the logins."""
    return re.findall(r"Accepted publickey for root from (\S+)", (fleet.folder / f"{pod}.log").read_text())


def assert_configured(fleet: Fleet) -> None:
    """Asserts that the variables of each worker fit its node."""
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
            done = container(fleet, stage, **grouping_script())
            assert not done.returncode, done.stdout
        assert_configured(fleet)
        launcher_logins = {pod: logins(fleet, pod).count(LAUNCHER) for pod in fleet.workers}
    # The first container asks once, the second twice. In the first worker, the second container also checks
    # that a session has the variables.
    assert launcher_logins == {
        pod: (3 if pod in LEADERS else 0) + (pod == LEADERS[0]) for pod in fleet.workers
    }


def run_with_bashrc(bashrc: str, *pods: str) -> set[str]:
    """Runs both containers with a .bashrc of the pods; returns the addresses that logged in to worker 4."""
    with Fleet(8) as fleet:
        for pod in pods:
            fleet.write(pod, "/root/.bashrc", f"{bashrc}\n")
        for stage in ("wait", "init"):
            done = container(fleet, stage, **grouping_script())
            assert not done.returncode, done.stdout
        assert_configured(fleet)
        return set(logins(fleet, "demo-worker-4"))


@pytest.mark.parametrize(
    "bashrc",
    [
        pytest.param("rm -f /root/.ssh/id_rsa", id="without the key"),
        pytest.param(f"{ONLY_LEADER}exit 9", id="dies"),
        pytest.param(f"{ONLY_LEADER}yes", id="prints without end"),
        pytest.param(f"{ONLY_LEADER}head -c 9999 /dev/zero", id="prints zeros"),
        pytest.param(f"rm -f /root/.ssh/id_rsa; {ONLY_LEADER}{{ {FORGED}; }}", id="answers for other groups"),
    ],
)
def test_the_launcher_logs_in_to_the_members_of_a_leader_that_fails(bashrc: str) -> None:
    assert LAUNCHER in run_with_bashrc(bashrc, "demo-worker-3")


def test_the_launcher_logs_in_to_all_workers_if_their_image_lacks_ssh() -> None:
    assert run_with_bashrc(WITHOUT_SSH, *(f"demo-worker-{number}" for number in range(8))) == {LAUNCHER}


@pytest.mark.parametrize(
    "bashrc",
    [
        pytest.param(BUSYBOX, id="BusyBox", marks=pytest.mark.program("busybox")),
        pytest.param("echo hi @ok; echo oh >&2; printf x", id="chatters"),
    ],
)
def test_a_leader_needs_only_a_plain_shell(bashrc: str) -> None:
    assert run_with_bashrc(bashrc, "demo-worker-3") == {LEADER}


def test_a_leader_that_hangs_and_a_dead_leader_do_not_hide_their_groups() -> None:
    with Fleet(8, late={6}) as fleet:
        fleet.write("demo-worker-3", "/root/.bashrc", f"{ONLY_LEADER}sleep 600\n")
        lines, log = wait_until_timeout(fleet, "7 of 8 workers answer ssh", **grouping_script())
    assert "missing: demo-worker-6 (demo-worker-6: ssh: connect to host demo-worker-6." in lines[-1]
    assert log[1].startswith("pod demo-worker-6: ssh: connect to host demo-worker-6.")


@pytest.mark.parametrize(
    ("dead", "forger", "line"),
    [
        pytest.param(5, 4, "$mark<5 $mark ok", id="a member for another member"),
        pytest.param(0, 1, "$mark< $mark ok", id="a worker that is asked directly for worker 0"),
    ],
)
def test_a_worker_that_is_not_a_leader_answers_for_itself_only(dead: int, forger: int, line: str) -> None:
    with Fleet(8, late={dead}) as fleet:
        fleet.write(f"demo-worker-{forger}", "/root/.bashrc", f'{MARK}; echo "{line}"\n')
        lines, _ = wait_until_timeout(fleet, "7 of 8 workers answer ssh", **grouping_script())
    assert f"missing: demo-worker-{dead} (" in lines[-1]
