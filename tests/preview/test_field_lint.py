"""Tests of warnings about jobs that will fail, misspelt names, unrendered templates and unreadable files."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract import keys
from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from tests.helpers import unfold
from webhook.cli import main
from webhook.documents import DocumentError, dump_yaml, expand_lists, read_documents
from webhook.engine import Request, evaluate, faults
from webhook.objects.tree import Json, get, put
from webhook.preview.hints import find_refusals
from webhook.preview.run import preview
from webhook.rules.load import load_default, load_installed

FIELD = REPOSITORY / "tests" / "data" / "field"
DEFAULT, TABLE = load_default(), load_installed()
WORKER = ("spec", "mpiReplicaSpecs", "Worker")
LAUNCHER = ("spec", "mpiReplicaSpecs", "Launcher")
POD = (*WORKER, "template", "spec")
CONTAINER = (*POD, "containers", 0)
HOSTFILE = "/etc/mpi/hostfile"
PLAIN = mpijob()


def job(path: tuple[str | int, ...] = (), fields: Any = None, workers: int = 4, **top_fields: Any) -> Json:
    """Returns an MPIJob with additional fields in the map at a path, and with other top-level fields."""
    obj = copy.deepcopy(mpijob(workers))
    get(obj, path).update(fields or {})
    return obj | top_fields


def warnings_of(obj: Json) -> list[str]:
    """Returns the warnings of an object's admission."""
    return list(evaluate(TABLE, Request(obj)).warnings)


def launcher_warnings(*args: str, env: list[dict[str, str]] | None = None, workers: int = 4) -> list[str]:
    """Returns the warnings about a job whose launcher has these arguments and variables."""
    container = (*LAUNCHER, "template", "spec", "containers", 0)
    return warnings_of(job(container, {"args": list(args), "env": env or []}, workers))


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["preview", *args])


FAILING_JOBS = {
    "09-nonroot-worker": "the workers' /etc/environment gets no NEURON_ variables",
    "15-deadline-while-gated": "the deadline includes the time that the job waits for nodes",
    "16-explicit-hostfile": "--hostfile /etc/mpi/hostfile is not in topology order",
}


@pytest.mark.parametrize("output_format", ["diff", "json", "github", "junit"])
@pytest.mark.parametrize(("name", "words"), FAILING_JOBS.items(), ids=FAILING_JOBS)
def test_a_job_that_will_fail_gets_a_warning_in_every_format_and_is_placed(
    name: str, words: str, output_format: str
) -> None:
    """Protects users from jobs that get their nodes and then fail."""
    result = run(str(FIELD / f"{name}.yaml"), "-o", output_format)
    assert result.exit_code == 1
    assert words in " ".join(result.output.replace("&apos;", "'").split())  # long lines are folded
    if output_format == "json":
        (item,) = json.loads(result.stdout)["items"]
        assert item["verdict"] == "placed"
        (text,) = item["warnings"]
        assert words in text
        assert len(text) < 256  # the API server truncates longer warnings


def test_a_warning_has_the_line_of_its_field(tmp_path: Path) -> None:
    """Protects annotations in pull requests. One field is in a list, and its key has a slash."""
    file = tmp_path / "job.yaml"
    obj = job(CONTAINER, {"resources": {"limits": {"a.b/neurons": 1}}})
    get(obj, ("metadata",))["labels"] = {"ultraserver-webhook.io/Inject": "true"}
    file.write_text(dump_yaml(obj), encoding="utf-8")
    positions = [
        f"line={number},"
        for number, text in enumerate(dump_yaml(obj).split("\n"), 1)
        if "eurons" in text or "Inj" in text
    ]
    output = run(str(file), "-o", "github").stdout.splitlines()
    annotations = [line for line in output if "did you mean" in line and line.startswith("::warning")]
    assert [any(position in warning for position in positions) for warning in annotations] == [True, True]


SECURITY_CONTEXTS: dict[str, tuple[Json, Json, str]] = {
    "user of the pod": ({"runAsUser": 1000}, {}, "spec.securityContext.runAsUser is 1000"),
    "user of the container": (
        {"runAsUser": 0},
        {"runAsUser": 5},
        "containers[0].securityContext.runAsUser is 5",
    ),
    "not root": ({"runAsNonRoot": True}, {}, "spec.securityContext.runAsNonRoot is true"),
    "read-only": ({}, {"readOnlyRootFilesystem": True}, "securityContext.readOnlyRootFilesystem is true"),
    "root in the container only": ({"runAsUser": 1000}, {"runAsUser": 0}, ""),
    "root": ({"runAsUser": 0, "runAsNonRoot": False}, {"readOnlyRootFilesystem": False}, ""),
    "other settings": ({"fsGroup": 1000}, {"privileged": True}, ""),
}


