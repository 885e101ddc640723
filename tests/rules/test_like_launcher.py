"""The launcher's own container: the host file reaches it, and init containers run like it."""

from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import requested
from tests.rules.tables import extended, outcome, parsed
from webhook.engine import Outcome, update
from webhook.engine.ssh import LONGEST_COMMAND
from webhook.objects.tree import get, get_maps, put
from webhook.rules.load import load_default

FIELD = Path(__file__).parents[1] / "data" / "field"
TABLE = load_default()
HOSTFILE = "/root/ultraserver_init/new_hostfile"
LAUNCHER_POD = parsed((FIELD / "01-mesh-first-container.yaml").read_text(encoding="utf-8"))


def inits(result: Outcome) -> list[Any]:
    assert not result.denials
    return list(get(result.after, (*LAUNCHER, "spec", "initContainers")))


def mounts_and_variables(pod: Any) -> dict[str, tuple[bool, bool]]:
    """Returns by container whether it mounts the host file's volume, and whether a variable points there."""
    return {
        each["name"]: (
            any(item["name"] == "ultraserver-init" for item in get_maps(each, ("volumeMounts",))),
            any(item.get("value") == HOSTFILE for item in get_maps(each, ("env",))),
        )
        for each in pod["spec"]["containers"]
    }


PROXY, MAIN = LAUNCHER_POD["spec"]["containers"]


@pytest.mark.parametrize("order", [[PROXY, MAIN], [MAIN, PROXY], [MAIN]], ids=["first", "last", "none"])
@pytest.mark.parametrize("later", [[PROXY, MAIN], [MAIN, PROXY]], ids=["first", "last"])
def test_mount_and_variables_are_in_the_operators_container_in_any_order(order: Any, later: Any) -> None:
    """Another webhook may put a proxy before it, or reorder, between two rounds."""
    first = outcome(TABLE, put(LAUNCHER_POD, ("spec", "containers"), order)).after
    ours = next(each for each in first["spec"]["containers"] if each["name"] == "mpitest")
    moved = [ours if each is MAIN else each for each in later]
    again = outcome(TABLE, put(first, ("spec", "containers"), moved)).after
    assert mounts_and_variables(again) == {"istio-proxy": (False, False), "mpitest": (True, True)}


def test_without_the_mount_the_variables_are_as_the_operator_wrote_them() -> None:
    """Between two rounds another webhook takes the volume away, or mounts its own there."""
    first = outcome(TABLE, LAUNCHER_POD).after
    volumes = [one for one in first["spec"]["volumes"] if one["name"] != "ultraserver-init"]
    again = outcome(TABLE, put(first, ("spec", "volumes"), volumes)).after
    assert again["spec"]["containers"] == LAUNCHER_POD["spec"]["containers"]


@pytest.mark.parametrize(
    "sign",
    [{"env": [{"name": "K_MPI_JOB_ROLE", "value": "launcher"}]}, {"volumeMounts": MAIN["volumeMounts"]}],
)
def test_one_sign_of_the_operator_is_enough(sign: Any) -> None:
    main = {"name": "mpitest", "image": "i", **sign}
    pod = outcome(TABLE, put(LAUNCHER_POD, ("spec", "containers"), [PROXY, main])).after
    assert mounts_and_variables(pod) == {"istio-proxy": (False, False), "mpitest": (True, True)}


