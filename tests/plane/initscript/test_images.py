"""Tests of images that differ from AWS's document, and of jobs whose launcher runs ranks."""

import pytest

from testbed.topology import servers
from tests.plane.initscript.harness import BASE_IMAGE_SSH, Fleet
from tests.plane.initscript.run import OUT, container, errors_of, mpirun

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.limit(40, "several sshd share two processors, and the script waits"),
]
PORT_CONFIG = f"{BASE_IMAGE_SSH}  Port 2222\n"
HOME_OUT = "/home/mpiuser/ultraserver_init"
# The options of sshd without root in mpi-operator's base image.
ROOTLESS = ("-p", "2222", "-o", "UsePAM=no")


def test_a_worker_that_may_not_write_etc_environment_fails_with_the_remedy() -> None:
    with Fleet(4, uid=2000, launcher_ssh=PORT_CONFIG, sshd=ROOTLESS) as fleet:
        assert not container(fleet, "wait").returncode
        done = container(fleet, "init", ULTRASERVER_OUTPUT_DIR=HOME_OUT)
    assert done.returncode == 1
    lines = errors_of(done.stdout)
    assert len(lines) == 5
    for number, line in enumerate(lines[:4]):
        assert line == (
            f"ERROR: pod demo-worker-{number}: its five NEURON_ variables cannot be written to "
            "/etc/environment: Permission denied, uid 2000; run the worker as root, or give its "
            "user that file in the image"
        )


def test_with_node_config_1_a_worker_that_may_not_write_causes_only_a_warning() -> None:
    """Jobs with node config 1 must not fail because of variables that their ranks do not need."""
    with Fleet(2, uid=2000, launcher_ssh=PORT_CONFIG, sshd=ROOTLESS) as fleet:
        fleet.as_root(["chmod", "666", "/etc/environment"], "demo-worker-1")
        assert not container(fleet, "wait").returncode
        done = container(fleet, "init", NEURON_ULTRASERVER_NODE_CONFIG="1", ULTRASERVER_OUTPUT_DIR=HOME_OUT)
        assert not done.returncode, done.stdout
        assert len(fleet.environment("demo-worker-1")) == 5
    warnings = [line for line in done.stdout.splitlines() if line.startswith("WARNING: pod")]
    assert len(warnings) == 1
    assert warnings[0].startswith("WARNING: pod demo-worker-0: its five NEURON_ variables cannot be written")
    assert "Updated hostfile" in done.stdout
    assert "ERROR" not in done.stdout


def test_etc_environment_is_written_in_place_and_an_sshd_that_ignores_it_is_reported() -> None:
    with Fleet(4, uid=2000, launcher_ssh=PORT_CONFIG, sshd=ROOTLESS) as fleet:
        for pod in fleet.workers:
            fleet.as_root(["chmod", "666", "/etc/environment"], pod)
        done = container(fleet, "init", ULTRASERVER_OUTPUT_DIR=HOME_OUT)
        assert not done.returncode, done.stdout
        assert all(len(fleet.environment(pod)) == 5 for pod in fleet.workers)
    assert (
        "WARNING: /etc/environment is written, but an ssh session on demo-worker-0 does not see it."
        in done.stdout
    )
    assert 'Its sshd needs "UsePAM yes"' in done.stdout


def test_an_output_folder_that_cannot_be_written_is_reported() -> None:
    with Fleet(4, uid=2000, launcher_ssh=PORT_CONFIG, sshd=ROOTLESS) as fleet:
        done = container(fleet, "init", ULTRASERVER_OUTPUT_DIR="/proc/none")
    assert (
        "ERROR: /proc/none cannot be written by uid 2000 (No such file or directory): "
        "mount the volume ultraserver-init there" in done.stdout
    )