@pytest.mark.parametrize("name", SECURITY_CONTEXTS)
def test_workers_that_cannot_write_to_their_root_file_system_get_a_warning(name: str) -> None:
    """Protects jobs whose workers cannot write /etc/environment. The container's setting has precedence."""
    pod, container, words = SECURITY_CONTEXTS[name]
    obj = job(POD, {"securityContext": pod})
    get(obj, CONTAINER)["securityContext"] = container
    texts = warnings_of(obj)
    assert [words in text for text in texts] == [True] * bool(words)
    volume = [{"name": "e", "mountPath": "/etc/environment", "subPath": "environment"}]
    get(obj, CONTAINER)["volumeMounts"] = volume
    assert warnings_of(obj) == []


def test_a_sidecar_before_the_main_container_may_run_as_its_own_user() -> None:
    """Protects jobs in a service mesh from a warning about the container of the mesh."""
    obj = job(POD, {})
    containers = get(obj, (*WORKER, "template", "spec", "containers"))
    containers.insert(0, {"name": "proxy", "image": "proxy", "securityContext": {"runAsUser": 1337}})
    assert warnings_of(obj) == []
    containers[1]["securityContext"] = {"runAsUser": 1000}
    (text,) = warnings_of(obj)
    assert "containers[1].securityContext.runAsUser is 1000" in text


JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
TEMPLATE = get(PLAIN, (*WORKER, "template"))
INDEXED_SPEC = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": TEMPLATE}
REPLICATED_JOBS = [
    {"name": "w", "replicas": 4, "template": {"spec": {"activeDeadlineSeconds": 60, "template": TEMPLATE}}}
]
JOBS_WITH_DEADLINE = {
    "an MPIJob": job(("spec",), {"runPolicy": {"activeDeadlineSeconds": 60}}),
    "an MPIJob of training-operator": job(
        ("spec",), {"runPolicy": {"activeDeadlineSeconds": 60}}, apiVersion="kubeflow.org/v1"
    ),
    "a Job": {**JOB, "spec": {**INDEXED_SPEC, "activeDeadlineSeconds": 60}},
    "a NonIndexed Job": {
        **JOB,
        "spec": {"parallelism": 4, "template": TEMPLATE, "activeDeadlineSeconds": 60},
    },
    "a JobSet": {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": {"replicatedJobs": REPLICATED_JOBS},
    },
}


@pytest.mark.parametrize("name", JOBS_WITH_DEADLINE)
def test_a_deadline_that_includes_the_waiting_time_gets_a_warning(name: str) -> None:
    """Protects jobs of these kinds from failing while they wait, because the deadline starts at creation."""
    assert [
        text.endswith("activeDeadlineSeconds is 60") for text in warnings_of(JOBS_WITH_DEADLINE[name])
    ] == [True]


def test_a_deadline_of_pods_without_devices_gets_no_warning() -> None:
    """Protects helper Jobs, which do not wait, from a warning. The Job of the workers has index 1."""
    cpu = {"template": {"spec": {"containers": [{"name": "a", "image": "train:1"}]}}}
    helper = {"name": "a", "template": {"spec": {**cpu, "activeDeadlineSeconds": 5}}}
    workers = {"name": "w", "template": {"spec": INDEXED_SPEC}}
    obj = {**JOBS_WITH_DEADLINE["a JobSet"], "spec": {"replicatedJobs": [helper, workers]}}
    assert warnings_of(obj) == []
    obj["spec"]["replicatedJobs"][1] = {
        "name": "w",
        "template": {"spec": {**INDEXED_SPEC, "activeDeadlineSeconds": 60}},
    }
    (text,) = warnings_of(obj)
    assert text.endswith("spec.replicatedJobs[1].template.spec.activeDeadlineSeconds is 60")


def test_a_ttl_or_deadline_that_starts_after_the_wait_gets_no_warning() -> None:
    """The TTL starts when the job ends, and a Pod's deadline starts when the kubelet accepts the Pod."""
    assert warnings_of(job(("spec",), {"runPolicy": {"ttlSecondsAfterFinished": 60}})) == []
    assert warnings_of(job(POD, {"activeDeadlineSeconds": 60})) == []