@pytest.mark.parametrize(
    "part", [{"limits": {"aws.amazon.com/neuron": 16}}, {"claims": [{"name": "neurons"}]}]
)
def test_of_other_kinds_the_container_with_the_devices_is_the_one(part: Any) -> None:
    row = "match: {role: worker}, add: {spec: {containers: [{name: $(worker.container), tty: true}]}}"
    table = extended(f"rules: [{{name: x, reason: r, {row}}}]")
    containers = [{"name": "proxy", "image": "p"}, {"name": "main", "image": "i", "resources": part}]
    claims = [{"name": "neurons", "resourceClaimTemplateName": "us-1-node-config"}]
    template = {"spec": {"containers": containers, "resourceClaims": claims if "claims" in part else []}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "x"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }
    spec = get(outcome(table, job).after, ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"))
    assert [each.get("tty") for each in spec["containers"]] == [None, True]


@pytest.mark.parametrize("home", ["/root", "/home/mpiuser", ""])
def test_both_paths_are_one_volume_in_the_init_container_and_in_the_launchers_own(home: str) -> None:
    job = put(mpijob(4), ("spec", "sshAuthMountPath"), f"{home}/.ssh")
    result = outcome(TABLE, job)
    pod = put(
        LAUNCHER_POD, ("metadata", "annotations"), get(result.after, (*LAUNCHER, "metadata", "annotations"))
    )
    main = outcome(TABLE, pod).after["spec"]["containers"][1]
    for container in (inits(result)[1], main):
        mounts = [
            each["mountPath"] for each in container["volumeMounts"] if each["name"] == "ultraserver-init"
        ]
        assert mounts == [f"{home or '/root'}/ultraserver_init", "/ultraserver_init"]


@pytest.mark.parametrize("path", ["/root/ultraserver_init", "/ultraserver_init"])
def test_awss_yaml_of_both_dates_is_unchanged(path: str) -> None:
    own = [
        {"mountPath": "/etc/mpi", "name": "mpi-job-config"},
        {"mountPath": "/root/.ssh", "name": "ssh-auth"},
    ]
    wait = {
        "name": "wait-hostfilename",
        "image": "i",
        "command": ["bash", "-cx", "true"],
        "volumeMounts": own,
    }
    init = {"name": "ultraserver-init-container", "image": "j"}
    init["volumeMounts"] = [*own, {"mountPath": path, "name": "ultraserver-init"}]
    spec = {"initContainers": [wait, init], "volumes": [{"name": "ultraserver-init", "emptyDir": {}}]}
    found = outcome(TABLE, mpijob(4, launcher_spec=spec))
    assert {key: get(found.after, (*LAUNCHER, "spec", key)) for key in spec} == spec
    assert [text[: len("kept your value: ")] for text in found.warnings] == ["kept your value: "] * 2
    annotations = get(found.after, (*LAUNCHER, "metadata", "annotations"))
    pod = outcome(TABLE, put(LAUNCHER_POD, ("metadata", "annotations"), annotations)).after
    main = pod["spec"]["containers"][1]
    assert main["env"] == MAIN["env"]
    mounts = [each["mountPath"] for each in main["volumeMounts"] if each["name"] == "ultraserver-init"]
    assert mounts == ["/root/ultraserver_init", "/ultraserver_init"]


def launched(**container: Any) -> Outcome:
    return outcome(TABLE, mpijob(2, launcher_spec={"containers": [{"name": "l", "image": "i", **container}]}))


@pytest.mark.parametrize("policy", ["Always", "Never", None])
def test_the_pull_policy_is_the_launchers(policy: str | None) -> None:
    result = launched(**({"imagePullPolicy": policy} if policy else {}))
    assert [each.get("imagePullPolicy") for each in inits(result)] == [policy, policy]


RSH, INTEL = "OMPI_MCA_plm_rsh_args", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"


def args(text: str) -> dict[str, str]:
    return {RSH: text}


PORT, P = args("-p 2222"), {"name": "P", "value": "7"}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"args": ["-mca", "plm_rsh_args", "-p 2222", "hostname"]}, PORT),
        ({"args": ["--mca", "plm_rsh_args", "-p 2222"]}, PORT),
        ({"args": ["--prtemca", "plm_ssh_args", "-p 2222"]}, PORT),
        ({"args": ["--mca", "plm_rsh_args", "-F /etc/ssh_config"]}, args("-F /etc/ssh_config")),
        ({"command": ["sh", "-c", 'mpirun --mca plm_rsh_args "-p 2222" \\\n hostname']}, PORT),
        ({"command": ["bash", "-c", "export OMPI_MCA_plm_rsh_args='-p 2222'\nmpirun hostname"]}, PORT),
        ({"args": ["-c", 'mpirun --mca plm_rsh_args "-p 2222" x > /dev/null && ssh y']}, PORT),
        ({"command": ["mpirun", "-launcher-exec", "/opt/ssh"]}, {"HYDRA_LAUNCHER_EXEC": "/opt/ssh"}),
        ({"command": ["mpirun", "--bootstrap-exec-args=-p 7"]}, {INTEL: "-p 7"}),
        ({"env": [{"name": INTEL, "value": "-p 7"}]}, {INTEL: "-p 7"}),
        ({"env": [{"name": RSH, "value": "-p 1"}], "args": ["-mca", "plm_rsh_args", "-p 2222"]}, PORT),
        ({"env": [P], "args": ["-mca", "plm_rsh_args", "-p $(P)"]}, {"P": "7", **args("-p $(P)")}),
    ],
)  # fmt: skip
def test_the_init_containers_have_the_options_of_mpirun(container: Any, expected: dict[str, str]) -> None:
    result = launched(**container)
    for each in inits(result):
        variables = {one["name"]: one.get("value") for one in each["env"]}
        assert {**variables, **expected} == variables
    assert not result.warnings