def test_the_script_runs_with_read_only_root_and_tmp_folders() -> None:
    with Fleet(4) as fleet:
        fleet.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", "/home"])
        fleet.run(["bash", "-c", "mount -o remount,ro /tmp; mount -o remount,bind,ro /root"])
        assert fleet.run(["mktemp"]).returncode
        assert not container(fleet, "wait").returncode
        done = container(fleet, "init", ULTRASERVER_OUTPUT_DIR="/home/out")
        assert not done.returncode, done.stdout


def test_a_login_that_prints_other_text_is_understood() -> None:
    with Fleet(4) as fleet:
        fleet.write(
            "demo-worker-0", "/root/.bashrc", "echo @node_id; echo welcome to @home; echo oh no >&2\n"
        )
        fleet.write("demo-worker-1", "/root/.bashrc", "printf hello; printf oh-no >&2\n")
        # ssh transports standard error separately, so this text comes before or between lines of the answer.
        fleet.write("demo-worker-2", "/root/.bashrc", "for i in {1..9999}; do printf x; done >&2 &\n")
        assert not container(fleet, "wait").returncode
        done = container(fleet, "init")
        assert not done.returncode, done
        assert fleet.environment("demo-worker-0")["NEURON_GLOBAL_TOPOID"] == "2"


def test_an_interrupted_session_is_retried_also_after_a_long_first_round() -> None:
    fail_once = (
        "[[ $BASH_EXECUTION_STRING != *{}* || -e /root/tried ]] || {{ touch /root/tried; {}exit 255; }}\n"
    )
    with Fleet(4) as fleet:
        fleet.write("demo-worker-1", "/root/.bashrc", fail_once.format("ultraserver_mode", "sleep 16; "))
        fleet.write("demo-worker-2", "/root/.bashrc", fail_once.format("mktemp", ""))
        done = container(fleet, "init")
        assert not done.returncode, done
        assert "Asking again" in done.stdout
        assert fleet.environment("demo-worker-2")["NEURON_GLOBAL_TOPOID"]


def test_a_launcher_that_runs_ranks_is_counted_and_gets_a_file_to_source() -> None:
    with Fleet(4, launcher_is_worker=True) as fleet:
        assert not container(fleet, "wait").returncode
        done = container(fleet, "init")
        assert not done.returncode, done
        variables = fleet.run(["bash", "-c", f". {OUT}/launcher.env; env | grep ^NEURON | sort"]).stdout
        hostfile = fleet.read(fleet.launcher, f"{OUT}/new_hostfile")
    assert f"The launcher runs ranks too: its command must source {OUT}/launcher.env" in done.stdout
    assert variables.splitlines() == [
        "NEURON_GLOBAL_TOPOID0_HOST=demo-worker-0.demo.default.svc",
        "NEURON_GLOBAL_TOPOID=2",
        "NEURON_RT_ULTRASERVER_MODE=1",
        "NEURON_RT_ULTRASERVER_NODE_ID=2",
        "NEURON_RT_ULTRASERVER_SERVER_ID=9000000000000000",
    ]
    order = ["demo-worker-0", "demo-worker-2", "demo-launcher", "demo-worker-1"]
    assert hostfile == "".join(f"{pod}.demo.default.svc slots=1\n" for pod in order)


def test_a_launcher_on_the_host_network_is_recognized_by_its_place_in_the_hostfile() -> None:
    with Fleet(4, launcher_is_worker=True) as fleet:
        done = container(fleet, "wait", HOSTNAME="ip-10-0-0-1")
    assert done.stdout.splitlines()[-1].startswith("All 3 workers answer ssh")


def test_a_hostfile_on_the_command_line_overrides_the_variable() -> None:
    with Fleet(servers(4)) as fleet:
        assert not container(fleet, "init").returncode
        fleet.write(fleet.launcher, "/root/mine", f"{fleet.fqdn('demo-worker-0')} slots=1\n")
        env = {"OMPI_MCA_orte_default_hostfile": f"{OUT}/new_hostfile"}
        assert [rank["HOST"] for rank in mpirun(fleet, env, "--hostfile", "/root/mine")] == ["demo-worker-0"]
        assert len(mpirun(fleet, env)) == 4