HOST_FILE_USES = {
    "two arguments": ["mpirun", "--hostfile", HOSTFILE],
    "one dash": ["mpirun", "-hostfile", HOSTFILE, "train"],
    "equals sign": ["mpirun", f"--hostfile={HOSTFILE}"],
    "machine file": ["mpiexec", "-machinefile", HOSTFILE],
    "hydra": ["mpiexec.hydra", "-f", HOSTFILE, "-n", "4", "train"],
    "default host file": ["mpirun", "--default-hostfile", HOSTFILE],
    "MCA parameter": ["mpirun", "--mca", "orte_default_hostfile", HOSTFILE],
    "shell script": ["bash", "-c", f"set -e\nmpirun -np 4 \\\n  --hostfile \\\n  {HOSTFILE} \\\n  train"],
    "quoted path": ["sh", "-c", f"exec mpirun --hostfile '{HOSTFILE}' train"],
    "shell variable": [
        "sh",
        "-c",
        f"H={HOSTFILE}; N=$(wc -l <$H); mpirun -np $N --hostfile ${{H}} train",
    ],
    "exported variable": ["sh", "-c", f"export OMPI_MCA_orte_default_hostfile={HOSTFILE}; mpirun train"],
    "variable of mpirun": ["mpirun", "-x", f"PRTE_MCA_prte_default_hostfile={HOSTFILE}", "train"],
    "another launcher": ["horovodrun", "-np", "4", "--hostfile", HOSTFILE],
}


@pytest.mark.parametrize("name", HOST_FILE_USES)
def test_the_operators_host_file_is_found_in_every_spelling(name: str) -> None:
    """Protects the order of ranks: a host file in the command overrides the file in topology order."""
    (text,) = launcher_warnings(*HOST_FILE_USES[name])
    assert "remove it, or use /root/ultraserver_init/new_hostfile, in " in text
    assert text.endswith("spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].args")
    assert launcher_warnings(*HOST_FILE_USES[name], workers=1) == []


def test_the_operators_host_file_is_found_in_variables_of_the_container() -> None:
    """Protects launchers that have the file's path in their environment."""
    for variable in ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE"):
        (text,) = launcher_warnings("mpirun", env=[{"name": variable, "value": HOSTFILE}])
        assert text.startswith(f"{variable}={HOSTFILE} is not")
    variables = [{"name": "HOSTS", "value": HOSTFILE}]
    assert len(launcher_warnings("mpirun", "--hostfile", "$(HOSTS)", env=variables)) == 1
    assert launcher_warnings("wc", "-l", "$(HOSTS)", env=variables) == []


OTHER_HOST_FILE_COMMANDS = {
    "reads the file": ["sh", "-c", f"N=$(wc -l <{HOSTFILE}); cat {HOSTFILE}; mpirun -np $N train"],
    "waits for the file": [
        "sh",
        "-c",
        f"until [ -f {HOSTFILE} ]; do sleep 1; done; test -f {HOSTFILE} && mpirun train",
    ],
    "copies the file": ["sh", "-c", f"sort {HOSTFILE} >/tmp/hosts; mpirun --hostfile /tmp/hosts train"],
    "another file": ["mpirun", "--hostfile", f"{HOSTFILE}.sorted"],
    "the webhook's file": ["mpirun", "--hostfile", "/root/ultraserver_init/new_hostfile"],
    "a comment": ["sh", "-c", f"# mpirun --hostfile {HOSTFILE}\nmpirun train  # not -f {HOSTFILE}"],
    "a variable that is only read": ["sh", "-c", f"H={HOSTFILE}; wc -l $H; mpirun train"],
}


@pytest.mark.parametrize("name", OTHER_HOST_FILE_COMMANDS)
def test_a_launcher_that_only_reads_the_operators_host_file_gets_no_warning(name: str) -> None:
    assert launcher_warnings(*OTHER_HOST_FILE_COMMANDS[name]) == []


DEVICE_AMOUNTS = [
    ("neuron", 17, 1),
    ("neuron", 16, 0),
    ("neuroncore", 128, 0),
    ("neuroncore", 129, 1),
    ("neuron", "32", 1),
]


