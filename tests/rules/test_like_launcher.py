"""Tests that the launcher's container gets the host file, and that the init containers get its settings."""

from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import request_for
from tests.rules.tables import extend_table, outcome, parse_yaml
from webhook.engine import Outcome, update
from webhook.engine.ssh import LONGEST_COMMAND
from webhook.objects.tree import get, get_maps, put
from webhook.rules.load import load_default

FIELD = Path(__file__).parents[1] / "data" / "field"
TABLE = load_default()
HOSTFILE = "/root/ultraserver_init/new_hostfile"
LAUNCHER_POD = parse_yaml((FIELD / "01-mesh-first-container.yaml").read_text(encoding="utf-8"))


def init_containers(result: Outcome) -> list[Any]:
    assert not result.denials
    return list(get(result.after, (*LAUNCHER, "spec", "initContainers")))


def mounts_and_variables(pod: Any) -> dict[str, tuple[bool, bool]]:
    """Returns, for each container, whether it mounts the host file, and whether a variable has its path."""
    return {
        container["name"]: (
            any(mount["name"] == "ultraserver-init" for mount in get_maps(container, ("volumeMounts",))),
            any(variable.get("value") == HOSTFILE for variable in get_maps(container, ("env",))),
        )
        for container in pod["spec"]["containers"]
    }


PROXY, MAIN = LAUNCHER_POD["spec"]["containers"]


@pytest.mark.parametrize(
    "first_order",
    [[PROXY, MAIN], [MAIN, PROXY], [MAIN]],
    ids=["proxy-first", "proxy-last", "no-proxy"],
)
@pytest.mark.parametrize("second_order", [[PROXY, MAIN], [MAIN, PROXY]], ids=["proxy-first", "proxy-last"])
def test_only_the_operators_container_gets_mount_and_variables_in_any_order(
    first_order: Any, second_order: Any
) -> None:
    """Between two calls of this webhook, another webhook may add a proxy or reorder the containers."""
    first = outcome(TABLE, put(LAUNCHER_POD, ("spec", "containers"), first_order)).after
    main = next(container for container in first["spec"]["containers"] if container["name"] == "mpitest")
    containers = [main if container is MAIN else container for container in second_order]
    second = outcome(TABLE, put(first, ("spec", "containers"), containers)).after
    assert mounts_and_variables(second) == {"istio-proxy": (False, False), "mpitest": (True, True)}


def test_a_pod_that_lost_the_volume_gets_back_the_operators_variables() -> None:
    """Between two calls of this webhook, another webhook may remove the volume."""
    first = outcome(TABLE, LAUNCHER_POD).after
    volumes = [volume for volume in first["spec"]["volumes"] if volume["name"] != "ultraserver-init"]
    second = outcome(TABLE, put(first, ("spec", "volumes"), volumes)).after
    assert second["spec"]["containers"] == LAUNCHER_POD["spec"]["containers"]


@pytest.mark.parametrize(
    "fields",
    [{"env": [{"name": "K_MPI_JOB_ROLE", "value": "launcher"}]}, {"volumeMounts": MAIN["volumeMounts"]}],
)
def test_the_operators_container_is_found_by_its_variable_or_its_mounts(fields: Any) -> None:
    main = {"name": "mpitest", "image": "i", **fields}
    pod = outcome(TABLE, put(LAUNCHER_POD, ("spec", "containers"), [PROXY, main])).after
    assert mounts_and_variables(pod) == {"istio-proxy": (False, False), "mpitest": (True, True)}


