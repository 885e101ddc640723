"""Tests of faults of workers: the script reports all faults in one run, each with the pod and the remedy."""

import re

import pytest

from testbed.topology import SERVERS, pairs, servers, single, trn2u, with_changed_files
from tests.initscript.stages import command
from tests.plane.initscript.harness import BASE_IMAGE_SSH, Fleet
from tests.plane.initscript.run import container, errors_of, settings, wait_until_timeout

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.limit(40, "several sshd share two processors, and the script waits"),
]


def init_errors(fleet: Fleet, **variables: str) -> list[str]:
    """Runs the second container, which must fail and write no hostfile; returns its errors."""
    done = container(fleet, "init", **variables)
    assert done.returncode == 1, done
    assert not fleet.read(fleet.launcher, "/root/ultraserver_init/new_hostfile")
    assert all(len(fleet.environment(pod)) in (0, 5) for pod in fleet.workers if pod in fleet.running)
    lines = errors_of(done.stdout)
    assert all(line.startswith("ERROR: ") for line in lines)
    return [line.removeprefix("ERROR: ") for line in lines]


def test_the_script_waits_for_a_late_worker_and_names_it() -> None:
    with Fleet(4, late={2}) as fleet:
        run = fleet.spawn(command("wait"), settings(fleet))
        assert run.stdout is not None
        assert run.stdout.readline() == "Waiting at most 90 s until every worker answers ssh\n"
        while "3 of 4 workers answer ssh" not in (line := run.stdout.readline()):
            assert line
        assert "; missing: demo-worker-2 (demo-worker-2: ssh: connect to host demo-worker-2." in line
        fleet.start("demo-worker-2")
        printed, _ = run.communicate(timeout=120)
    assert printed.splitlines()[-1].startswith("All 4 workers answer ssh after ")
    assert run.returncode == 0


def test_workers_that_never_start_are_named_with_the_commands_to_find_the_cause() -> None:
    with Fleet(4, late={1, 3}) as fleet:
        _, (first_error, *details) = wait_until_timeout(fleet, "2 of 4 workers answer ssh")
    assert first_error == (
        "ERROR: 2 of 4 workers did not answer ssh within 90 s; missing: demo-worker-1 demo-worker-3"
    )
    assert details[0].startswith(
        "pod demo-worker-1: ssh: connect to host demo-worker-1.demo.default.svc port 22: "
    )
    assert details[1].startswith("pod demo-worker-3: ")
    (hint,) = [line for line in details if "kubectl describe pod -n default <pod>" in line]
    assert "FailedScheduling" in hint


def test_the_script_waits_for_workers_that_the_hostfile_does_not_list_yet() -> None:
    with Fleet(4) as fleet:
        _, log = wait_until_timeout(fleet, "4 of 6 workers answer ssh", ULTRASERVER_WORKERS="6")
        assert log[0].startswith("ERROR: 2 of 6 workers did not answer")
        assert log[0].split("missing: ")[1] == "2 not yet in /etc/mpi/hostfile"
        assert "waitSeconds" in log[-1]
        messages = init_errors(fleet, ULTRASERVER_WORKERS="6")
        assert "delete the job and apply it again with the wanted replicas" in " ".join(messages)
        fleet.write(fleet.launcher, "/etc/mpi/hostfile", "")
        assert wait_until_timeout(fleet, "0 of 0 workers answer ssh", ULTRASERVER_WORKERS="0")


def test_a_worker_that_dies_while_it_is_configured_is_named_and_no_hostfile_is_written() -> None:
    with Fleet(4) as fleet:
        # The worker kills its ssh session when the script writes the variables.
        fleet.write(
            "demo-worker-2",
            "/root/.bashrc",
            "[[ $BASH_EXECUTION_STRING == *mktemp* ]] && kill -KILL $PPID; :",
        )
        messages = init_errors(fleet)
    assert len(messages) == 2
    assert messages[0].startswith("pod demo-worker-2: its five NEURON_ variables cannot be written")


def test_an_unsuitable_mode_is_reported_with_the_node_configs_that_the_node_supports() -> None:
    topology = with_changed_files(servers(4), 1, ultraserver_mode="3,4")
    with Fleet([*topology[:3], {}]) as fleet:
        messages = init_errors(fleet)
    assert messages[0] == (
        "pod demo-worker-1 (server 9000000000000000, node 0): ultraserver_mode is 3,4, node config 4 needs "
        "1 (1=X4 2=X2H 3=X2V 4=X1): the node supports node configs 2 1; choose one of them, or have the "
        "node repaired and keep jobs off it (kubectl cordon)"
    )
    without_driver = "pod demo-worker-3 (server -, node -): ultraserver_mode is -, node config 4 needs 1"
    assert messages[1].startswith(without_driver)
    assert messages[2].startswith(
        "pod demo-worker-3: server id -, node id -: its node is not in a working Ultra"
    )
    assert messages[3:] == ["3 problem(s). Which node a pod is on: kubectl get pods -n default -o wide"]