@pytest.mark.parametrize(("name", "amount", "count"), DEVICE_AMOUNTS)
def test_a_request_for_more_devices_than_a_node_has_gets_a_warning(
    name: str, amount: Any, count: int
) -> None:
    """Protects users from jobs that wait forever. With LNC=1, a node has 128 cores."""
    resources = {"limits": {f"aws.amazon.com/{name}": amount}}
    texts = warnings_of(job(CONTAINER, {"resources": resources}))
    assert len(texts) == count
    assert all(f"the job waits forever: a worker requests {amount}, and" in text for text in texts)


MISSPELT_KEYS = {
    "ultraserver-webhook.io/node_config": "node-config",
    "ultraserver-webhook.io/nodeConfig": "node-config",
    "ultraserver-webhook.io/Inject": "inject",
    "ultraserver-webhook.io/injekt": "inject",
    "ultraserver-webhook/inject": "inject",
    "ultraserver-webhooks.io/inject": "inject",
    "ultra-server-webhook.io/node-config": "node-config",
    "ultraserver.io/node-config": "node-config",
    "ultraserver-webhook.io/node-confg": "node-config",
    "ultraserver-webhook-inject": "inject",
    "ultraserver-webhook.io/timelimit": "time-limit",
    "ultraserver-webhook.io/time-limits": "time-limit",
    "ultraserver-webhook.io/on-node-failur": "on-node-failure",
    "ultraserver-webhook.io/onNodeFailure": "on-node-failure",
    "time-limit": "time-limit",
    "on-node-failure": "on-node-failure",
    "node_config": "node-config",
    "node-config": "node-config",
    "inject": "inject",
}


@pytest.mark.parametrize("key", MISSPELT_KEYS)
@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_the_warning_about_a_misspelt_key_has_the_correct_key(key: str, kind: str) -> None:
    """Protects users from opt-outs and node configs without effect."""
    (text,) = warnings_of(job(("metadata",), {kind: {key: "false"}}))
    is_annotation = kind == "labels" and MISSPELT_KEYS[key] not in {"inject", "node-config"}
    suggestion = f"{'the annotation ' if is_annotation else ''}ultraserver-webhook.io/{MISSPELT_KEYS[key]}"
    assert f"did you mean {suggestion}? metadata.{kind}" in text


@pytest.mark.parametrize("key", keys.FOR_AUTHORS)
@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_of_the_known_keys_only_a_label_that_must_be_an_annotation_gets_a_warning(
    key: str, kind: str
) -> None:
    texts = [
        text for text in warnings_of(job(("metadata",), {kind: {key: "false"}})) if "did you mean" in text
    ]
    is_mistake = kind == "labels" and key in {keys.TIME_LIMIT, keys.ON_NODE_FAILURE}
    assert [f"did you mean the annotation {key}?" in text for text in texts] == [True] * is_mistake


CORRECT_KEYS = [
    *[
        "sidecar.istio.io/inject",
        "linkerd.io/inject",
        "vault.hashicorp.com/agent-inject",
        "app.kubernetes.io/name",
    ],
    *[
        "neuron.amazonaws.com/ultraserver-mode",
        "example.com/node-config",
        "config",
        "kueue.x-k8s.io/queue-name",
    ],
    *["ultraserver-webhook.io/inject", "checksum/config", "kubectl.kubernetes.io/last-applied-configuration"],
]


@pytest.mark.parametrize("key", CORRECT_KEYS)
def test_a_correct_key_or_a_key_of_another_program_gets_no_warning(key: str) -> None:
    assert warnings_of(job(("metadata",), {"annotations": {key: "true"}})) == []


RESOURCES = {
    "aws.amazon.com/neurons": "aws.amazon.com/neuron",
    "aws.amazon.com/Neuron": "aws.amazon.com/neuron",
    "aws.amazon.com/neuron-core": "aws.amazon.com/neuroncore",
    "amazonaws.com/neuron": "aws.amazon.com/neuron",
    "aws.amazon.com/nueron": "aws.amazon.com/neuron",
    "vpc.amazonaws.com/efa": None,
    "nvidia.com/gpu": None,
    "hugepages-2Mi": None,
}


@pytest.mark.parametrize("name", RESOURCES)
def test_the_warning_about_a_misspelt_resource_has_the_correct_resource(name: str) -> None:
    """Protects users from Pods that wait for a resource that no node has."""
    limits = {"limits": {name: 1}}
    texts = warnings_of(job(CONTAINER, {"resources": limits}))
    similar = RESOURCES[name]
    assert [text.partition("did you mean ")[2].partition("?")[0] for text in texts] == [similar] * bool(
        similar
    )