def test_they_have_other_sources_of_variables_and_a_mounted_configuration() -> None:
    source = [{"configMapRef": {"name": "mpi"}}]
    mounts = [
        {"mountPath": "/root/.ssh/config", "name": "ssh", "subPath": "config"},
        {"mountPath": "/etc/mpi", "name": "mine"},
    ]
    for each in inits(launched(envFrom=source, volumeMounts=mounts)):
        assert each["envFrom"] == source
        assert mounts[0] in each["volumeMounts"]
        paths = [one["mountPath"] for one in each["volumeMounts"]]
        assert len({*paths}) == len(paths)
        assert {"mountPath": "/etc/mpi", "name": "mpi-job-config"} in each["volumeMounts"]


@pytest.mark.parametrize(
    "container",
    [
        {},
        {
            "env": [{"name": "DATA", "value": "s3://x"}],
            "volumeMounts": [{"mountPath": "/data", "name": "data"}],
        },
        {"command": ["sh", "-c", "service ssh start; mpirun hostname"]},
    ],
)
def test_a_launcher_without_ssh_settings_adds_nothing(container: Any) -> None:
    assert inits(launched(**container)) == inits(launched())


@pytest.mark.parametrize(
    "text",
    [
        'mpirun --mca plm_rsh_args "-p $SSH_PORT" hostname',
        "mpirun --mca plm_rsh_args '-p 2222 hostname",
        "echo Port 2222 >> ~/.ssh/config; mpirun hostname",
        "mpirun --mca plm_rsh_args -p2222 hostname" + " " * LONGEST_COMMAND,
    ],
)
def test_what_cannot_be_read_of_a_command_is_a_warning(text: str) -> None:
    (warning,) = launched(command=["sh", "-c", text]).warnings
    assert warning.startswith("the init containers may fail to reach the workers")


def test_a_wait_container_comes_before_what_is_there_and_an_update_keeps_the_order() -> None:
    theirs = [{"name": name, "image": "i"} for name in ("first", "ultraserver-init-container", "last")]
    result = inits(outcome(TABLE, mpijob(4, launcher_spec={"initContainers": theirs})))
    names = [each["name"] for each in result]
    assert names == ["first", "wait-hostfilename", "ultraserver-init-container", "last"]
    job = put(mpijob(4, launcher_spec={"initContainers": theirs}), ("spec", "runPolicy"), {"suspend": True})
    stored = outcome(TABLE, job).after
    updated = update(TABLE, requested(job), stored)
    assert isinstance(updated, Outcome)
    assert [each["name"] for each in inits(updated)] == names
