"""Tests of the script without faults: sshd runs in the workers, and mpirun runs the job."""

import re
import time

import pytest

from testbed.topology import Sysfs, pairs, servers, single, trn3
from testbed.waiting import until
from tests.initscript.stages import command
from tests.plane.initscript.harness import BASE_IMAGE_SSH, Fleet
from tests.plane.initscript.run import OUT, container, hydra, mpirun, settings

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.limit(40, "several sshd share two processors, and the script waits"),
]


def test_mpirun_runs_in_topology_order_and_every_rank_sees_its_variables() -> None:
    with Fleet(8, slots=2) as fleet:
        assert container(fleet, "wait").stdout.splitlines()[-1].startswith("All 8 workers answer ssh after ")
        done = container(fleet, "init")
        assert done.stdout.startswith("Using 4-node config\n"), done
        ranks = mpirun(fleet, {"OMPI_MCA_orte_default_hostfile": f"{OUT}/new_hostfile"})
        topology_order = sorted(
            fleet.sysfs, key=lambda pod: (fleet.sysfs[pod]["server_id_4"], fleet.sysfs[pod]["node_id_4"])
        )
        assert [rank["HOST"] for rank in ranks] == [pod for pod in topology_order for _ in range(2)]
        for number, rank in enumerate(ranks):
            sysfs = fleet.sysfs[rank.pop("HOST")]
            assert rank == {
                "NEURON_GLOBAL_TOPOID": str(number // 2),
                "NEURON_GLOBAL_TOPOID0_HOST": fleet.fqdn(topology_order[0]),
                "NEURON_RT_ULTRASERVER_MODE": "1",
                "NEURON_RT_ULTRASERVER_SERVER_ID": sysfs["server_id_4"],
                "NEURON_RT_ULTRASERVER_NODE_ID": sysfs["node_id_4"],
            }
        assert fleet.read(fleet.launcher, f"{OUT}/new_hostfile") == "".join(
            f"{fleet.fqdn(pod)} slots=2\n" for pod in topology_order
        )


def test_the_output_has_the_tables_of_awss_script() -> None:
    with Fleet(4) as fleet:
        lines = [re.sub(" +", " ", line) for line in container(fleet, "init").stdout.splitlines()]
    assert lines[:4] == [
        "Using 4-node config",
        "",
        "Number of worker nodes: 4",
        "MODES SERVER_ID NODE_ID FQDN",
    ]
    assert "1,3,4 9000000000000000 2 demo-worker-0.demo.default.svc" in lines
    sorted_nodes = lines.index("Sorted nodes:")
    assert lines[sorted_nodes + 1 : sorted_nodes + 3] == [
        "TOPO_ID SERVER_ID NODE_ID MODE FQDN",
        "0 9000000000000000 0 1 demo-worker-1.demo.default.svc",
    ]
    assert "NEURON_GLOBAL_TOPOID0 node will be: demo-worker-1.demo.default.svc" in lines
    assert lines[-4:] == [f"demo-worker-{number}.demo.default.svc slots=1" for number in (1, 3, 0, 2)]


def test_the_new_hostfile_keeps_the_format_of_intel_mpi_and_mpich() -> None:
    with Fleet(4, style="hydra", slots=32) as fleet:
        assert not container(fleet, "init").returncode
        new_hostfile = fleet.read(fleet.launcher, f"{OUT}/new_hostfile")
    assert new_hostfile.splitlines() == [
        f"demo-worker-{number}.demo.default.svc:32" for number in (1, 3, 0, 2)
    ]


@pytest.mark.program("mpiexec.hydra")
def test_mpich_runs_in_topology_order_and_every_rank_sees_its_variables() -> None:
    with Fleet(4, style="hydra", slots=2) as fleet:
        assert not container(fleet, "init").returncode
        ranks = hydra(fleet, 8, f"{OUT}/new_hostfile")
    assert [rank["HOST"][-1] for rank in ranks] == list("11330022")
    assert [rank["NEURON_GLOBAL_TOPOID"] for rank in ranks] == list("00112233")


@pytest.mark.parametrize(
    ("config", "topology", "expected"),
    [
        ("4", servers(4, "trn3"), [("1", "9000000000000000", str(node)) for node in (2, 0, 3, 1)]),
        (
            "2",
            servers(4),
            [("3", f"{0x9000000000000000 - node // 2:016x}", str(node % 2)) for node in (2, 0, 3, 1)],
        ),
        (
            "2",
            [trn3(name, node) for node in (1, 0) for name in ("r2", "r1")],
            [("3", name, node) for node in "10" for name in ("r2", "r1")],
        ),
        ("2", pairs(2), [("2", "1f2e3d4c5b6a7988", "1"), ("2", "1f2e3d4c5b6a7988", "0")]),
        ("1", [single()], [("4", "0000000000000000", "-1")]),
        ("1", servers(3), [("4", "0000000000000000", "-1")] * 3),
        ("1", [{}], [("4", "0000000000000000", "-1")]),
    ],
    ids=[
        "trn3",
        "two of four",
        "two pairs on trn3",
        "pair over the other links",
        "single",
        "three singles",
        "no UltraServer driver",
    ],
)
def test_each_node_config_gets_its_mode_and_ids(
    config: str, topology: list[Sysfs], expected: list[tuple[str, str, str]]
) -> None:
    with Fleet(topology) as fleet:
        done = container(fleet, "init", NEURON_ULTRASERVER_NODE_CONFIG=config)
        assert not done.returncode, done
        names = ("MODE", "SERVER_ID", "NODE_ID")
        environments = [fleet.environment(pod) for pod in fleet.workers]
    assert [tuple(env[f"NEURON_RT_ULTRASERVER_{name}"] for name in names) for env in environments] == expected
    assert sorted(int(env["NEURON_GLOBAL_TOPOID"]) for env in environments) == list(range(len(expected)))


@pytest.mark.parametrize(
    "annotations",
    [
        {"OMPI_MCA_plm_rsh_args": "-p 2222"},
        {"PRTE_MCA_plm_ssh_args": "-F /root/other"},
        {"HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=2 -p 2222"},
        {"OMPI_MCA_plm_rsh_agent": "ssh -p 2222 : rsh"},
        {"I_MPI_HYDRA_BOOTSTRAP_EXEC": "/root/wrapper"},
    ],
)
def test_workers_are_reached_by_the_port_and_the_program_that_mpirun_uses(
    annotations: dict[str, str],
) -> None:
    with Fleet(4, sshd=["-p", "2222"]) as fleet:
        fleet.write(fleet.launcher, "/root/other", f"Port 2222\n{BASE_IMAGE_SSH}")
        fleet.write(fleet.launcher, "/root/wrapper", '#!/bin/sh\nexec ssh -p 2222 "$@"\n')
        fleet.as_root(["chmod", "755", "/root/wrapper"], fleet.launcher)
        for stage in ("wait", "init"):
            done = container(fleet, stage, **annotations)
            assert not done.returncode, done.stdout
        assert mpirun(fleet, {"OMPI_MCA_plm_rsh_args": "-p 2222"})


@pytest.mark.parametrize(
    ("image", "exchange"),
    [
        ("", "curve25519-sha256"),
        ("  KexAlgorithms ecdh-sha2-nistp384,ecdh-sha2-nistp256\n", "ecdh-sha2-nistp384"),
    ],
)
def test_logins_use_a_cheap_key_exchange_unless_the_image_excludes_it(image: str, exchange: str) -> None:
    with Fleet(1, launcher_ssh=BASE_IMAGE_SSH + image, sshd=["-o", "LogLevel=DEBUG1"]) as fleet:
        assert not container(fleet, "wait").returncode
        log = (fleet.folder / "demo-worker-0.log").read_text()
    assert re.findall(r"kex: algorithm: (\S+)", log) == [exchange]


def test_the_node_config_is_four_unless_set() -> None:
    with Fleet(1) as fleet:
        env = settings(fleet, NEURON_ULTRASERVER_NODE_CONFIG="")
        assert fleet.run(command("init"), env).stdout.startswith("Using 4-node config\n")
        del env["NEURON_ULTRASERVER_NODE_CONFIG"]
        assert fleet.run(command("init"), env).stdout.startswith("Using 4-node config\n")


def test_other_lines_of_etc_environment_stay_and_older_values_are_replaced() -> None:
    before = (
        "LANG=C.UTF-8\n# NEURON_GLOBAL_TOPOID=a comment\nexport NEURON_RT_ULTRASERVER_MODE=9\n"
        'A="b \\ $c"\nNEURON_GLOBAL_TOPOID=7'
    )
    with Fleet(4) as fleet:
        fleet.write("demo-worker-1", "/etc/environment", before)
        fleet.run(["chmod", "640", "/etc/environment"], pod="demo-worker-1")
        fleet.run(["rm", "/etc/environment"], pod="demo-worker-2")
        assert not container(fleet, "init").returncode
        kept_text, *new_texts = fleet.read("demo-worker-1", "/etc/environment").split(
            "NEURON_GLOBAL_TOPOID=0\n"
        )
        mode = fleet.run(["stat", "-c", "%a", "/etc/environment"], pod="demo-worker-1").stdout
        assert fleet.environment("demo-worker-2")["NEURON_GLOBAL_TOPOID"] == "3"
    assert kept_text == 'LANG=C.UTF-8\n# NEURON_GLOBAL_TOPOID=a comment\nA="b \\ $c"\n'
    assert len(new_texts) == 1
    assert mode == "640\n"


def test_a_second_run_changes_nothing() -> None:
    with Fleet(4) as fleet:
        first = container(fleet, "init").stdout
        stamp = ["stat", "-c", "%i %Y", "/etc/environment"]
        files = [fleet.run(stamp, pod=pod).stdout for pod in fleet.workers]
        assert container(fleet, "init").stdout == first
        assert [fleet.run(stamp, pod=pod).stdout for pod in fleet.workers] == files
        assert all(len(fleet.environment(pod)) == 5 for pod in fleet.workers)


def temporary_files(fleet: Fleet, pod: str) -> str:
    """Returns the temporary files in the folder of a pod's /etc/environment."""
    return fleet.run(["bash", "-c", "ls /etc/environment.?????? 2>/dev/null"], pod=pod).stdout


@pytest.mark.parametrize(
    "pauses", [(0.4,), pytest.param((0.0, 0.4, 0.8, 1.2), marks=pytest.mark.soak)], ids=["once", "often"]
)
def test_a_run_killed_at_any_moment_leaves_whole_files_and_can_be_repeated(pauses: tuple[float, ...]) -> None:
    # Half of the workers rename the temporary file at once. In the others, this waits for the file /root/go.
    # The logins that write the variables have different delays.
    install_waiting_mv = (
        "mkdir -p /root/bin; printf '#!/bin/sh\nuntil [ -e /root/go ]; do sleep 0.1; done\n"
        'exec /bin/mv "$@"\n\' >/root/bin/mv; chmod +x /root/bin/mv'
    )
    with Fleet(4) as fleet:
        for number, pod in enumerate(fleet.workers):
            fleet.run(["bash", "-c", install_waiting_mv], pod=pod)
            delay = f"[[ $BASH_EXECUTION_STRING != *mktemp* ]] || sleep 0.{3 * number}"
            fleet.write(pod, "/root/.bashrc", f"{delay}\nPATH=/root/bin:$PATH\n")
            if number % 2:
                fleet.write(pod, "/root/go", "")
        for pause in pauses:
            for pod in fleet.workers:
                fleet.write(pod, "/etc/environment", "LANG=C.UTF-8\n")
            fleet.run(["rm", "-f", "/root/go"], pod=fleet.workers[0])
            fleet.run(["rm", "-f", "/root/go"], pod=fleet.workers[2])
            run = fleet.spawn(command("init"), settings(fleet))
            assert run.stdout is not None
            while run.stdout.readline() != "Sorted nodes:\n":
                assert run.poll() is None
            time.sleep(pause)  # noqa: TID251 - to kill at any moment
            fleet.run(["bash", "-c", "kill -KILL $(pgrep -f ultraserver-init)"])
            run.communicate(timeout=90)
            assert run.returncode
            assert all(len(fleet.environment(pod)) in (0, 5) for pod in fleet.workers)
            assert not fleet.read(fleet.launcher, f"{OUT}/new_hostfile")
            for pod in fleet.workers:
                fleet.write(pod, "/root/go", "")
            until(
                lambda: not any(temporary_files(fleet, pod) for pod in fleet.workers),
                "the end of temporary files",
            )
            assert all(len(fleet.environment(pod)) in (0, 5) for pod in fleet.workers)
        assert not container(fleet, "init").returncode
        assert len(mpirun(fleet)) == 4


def test_concurrent_runs_on_the_same_workers_leave_whole_files() -> None:
    with Fleet(4) as fleet:
        # Node configs 4 and 1 write different values of mode and ids.
        runs = [
            fleet.spawn(command("init"), settings(fleet, NEURON_ULTRASERVER_NODE_CONFIG=config))
            for config in ("4", "1", "4")
        ]
        for run in runs:
            run.communicate(timeout=120)
            assert not run.returncode
        for pod in fleet.workers:
            env = fleet.environment(pod)
            assert len(env) == 5
            is_config_4 = env["NEURON_RT_ULTRASERVER_MODE"] == "1"
            assert (env["NEURON_RT_ULTRASERVER_NODE_ID"] != "-1") == is_config_4
            assert (env["NEURON_RT_ULTRASERVER_SERVER_ID"] != "0" * 16) == is_config_4
            leader = fleet.fqdn("demo-worker-1" if is_config_4 else "demo-worker-0")
            assert env["NEURON_GLOBAL_TOPOID0_HOST"] == leader
            assert not temporary_files(fleet, pod)


def test_the_script_ends_on_sigterm_as_process_1() -> None:
    # A shell that is process 1 ignores signals without a handler, until the grace period of the kubelet ends.
    send_sigterm = (
        'unshare --pid --fork --mount-proc "$@" & until [[ -e /root/end ]]; do sleep 0.1; done; '
        "kill $(cat /proc/$!/task/$!/children); wait $!"
    )
    with Fleet(4, late={0}) as fleet:
        run = fleet.spawn(["bash", "-c", send_sigterm, "ending", *command("wait")], settings(fleet))
        assert run.stdout is not None
        while not (line := run.stdout.readline()).startswith("Waiting at most "):
            assert line
        fleet.write(fleet.launcher, "/root/end", "")
        printed, _ = run.communicate(timeout=90)
    assert run.returncode == 143, printed