def test_one_answer_has_warnings_about_several_misspelt_names() -> None:
    """Protects users from correcting one name, and seeing the next warning only after the next apply."""
    limits = {"limits": {"aws.amazon.com/neurons": 16, "aws.amazon.com/neuron-core": 64}}
    obj = job(CONTAINER, {"resources": limits})
    get(obj, ("metadata",))["annotations"] = {"node_config": "4", "Inject": "true"}
    suggestions = [text.partition("did you mean ")[2].partition("?")[0] for text in warnings_of(obj)]
    own_keys = ["ultraserver-webhook.io/node-config", "ultraserver-webhook.io/inject"]
    assert suggestions == ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", *own_keys]
    get(obj, ("metadata",))["annotations"] = {f"ultraserver{n}-inject": "true" for n in range(20)}
    assert len(warnings_of(obj)) == 2 + faults.MOST_MISSPELLINGS


UNFINISHED_FIELDS = {
    "inject": (
        ("metadata",),
        {"annotations": {"ultraserver-webhook.io/inject": True}},
        'true is not text; quote it, as in "true"',
    ),
    "opt-out": (
        ("metadata",),
        {"labels": {"ultraserver-webhook.io/inject": False}},
        'false is not text; quote it, as in "false"',
    ),
    "label of the job": (
        ("metadata",),
        {"labels": {"run": 5}},
        'metadata.labels.run: 5 is not text; quote it, as in "5"',
    ),
    "label of a template": ((*WORKER, "template"), {"metadata": {"labels": {"run": 1.5}}}, 'as in "1.5"'),
    "node selector": (POD, {"nodeSelector": {"gpu": True}}, "nodeSelector.gpu: true is not"),
    "environment variable": (
        CONTAINER,
        {"env": [{"name": "A", "value": 1}]},
        'env[0].value: 1 is not text; quote it, as in "1"',
    ),
    "shell variable as name": (
        ("metadata",),
        {"name": "${NAME}"},
        "envsubst < FILE | ultraserver-webhook preview -",
    ),
    "shell variable as replicas": (WORKER, {"replicas": "$NUM_NODES"}, "envsubst < FILE"),
    "shell variable in a name": (("metadata",), {"name": "train.${run}.a"}, "envsubst < FILE"),
    "shell variable in small letters": (WORKER, {"replicas": "$num_nodes"}, "envsubst < FILE"),
    "placeholder": (WORKER, {"replicas": "<NUM>"}, "looks like a placeholder: replace it with"),
    "Jinja": (WORKER, {"replicas": "{{ nodes }}"}, "jinja2 FILE"),
    "Helm": (CONTAINER, {"image": "{{ .Values.image }}"}, "helm template CHART"),
}


@pytest.mark.parametrize("name", UNFINISHED_FIELDS)
def test_files_that_kubectl_refuses_or_that_need_rendering_are_reported(name: str, tmp_path: Path) -> None:
    """Protects users from the preview of an object that no cluster accepts."""
    path, fields, words = UNFINISHED_FIELDS[name]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(path, fields)), encoding="utf-8")
    (item,) = json.loads(run(str(file), "-o", "json").stdout)["items"]
    assert sum(words in text for text in item["warnings"]) == 1


REFUSED_FIELDS = {
    "an amount": (
        {"resources": {"limits": {"cpu": "lots"}}},
        '.resources.limits.cpu: "lots" is not a quantity',
    ),
    "a list for a map": ({"resources": {"limits": [16]}}, ".resources.limits: must be a map"),
    "a map for a list": ({"env": {"A": "b"}}, ".env: must be a list"),
    "a number for a text": ({"args": ["-n", 4]}, ".args[1]: must be text (in quotes), not 4"),
    "a wrong enum value": ({"imagePullPolicy": "always"}, "not \"always\"; did you mean 'Always'?"),
    "null": ({"args": None, "env": None}, ""),
}