@pytest.mark.parametrize(
    "resources", [{"limits": {"aws.amazon.com/neuron": 16}}, {"claims": [{"name": "neurons"}]}]
)
def test_the_workers_container_of_other_kinds_is_the_container_with_devices(resources: Any) -> None:
    row = "match: {role: worker}, add: {spec: {containers: [{name: $(worker.container), tty: true}]}}"
    table = extend_table(f"rules: [{{name: x, reason: r, {row}}}]")
    containers = [{"name": "proxy", "image": "p"}, {"name": "main", "image": "i", "resources": resources}]
    claims = [{"name": "neurons", "resourceClaimTemplateName": "us-1-node-config"}]
    template = {"spec": {"containers": containers, "resourceClaims": claims if "claims" in resources else []}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "x"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }
    spec = get(outcome(table, job).after, ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"))
    assert [container.get("tty") for container in spec["containers"]] == [None, True]


@pytest.mark.parametrize("home", ["/root", "/home/mpiuser", ""])
def test_init_container_and_launcher_mount_the_volume_at_both_paths(home: str) -> None:
    job = put(mpijob(4), ("spec", "sshAuthMountPath"), f"{home}/.ssh")
    result = outcome(TABLE, job)
    pod = put(
        LAUNCHER_POD, ("metadata", "annotations"), get(result.after, (*LAUNCHER, "metadata", "annotations"))
    )
    main = outcome(TABLE, pod).after["spec"]["containers"][1]
    for container in (init_containers(result)[1], main):
        mounts = [
            mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "ultraserver-init"
        ]
        assert mounts == [f"{home or '/root'}/ultraserver_init", "/ultraserver_init"]


@pytest.mark.parametrize("path", ["/root/ultraserver_init", "/ultraserver_init"])
def test_awss_yaml_is_unchanged_with_either_path_of_the_host_file(path: str) -> None:
    mpi_mounts = [
        {"mountPath": "/etc/mpi", "name": "mpi-job-config"},
        {"mountPath": "/root/.ssh", "name": "ssh-auth"},
    ]
    wait = {
        "name": "wait-hostfilename",
        "image": "i",
        "command": ["bash", "-cx", "true"],
        "volumeMounts": mpi_mounts,
    }
    init = {"name": "ultraserver-init-container", "image": "j"}
    init["volumeMounts"] = [*mpi_mounts, {"mountPath": path, "name": "ultraserver-init"}]
    spec = {"initContainers": [wait, init], "volumes": [{"name": "ultraserver-init", "emptyDir": {}}]}
    result = outcome(TABLE, mpijob(4, launcher_spec=spec))
    assert {key: get(result.after, (*LAUNCHER, "spec", key)) for key in spec} == spec
    assert [warning.code for warning in result.warnings] == ["value-kept"] * 2
    annotations = get(result.after, (*LAUNCHER, "metadata", "annotations"))
    pod = outcome(TABLE, put(LAUNCHER_POD, ("metadata", "annotations"), annotations)).after
    main = pod["spec"]["containers"][1]
    assert main["env"] == MAIN["env"]
    mounts = [mount["mountPath"] for mount in main["volumeMounts"] if mount["name"] == "ultraserver-init"]
    assert mounts == ["/root/ultraserver_init", "/ultraserver_init"]


def outcome_with_launcher(**container: Any) -> Outcome:
    return outcome(TABLE, mpijob(2, launcher_spec={"containers": [{"name": "l", "image": "i", **container}]}))


@pytest.mark.parametrize("policy", ["Always", "Never", None])
def test_init_containers_get_the_pull_policy_of_the_launchers_container(policy: str | None) -> None:
    result = outcome_with_launcher(**({"imagePullPolicy": policy} if policy else {}))
    assert [container.get("imagePullPolicy") for container in init_containers(result)] == [policy, policy]


RSH, INTEL = "OMPI_MCA_plm_rsh_args", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"


def rsh_args(text: str) -> dict[str, str]:
    return {RSH: text}


PORT, VARIABLE_P = rsh_args("-p 2222"), {"name": "P", "value": "7"}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"args": ["-mca", "plm_rsh_args", "-p 2222", "hostname"]}, PORT),
        ({"args": ["--mca", "plm_rsh_args", "-p 2222"]}, PORT),
        ({"args": ["--prtemca", "plm_ssh_args", "-p 2222"]}, PORT),
        ({"args": ["--mca", "plm_rsh_args", "-F /etc/ssh_config"]}, rsh_args("-F /etc/ssh_config")),
        ({"command": ["sh", "-c", 'mpirun --mca plm_rsh_args "-p 2222" \\\n hostname']}, PORT),
        ({"command": ["bash", "-c", "export OMPI_MCA_plm_rsh_args='-p 2222'\nmpirun hostname"]}, PORT),
        ({"args": ["-c", 'mpirun --mca plm_rsh_args "-p 2222" x > /dev/null && ssh y']}, PORT),
        ({"command": ["mpirun", "-launcher-exec", "/opt/ssh"]}, {"HYDRA_LAUNCHER_EXEC": "/opt/ssh"}),
        ({"command": ["mpirun", "--bootstrap-exec-args=-p 7"]}, {INTEL: "-p 7"}),
        ({"env": [{"name": INTEL, "value": "-p 7"}]}, {INTEL: "-p 7"}),
        ({"env": [{"name": RSH, "value": "-p 1"}], "args": ["-mca", "plm_rsh_args", "-p 2222"]}, PORT),
        (
            {"env": [VARIABLE_P], "args": ["-mca", "plm_rsh_args", "-p $(P)"]},
            {"P": "7", **rsh_args("-p $(P)")},
        ),
    ],
)  # fmt: skip
def test_init_containers_get_the_ssh_options_of_mpirun(container: Any, expected: dict[str, str]) -> None:
    result = outcome_with_launcher(**container)
    for init_container in init_containers(result):
        variables = {variable["name"]: variable.get("value") for variable in init_container["env"]}
        assert {**variables, **expected} == variables
    assert not result.warnings