def test_a_job_on_two_servers_fails_with_the_workers_of_each_server() -> None:
    topology = [trn2u(SERVERS[number // 2], number) for number in range(4)]
    with Fleet(topology) as fleet:
        messages = init_errors(fleet)
    text = "holds 2 of this job's workers, node config 4 needs 4:"
    assert sorted(line.split("; ")[0] for line in messages[:2]) == [
        f"server {SERVERS[1]} {text} demo-worker-2 demo-worker-3",
        f"server {SERVERS[0]} {text} demo-worker-0 demo-worker-1",
    ]


def test_the_script_waits_for_a_node_that_sets_up_its_ultraserver() -> None:
    with Fleet(
        with_changed_files(servers(4), 0, ultraserver_mode="busy", node_id_4="busy", server_id_4="0" * 16)
    ) as fleet:
        run = fleet.spawn(command("init"), settings(fleet))
        assert run.stdout is not None
        # On a busy machine, other workers may be in this line at first.
        while not re.match(r"Asking again .*: demo-worker-0$", line := run.stdout.readline()):
            assert line
        fleet.report("demo-worker-0", servers(4)[0])
        printed, _ = run.communicate(timeout=90)
        assert run.returncode == 0, printed
        assert fleet.environment("demo-worker-0")["NEURON_RT_ULTRASERVER_NODE_ID"] == "2"


def test_a_node_that_never_completes_its_ultraserver_is_named() -> None:
    with Fleet(
        with_changed_files(servers(4), 0, ultraserver_mode="busy", node_id_4="busy", server_id_4="0" * 16)
    ) as fleet:
        messages = init_errors(fleet, ULTRASERVER_WAIT_SECONDS="2")
    assert len(messages) == 2
    assert messages[0].startswith(
        "pod demo-worker-0: its node is still setting up its UltraServer (mode busy"
    )


def test_all_failures_are_reported_in_one_run() -> None:
    topology = [*servers(4), trn2u(SERVERS[0], 0), trn2u(SERVERS[0], 0)]
    topology = with_changed_files(
        with_changed_files(topology, 0, ultraserver_mode="4"), 1, server_id_4="0" * 16, node_id_4="-1"
    )
    with Fleet(topology, late={5}) as fleet:
        messages = init_errors(fleet)
    assert messages[0].startswith(
        "6 workers cannot form UltraServers of 4 nodes: make replicas a multiple of 4, or"
    )
    expected = [
        "pod demo-worker-0 (server 9000000000000000, node 2): ",
        "pod demo-worker-1: server id 0000000000000000, node id -1: its node is not in a working UltraServer",
        "pod demo-worker-5: did not answer ssh: ssh: connect to host demo-worker-5.",
    ]
    assert all(map(str.startswith, messages[1:4], expected)), messages
    assert messages[4].startswith("4 problem(s).")


def test_a_missing_hostfile_is_reported_with_its_volume() -> None:
    with Fleet(1) as fleet:
        fleet.run(["rm", "/etc/mpi/hostfile"])
        for stage in ("wait", "init"):
            done = fleet.run(command(stage), settings(fleet))
            assert "the volume mpi-job-config must be mounted at /etc/mpi" in done.stdout


def test_a_changed_host_key_is_accepted_with_each_lenient_ssh_configuration() -> None:
    with Fleet(4) as fleet:
        old_key = (fleet.folder / "demo-worker-1/host_key.pub").read_text()
        fleet.stop("demo-worker-1")
        fleet.start("demo-worker-1")
        for image in ("", BASE_IMAGE_SSH, "Host *\n  StrictHostKeyChecking no\n"):
            fleet.write(fleet.launcher, "/etc/ssh/ssh_config", image)
            fleet.write(fleet.launcher, "/root/.ssh/known_hosts", f"demo-worker-1.demo.default.svc {old_key}")
            assert not container(fleet, "wait").returncode, image
            assert not container(fleet, "init").returncode, image


def test_strict_host_key_checking_of_the_image_is_used_and_does_not_hang() -> None:
    with Fleet(2, launcher_ssh="Host *\n  StrictHostKeyChecking yes\n") as fleet:
        _, log = wait_until_timeout(fleet, "(demo-worker-0: Host key verification failed.)")
    assert "pod demo-worker-0: Host key verification failed." in log


def test_an_image_without_ssh_fails_with_the_reason() -> None:
    with Fleet(2) as fleet:
        env = settings(fleet, ULTRASERVER_WAIT_SECONDS="2", PATH="/root/bin")
        fleet.run(["bash", "-c", "mkdir /root/bin; ln -s /usr/bin/{bash,timeout,sleep} /root/bin"])
        done = fleet.run(["/bin/bash", *command("wait")[1:]], env)
    assert done.stdout.startswith("ERROR: the image lacks ssh: install coreutils and an ssh client")


def test_invalid_settings_are_reported_together_and_an_older_hostfile_is_removed() -> None:
    with Fleet(4) as fleet:
        assert not container(fleet, "init").returncode
        messages = init_errors(
            fleet,
            NEURON_ULTRASERVER_NODE_CONFIG="4 ",
            ULTRASERVER_WAIT_SECONDS="1h",
            ULTRASERVER_WORKERS="many",
        )
    names = ["NEURON_ULTRASERVER_NODE_CONFIG", "ULTRASERVER_WAIT_SECONDS", "ULTRASERVER_WORKERS", "3"]
    assert [line.split()[0] for line in messages] == names
    assert messages[0].startswith('NEURON_ULTRASERVER_NODE_CONFIG is "4 ": it must be 4, 2 or 1: correct')


def test_a_read_only_environment_file_is_reported_although_the_login_prints_text() -> None:
    topology = with_changed_files(servers(4), 1, ultraserver_mode="4")
    with Fleet(topology) as fleet:
        fleet.write("demo-worker-0", "/root/.bashrc", "echo help: ops@okta.example; echo @ok\n")
        fleet.as_root(
            ["bash", "-c", "mount --bind /etc /etc; mount -o remount,bind,ro /etc"], "demo-worker-0"
        )
        messages = init_errors(fleet)
    assert messages[0] == (
        "pod demo-worker-0: its five NEURON_ variables cannot be written to /etc/environment: Read-only file "
        "system, uid 0; give the worker a writable root (no readOnlyRootFilesystem)"
    )
    assert "ultraserver_mode is 4" in messages[1]
    assert len(messages) == 3


def test_text_of_a_failed_login_is_not_an_answer() -> None:
    with Fleet(1) as fleet:
        fleet.write("demo-worker-0", "/root/.bashrc", "echo ops@ok; printf '\\033[2J@ok\\n'; exit 7")
        lines, _ = wait_until_timeout(fleet, "0 of 1 workers answer ssh")
    assert all(line.isprintable() for line in lines), (
        "the output of a worker controls the terminal that shows the log"
    )
    with Fleet(1) as fleet:
        fleet.write("demo-worker-0", "/root/.bashrc", "exit 7")
        _, log = wait_until_timeout(fleet, "(demo-worker-0: ssh ended with code 7)")
    assert "pod demo-worker-0: ssh ended with code 7" in log


def test_a_full_file_system_leaves_the_environment_file_unchanged() -> None:
    # A small file system that is full; /etc/environment is a link to a file in it.
    fill = (
        "mount -t tmpfs -o size=8k tmpfs /home && cp /etc/environment /home/ && "
        "ln -sf /home/environment /etc/environment; head -c 4096 /dev/zero >/home/filler; :"
    )
    with Fleet(4) as fleet:
        fleet.as_root(["bash", "-c", fill], "demo-worker-1")
        messages = init_errors(fleet)
        assert fleet.read("demo-worker-1", "/etc/environment") == "LANG=C.UTF-8\n"
        assert fleet.run(["ls", "/home"], pod="demo-worker-1").stdout.split() == ["environment", "filler"]
    assert len(messages) == 2
    assert "demo-worker-1: its five" in messages[0]
    assert "No space left on device, uid 0; its file system is full" in messages[0]


def test_workers_of_one_server_without_a_common_mode_are_named() -> None:
    with Fleet(
        with_changed_files(
            with_changed_files(pairs(2), 0, ultraserver_mode="3,4"), 1, ultraserver_mode="2, 4"
        )
    ) as fleet:
        messages = init_errors(fleet, NEURON_ULTRASERVER_NODE_CONFIG="2")
    assert len(messages) == 2
    assert "no ultraserver_mode in common that node config 2 can use (3 or 2):" in messages[0]
    assert "demo-worker-0 has 3, demo-worker-1 has 2:" in messages[0]


def test_the_first_mode_that_all_workers_of_a_server_support_is_used() -> None:
    topology = with_changed_files(
        with_changed_files(pairs(2), 0, ultraserver_mode="2, 3, 4"), 1, ultraserver_mode="2 4"
    )
    with Fleet(topology) as fleet:
        done = container(fleet, "init", NEURON_ULTRASERVER_NODE_CONFIG="2")
        assert not done.returncode, done
        assert {fleet.environment(pod)["NEURON_RT_ULTRASERVER_MODE"] for pod in fleet.workers} == {"2"}


def test_an_invalid_server_id_is_refused() -> None:
    invalid_ids = ["0", "00000000", "0x0000000000000000", "null", "None", "a;b", "-", ""]
    topology = [
        {**sysfs, "server_id_4": server} for sysfs, server in zip(servers(8), invalid_ids, strict=True)
    ]
    with Fleet(topology) as fleet:
        messages = init_errors(fleet)
    assert len(messages) == 9
    assert all("is not in a working UltraServer of 4" in line for line in messages[:8])


def test_two_workers_with_equal_node_ids_are_reported_also_with_leading_zeros() -> None:
    topology = with_changed_files(with_changed_files(servers(4), 0, node_id_4="09"), 1, node_id_4="9")
    with Fleet(topology) as fleet:
        messages = init_errors(fleet)
    assert len(messages) == 2
    assert messages[0].startswith(
        "server 9000000000000000: node id 9 is claimed by demo-worker-0 demo-worker-1,"
    )


def test_a_pair_in_a_larger_reservation_on_trn3_is_refused_with_the_remedy() -> None:
    with Fleet(servers(4, "trn3")) as fleet:
        messages = init_errors(fleet, NEURON_ULTRASERVER_NODE_CONFIG="2")
    assert messages[0].endswith("; on trn3 a server is a reservation: use node config 4 or 1")


def test_a_host_that_is_listed_twice_is_refused() -> None:
    with Fleet([single()] * 2) as fleet:
        fleet.write(fleet.launcher, "/etc/mpi/hostfile", f"{fleet.fqdn('demo-worker-0')} slots=1\n" * 2)
        messages = init_errors(fleet, NEURON_ULTRASERVER_NODE_CONFIG="1")
    assert "lists demo-worker-0.demo.default.svc twice" in messages[0]


def test_an_image_without_sort_changes_no_worker() -> None:
    with Fleet(4) as fleet:
        tools = "/usr/bin/{bash,sh,ssh,timeout,sleep,mkdir,mktemp,chmod,mv,rm}"
        fleet.run(["bash", "-c", f"mkdir /root/bin; ln -s {tools} /root/bin"])
        done = fleet.run(["/bin/bash", *command("init")[1:]], settings(fleet, PATH="/root/bin"))
        assert done.stdout.startswith("ERROR: the image lacks sort: ")
        fleet.run(["bash", "-c", "ln -s /usr/bin/true /root/bin/sort"])
        done = fleet.run(["/bin/bash", *command("init")[1:]], settings(fleet, PATH="/root/bin"))
        assert errors_of(done.stdout)[0].startswith("ERROR: could not sort 4 workers")
        assert not any(fleet.environment(pod) for pod in fleet.workers)
        assert fleet.run(["ls", "-A", "/root/ultraserver_init"]).stdout == ""


def test_a_full_output_folder_changes_no_worker() -> None:
    with Fleet(4) as fleet:
        fill = (
            "mkdir /root/out; mount -t tmpfs -o size=4k tmpfs /root/out; head -c 4096 /dev/zero >/root/out/x"
        )
        fleet.as_root(["bash", "-c", fill], fleet.launcher)
        messages = init_errors(fleet, ULTRASERVER_OUTPUT_DIR="/root/out")
        assert not any(fleet.environment(pod) for pod in fleet.workers)
    assert messages[0].startswith("/root/out cannot be written by uid 0 (No space left on device): mount")
    assert len(messages) == 2


def test_a_login_that_hangs_does_not_prolong_the_wait() -> None:
    with Fleet(4) as fleet:
        fleet.write("demo-worker-2", "/root/.bashrc", "sleep 600\n")
        # The script must end within a minute after its time is over.
        lines, log = wait_until_timeout(fleet, "3 of 4 workers answer ssh after ")
    assert "missing: demo-worker-2 (demo-worker-2: no answer within " in lines[-1]
    assert any(line.startswith("pod demo-worker-2: no answer within ") for line in log)


def test_the_ssh_configuration_of_the_image_is_read_also_if_the_hostfile_is_filled_late() -> None:
    with Fleet(2, launcher_ssh="") as fleet:
        fleet.write(fleet.launcher, "/etc/mpi/hostfile", "")
        run = fleet.spawn(command("wait"), settings(fleet))
        assert run.stdout is not None
        run.stdout.readline()
        assert run.stdout.readline().endswith("; missing: 2 not yet in /etc/mpi/hostfile\n")
        fleet.write(fleet.launcher, "/etc/mpi/hostfile", fleet.hostfile)
        printed, _ = run.communicate(timeout=90)
    assert run.returncode == 0, printed