@pytest.mark.parametrize("name", REFUSED_FIELDS)
def test_a_value_that_the_api_server_will_refuse_is_reported_with_field_and_line(name: str) -> None:
    """Protects users from the preview of a job that no cluster accepts."""
    fields, words = REFUSED_FIELDS[name]
    (item,) = preview(TABLE, read_documents(dump_yaml(job(CONTAINER, fields))))
    refusals = [text for text in item.report["warnings"] if "the API server refuses" in text]
    assert [words in text for text in refusals] == [True] * bool(words)
    assert all(item.line_of(text) > item.run.document.line for text in refusals)


ENDING = put(TEMPLATE, ("spec", "restartPolicy"), "OnFailure")


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        ({}, ["spec.template.spec: restartPolicy is missing: add it"]),
        ({"restartPolicy": "Always"}, ['spec.restartPolicy: must be Never or OnFailure, not "Always"']),
        ({"restartPolicy": "Never"}, []),
    ],
)
def test_a_batch_job_must_have_a_restart_policy_that_lets_it_end(policy: Json, reasons: list[str]) -> None:
    """Protects users from previews of Jobs that no cluster accepts. Operators set the policy themselves."""
    for obj, expected in (
        (JOB, reasons),
        ({**JOB, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}, []),
    ):
        template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], **policy}}
        refusals = list(find_refusals(TABLE, {**obj, "spec": {**INDEXED_SPEC, "template": template}}))
        assert len(refusals) == len(expected)
        assert all(text.endswith(words) for text, words in zip(refusals, expected, strict=True))


FIELDS_OF_WRONG_TYPE: dict[str, Any] = {
    "spec.slotsPerWorker": job(("spec",), {"slotsPerWorker": "8"}),
    "spec.mpiReplicaSpecs.Launcher.replicas": job(LAUNCHER, {"replicas": "1"}),
    "spec.runPolicy.backoffLimit": job(("spec",), {"runPolicy": {"backoffLimit": True}}),
    "spec.runPolicy.suspend": job(("spec",), {"runPolicy": {"suspend": "true"}}),
    "spec.backoffLimit": {**JOB, "spec": {**INDEXED_SPEC, "template": ENDING, "backoffLimit": "0"}},
    "spec.replicatedJobs[0].template.spec.activeDeadlineSeconds": {
        **JOBS_WITH_DEADLINE["a JobSet"],
        "spec": {"replicatedJobs": [{"template": {"spec": {**INDEXED_SPEC, "activeDeadlineSeconds": "60"}}}]},
    },
    "spec.nprocPerNode": {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "p"},
        "spec": {"nprocPerNode": 8, "pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
    },
}


@pytest.mark.parametrize("field", FIELDS_OF_WRONG_TYPE)
def test_a_value_of_the_wrong_type_outside_of_pod_templates_is_reported(field: str) -> None:
    """Protects users from "placed" for a job that no cluster accepts."""
    (item,) = preview(TABLE, read_documents(dump_yaml(FIELDS_OF_WRONG_TYPE[field])))
    (text,) = (text for text in item.report["warnings"] if "the API server refuses" in text)
    assert text.startswith(f"the API server refuses {field}: must be ")