def test_init_containers_get_env_from_and_the_mounted_ssh_configuration() -> None:
    source = [{"configMapRef": {"name": "mpi"}}]
    mounts = [
        {"mountPath": "/root/.ssh/config", "name": "ssh", "subPath": "config"},
        {"mountPath": "/etc/mpi", "name": "mine"},
    ]
    for container in init_containers(outcome_with_launcher(envFrom=source, volumeMounts=mounts)):
        assert container["envFrom"] == source
        assert mounts[0] in container["volumeMounts"]
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert len({*paths}) == len(paths)
        assert {"mountPath": "/etc/mpi", "name": "mpi-job-config"} in container["volumeMounts"]


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
def test_init_containers_get_nothing_from_a_launcher_without_ssh_settings(container: Any) -> None:
    assert init_containers(outcome_with_launcher(**container)) == init_containers(outcome_with_launcher())


@pytest.mark.parametrize(
    "text",
    [
        'mpirun --mca plm_rsh_args "-p $SSH_PORT" hostname',
        "mpirun --mca plm_rsh_args '-p 2222 hostname",
        "echo Port 2222 >> ~/.ssh/config; mpirun hostname",
        "mpirun --mca plm_rsh_args -p2222 hostname" + " " * LONGEST_COMMAND,
    ],
)
def test_a_command_whose_ssh_settings_cannot_be_read_is_a_warning(text: str) -> None:
    (warning,) = outcome_with_launcher(command=["sh", "-c", text]).warnings
    assert warning.startswith("the init containers may fail to reach the workers")


def test_the_wait_container_comes_before_an_existing_init_container_and_updates_keep_the_order() -> None:
    containers = [{"name": name, "image": "i"} for name in ("first", "ultraserver-init-container", "last")]
    result = init_containers(outcome(TABLE, mpijob(4, launcher_spec={"initContainers": containers})))
    names = [container["name"] for container in result]
    assert names == ["first", "wait-hostfilename", "ultraserver-init-container", "last"]
    job = put(
        mpijob(4, launcher_spec={"initContainers": containers}), ("spec", "runPolicy"), {"suspend": True}
    )
    stored = outcome(TABLE, job).after
    updated = update(TABLE, request_for(job), stored)
    assert isinstance(updated, Outcome)
    assert [container["name"] for container in init_containers(updated)] == names