def test_a_number_in_quotes_is_not_reported_for_other_kinds_and_for_maps_of_texts() -> None:
    """Protects kinds that are not in the packaged table, and maps of texts in a template."""
    volcano_job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"replicas": "1"}}
    csi = {"volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"size": "1Gi"}}}]}
    for obj in (volcano_job, job(POD, csi)):
        assert list(find_refusals(TABLE, obj)) == []


def test_a_field_that_a_denial_names_is_not_reported_again() -> None:
    """Protects users from two messages about one mistake."""
    (item,) = preview(TABLE, read_documents(dump_yaml(job(POD, {"affinity": "x"}))))
    assert "affinity must be a map" in item.report["sentence"]
    assert item.report["warnings"] == []


def test_commands_and_variables_are_not_reported_as_templates() -> None:
    """Protects users from false warnings: shells, Docker and Argo use the same syntax."""
    container = (*LAUNCHER, "template", "spec", "containers", 0)
    words = {"args": ["echo $HOME ${X} {{x}} {%"], "env": [{"name": "A", "value": "${B}"}]}
    assert list(find_refusals(TABLE, job(container, words))) == []


def test_a_template_in_another_kind_is_reported_only_in_the_metadata() -> None:
    """Protects Argo Workflows, policies and alerts, whose controllers evaluate templates in the spec."""
    alert = {"apiVersion": "example.com/v1", "kind": "Alert", "metadata": {"name": "$NAME"}}
    (item,) = preview(TABLE, read_documents(json.dumps({**alert, "spec": {"text": "{{ $labels.x }} <x>"}})))
    assert [text.rpartition(": ")[2] for text in item.report["warnings"]] == ['metadata.name is "$NAME"']


TEMPLATE_FILES = {
    "replicas: {{ n }}\n": "jinja2 FILE",
    "metadata:\n  name: {{ .Release.Name }}-x\n": "helm template CHART",
    'metadata:\n  labels:\n    {{- include "x" . | nindent 4 }}\n': "helm template CHART",
    "{% for n in nodes %}\nname: {{ n }}\n{% endfor %}\n": "jinja2 FILE",
    "{# of Jinja #}\nname: x\n": "jinja2 FILE",
    "metadata: {name: ${NAME}, labels: {}}\n": "envsubst < FILE",
}


@pytest.mark.parametrize("text", TEMPLATE_FILES)
def test_an_unrendered_template_is_reported_with_the_command_that_renders_it(text: str) -> None:
    """Protects users from advice about YAML if the file is not YAML before it is rendered."""
    with pytest.raises(DocumentError, match="this looks like a template of") as error:
        read_documents(text)
    assert TEMPLATE_FILES[text] in str(error.value)


def test_a_syntax_error_in_a_file_with_a_shell_command_is_not_reported_as_a_template() -> None:
    """Protects users from advice about the shell command, which has no error."""
    text = "command: [sh, -c, 'echo ${HOME} {{x}}']\nargs:\n- a\nb: 1: 2\n"
    with pytest.raises(DocumentError) as error:
        read_documents(text)
    assert "template" not in str(error.value)


@pytest.mark.parametrize("output_format", ["diff", "json", "yaml", "why", "github", "junit"])
def test_an_unreadable_file_does_not_hide_other_files(output_format: str) -> None:
    """Protects users who preview a folder that also has a patch, or another file without objects."""
    unreadable_file = "18-one-bad-file/z-kustomize-patch.yaml"
    result = run("-f", str(FIELD / "18-one-bad-file"), "-f", str(FIELD / "none.yaml"), "-o", output_format)
    assert result.exit_code == 2
    assert "base" in result.stdout
    assert unreadable_file in result.output
    assert "a Kubernetes object is a map with apiVersion and kind" in unfold(result.output)
    assert "No such file" in result.output


EXPENSIVE_COMMANDS = {
    "one word": "a" * 300_000 + HOSTFILE,
    "many options": f"-f {HOSTFILE} " * 15_000,
    "many variables": f"a={HOSTFILE} $a -" * 15_000,
    "many commands": f"mpirun;{HOSTFILE}\n" * 15_000,
    "dashes": f"{HOSTFILE} -" + "-host" * 60_000,
}


@pytest.mark.parametrize("name", EXPENSIVE_COMMANDS)
def test_an_expensive_command_is_searched_in_linear_time(name: str) -> None:
    """Protects reviews: with a regular expression that backtracks, such a command takes minutes."""
    launcher_warnings(EXPENSIVE_COMMANDS[name])


def test_the_number_of_names_that_are_compared_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects reviews of objects with thousands of keys and resources."""
    compared: list[str] = []
    monkeypatch.setattr(faults, "nearest", lambda name, _: compared.append(name))
    obj = job(("metadata",), {"labels": {f"ultra-{number}": "" for number in range(1000)}})
    limits = {f"neuron-{number}": 1 for number in range(1000)}
    get(obj, CONTAINER)["resources"] = {"limits": limits}
    warnings_of(obj)
    assert 0 < len(compared) < 200


def test_the_jobs_of_this_repository_get_no_warnings() -> None:
    files = [*REPOSITORY.glob("examples/**/*.yaml"), *REPOSITORY.glob("tests/data/*/*.yaml")]
    files += REPOSITORY.glob("tests/rules/cases/*/mpijob.yaml")
    documents = [
        document
        for file in files
        if file.parent.name != "field"
        for document in expand_lists(read_documents(file.read_bytes(), str(file)))
    ]
    fault_rules = {rule.name for rule in DEFAULT.rules if rule.match.fault}
    assert len(documents) > 8
    for document in documents:
        for table in (DEFAULT, TABLE):
            outcome = evaluate(table, Request(document.value))
            assert fault_rules.isdisjoint(outcome.fired()), document.source
        assert list(find_refusals(TABLE, document.value)) == [], document.source
