"""Jobs that will fail, typing errors, templates and unreadable files, as people wrote them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract import keys
from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from tests.helpers import unfolded
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


def job(path: tuple[str | int, ...] = (), more: Any = None, workers: int = 4, **top: Any) -> Json:
    """Returns a plain job with more keys in the map at a path."""
    obj = copy.deepcopy(mpijob(workers))
    get(obj, path).update(more or {})
    return obj | top


def warnings(obj: Json) -> list[str]:
    """Returns what admission warns of."""
    return list(evaluate(TABLE, Request(obj)).warnings)


def launched(*args: str, env: list[dict[str, str]] | None = None, workers: int = 4) -> list[str]:
    """Returns the warnings about a job whose launcher runs these words."""
    container = (*LAUNCHER, "template", "spec", "containers", 0)
    return warnings(job(container, {"args": list(args), "env": env or []}, workers))


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["preview", *args])


CASES = {
    "09-nonroot-worker": "the workers' /etc/environment gets no NEURON_ variables",
    "15-deadline-while-gated": "the deadline includes the time that the job waits for nodes",
    "16-explicit-hostfile": "--hostfile /etc/mpi/hostfile is not in topology order",
}


@pytest.mark.parametrize("form", ["diff", "json", "github", "junit"])
@pytest.mark.parametrize(("name", "words"), CASES.items(), ids=CASES)
def test_a_job_that_will_fail_is_warned_of_in_every_form_and_still_placed(
    name: str, words: str, form: str
) -> None:
    """Protects jobs that hold nodes and then fail, whichever way their author looks at them first."""
    result = run(str(FIELD / f"{name}.yaml"), "-o", form)
    assert result.exit_code == 1
    assert words in " ".join(result.output.replace("&apos;", "'").split())  # texts are folded
    if form == "json":
        (item,) = json.loads(result.stdout)["items"]
        assert item["verdict"] == "placed"
        (text,) = item["warnings"]
        assert words in text
        assert len(text) < 256  # the API server cuts longer ones


def test_the_line_of_a_warning_is_that_of_its_field(tmp_path: Path) -> None:
    """Protects annotations in a pull request: they stand at lines, below lists and keys with a slash, too."""
    file = tmp_path / "job.yaml"
    obj = job(CONTAINER, {"resources": {"limits": {"a.b/neurons": 1}}})
    get(obj, ("metadata",))["labels"] = {"ultraserver-webhook.io/Inject": "true"}
    file.write_text(dump_yaml(obj), encoding="utf-8")
    lines = [
        f"line={at},"
        for at, text in enumerate(dump_yaml(obj).split("\n"), 1)
        if "eurons" in text or "Inj" in text
    ]
    output = [line for line in run(str(file), "-o", "github").stdout.splitlines() if "did you mean" in line]
    assert [any(one in text for one in lines) for text in output if text.startswith("::warning")] == [
        True,
        True,
    ]


USERS: dict[str, tuple[Json, Json, str]] = {
    "of the pod": ({"runAsUser": 1000}, {}, "spec.securityContext.runAsUser is 1000"),
    "of the container": ({"runAsUser": 0}, {"runAsUser": 5}, "containers[0].securityContext.runAsUser is 5"),
    "not root": ({"runAsNonRoot": True}, {}, "spec.securityContext.runAsNonRoot is true"),
    "read-only": ({}, {"readOnlyRootFilesystem": True}, "securityContext.readOnlyRootFilesystem is true"),
    "root after all": ({"runAsUser": 1000}, {"runAsUser": 0}, ""),
    "root": ({"runAsUser": 0, "runAsNonRoot": False}, {"readOnlyRootFilesystem": False}, ""),
    "others": ({"fsGroup": 1000}, {"privileged": True}, ""),
}


@pytest.mark.parametrize("name", USERS)
def test_workers_that_cannot_write_to_their_root_get_a_warning(name: str) -> None:
    """Protects jobs whose init script would fail once they have their nodes; container before pod."""
    pod, container, words = USERS[name]
    obj = job(POD, {"securityContext": pod})
    get(obj, CONTAINER)["securityContext"] = container
    texts = warnings(obj)
    assert [words in text for text in texts] == [True] * bool(words)
    volume = [{"name": "e", "mountPath": "/etc/environment", "subPath": "environment"}]
    get(obj, CONTAINER)["volumeMounts"] = volume
    assert warnings(obj) == []


def test_a_proxy_that_comes_first_may_run_as_its_own_user() -> None:
    """Protects jobs in a mesh from a warning about a container that is not theirs."""
    obj = job(POD, {})
    containers = get(obj, (*WORKER, "template", "spec", "containers"))
    containers.insert(0, {"name": "proxy", "image": "proxy", "securityContext": {"runAsUser": 1337}})
    assert warnings(obj) == []
    containers[1]["securityContext"] = {"runAsUser": 1000}
    (text,) = warnings(obj)
    assert "containers[1].securityContext.runAsUser is 1000" in text


JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
TEMPLATE = get(PLAIN, (*WORKER, "template"))
INDEXED = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": TEMPLATE}
REPLICATED = [
    {"name": "w", "replicas": 4, "template": {"spec": {"activeDeadlineSeconds": 60, "template": TEMPLATE}}}
]
DEADLINES = {
    "an MPIJob": job(("spec",), {"runPolicy": {"activeDeadlineSeconds": 60}}),
    "an MPIJob of training-operator": job(
        ("spec",), {"runPolicy": {"activeDeadlineSeconds": 60}}, apiVersion="kubeflow.org/v1"
    ),
    "a Job": {**JOB, "spec": {**INDEXED, "activeDeadlineSeconds": 60}},
    "a Job without numbers": {
        **JOB,
        "spec": {"parallelism": 4, "template": TEMPLATE, "activeDeadlineSeconds": 60},
    },
    "a JobSet": {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": {"replicatedJobs": REPLICATED},
    },
}


@pytest.mark.parametrize("name", DEADLINES)
def test_a_deadline_that_includes_the_wait_is_a_warning(name: str) -> None:
    """Protects a job from failing before it ran, of each kind whose clock starts with the object."""
    assert [text.endswith("activeDeadlineSeconds is 60") for text in warnings(DEADLINES[name])] == [True]


def test_a_deadline_of_pods_without_devices_is_no_fault() -> None:
    """Protects from a warning about a helper, which does not wait; another one's deadline has its index."""
    cpu = {"template": {"spec": {"containers": [{"name": "a", "image": "train:1"}]}}}
    helper = {"name": "a", "template": {"spec": {**cpu, "activeDeadlineSeconds": 5}}}
    workers = {"name": "w", "template": {"spec": INDEXED}}
    obj = {**DEADLINES["a JobSet"], "spec": {"replicatedJobs": [helper, workers]}}
    assert warnings(obj) == []
    obj["spec"]["replicatedJobs"][1] = {
        "name": "w",
        "template": {"spec": {**INDEXED, "activeDeadlineSeconds": 60}},
    }
    (text,) = warnings(obj)
    assert text.endswith("spec.replicatedJobs[1].template.spec.activeDeadlineSeconds is 60")


def test_times_that_begin_later_are_no_fault() -> None:
    """Protects from false warnings: the kubelet starts a Pod's clock, and the other starts at the end."""
    assert warnings(job(("spec",), {"runPolicy": {"ttlSecondsAfterFinished": 60}})) == []
    assert warnings(job(POD, {"activeDeadlineSeconds": 60})) == []


GIVEN = {
    "two words": ["mpirun", "--hostfile", HOSTFILE],
    "one dash": ["mpirun", "-hostfile", HOSTFILE, "train"],
    "equals": ["mpirun", f"--hostfile={HOSTFILE}"],
    "machine file": ["mpiexec", "-machinefile", HOSTFILE],
    "hydra": ["mpiexec.hydra", "-f", HOSTFILE, "-n", "4", "train"],
    "default": ["mpirun", "--default-hostfile", HOSTFILE],
    "parameter": ["mpirun", "--mca", "orte_default_hostfile", HOSTFILE],
    "shell": ["bash", "-c", f"set -e\nmpirun -np 4 \\\n  --hostfile \\\n  {HOSTFILE} \\\n  train"],
    "quoted": ["sh", "-c", f"exec mpirun --hostfile '{HOSTFILE}' train"],
    "variable of the shell": [
        "sh",
        "-c",
        f"H={HOSTFILE}; N=$(wc -l <$H); mpirun -np $N --hostfile ${{H}} train",
    ],
    "exported": ["sh", "-c", f"export OMPI_MCA_orte_default_hostfile={HOSTFILE}; mpirun train"],
    "passed": ["mpirun", "-x", f"PRTE_MCA_prte_default_hostfile={HOSTFILE}", "train"],
    "another launcher": ["horovodrun", "-np", "4", "--hostfile", HOSTFILE],
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_operators_host_file_is_found_in_every_spelling(name: str) -> None:
    """Protects the order of ranks: what a launcher names itself counts before the file in topology order."""
    (text,) = launched(*GIVEN[name])
    assert "remove it, or use /root/ultraserver_init/new_hostfile, in " in text
    assert text.endswith("spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].args")
    assert launched(*GIVEN[name], workers=1) == []


def test_the_operators_host_file_is_found_in_variables_of_the_container() -> None:
    """Protects launchers that have the file's path in their environment."""
    for variable in ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE"):
        (text,) = launched("mpirun", env=[{"name": variable, "value": HOSTFILE}])
        assert text.startswith(f"{variable}={HOSTFILE} is not")
    named = [{"name": "HOSTS", "value": HOSTFILE}]
    assert len(launched("mpirun", "--hostfile", "$(HOSTS)", env=named)) == 1
    assert launched("wc", "-l", "$(HOSTS)", env=named) == []


NOT_GIVEN = {
    "read": ["sh", "-c", f"N=$(wc -l <{HOSTFILE}); cat {HOSTFILE}; mpirun -np $N train"],
    "waited for": [
        "sh",
        "-c",
        f"until [ -f {HOSTFILE} ]; do sleep 1; done; test -f {HOSTFILE} && mpirun train",
    ],
    "copied": ["sh", "-c", f"sort {HOSTFILE} >/tmp/hosts; mpirun --hostfile /tmp/hosts train"],
    "another": ["mpirun", "--hostfile", f"{HOSTFILE}.sorted"],
    "ours": ["mpirun", "--hostfile", "/root/ultraserver_init/new_hostfile"],
    "a comment": ["sh", "-c", f"# mpirun --hostfile {HOSTFILE}\nmpirun train  # not -f {HOSTFILE}"],
    "a variable that is only read": ["sh", "-c", f"H={HOSTFILE}; wc -l $H; mpirun train"],
}


@pytest.mark.parametrize("name", NOT_GIVEN)
def test_a_launcher_that_only_reads_the_operators_host_file_is_not_accused(name: str) -> None:
    """Protects from false warnings."""
    assert launched(*NOT_GIVEN[name]) == []


AMOUNTS = [
    ("neuron", 17, 1),
    ("neuron", 16, 0),
    ("neuroncore", 128, 0),
    ("neuroncore", 129, 1),
    ("neuron", "32", 1),
]


@pytest.mark.parametrize(("name", "obj", "count"), AMOUNTS)
def test_more_devices_than_a_node_has_are_a_warning(name: str, obj: Any, count: int) -> None:
    """Protects from jobs that wait forever; 128 cores are a node's with LNC=1."""
    resources = {"limits": {f"aws.amazon.com/{name}": obj}}
    texts = warnings(job(CONTAINER, {"resources": resources}))
    assert len(texts) == count
    assert all(f"the job waits forever: a worker requests {obj}, and" in text for text in texts)


KEYS = {
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


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_key_that_is_nearly_ours_is_named_with_ours(key: str, kind: str) -> None:
    """Protects from opt-outs and node configs that say nothing."""
    (text,) = warnings(job(("metadata",), {kind: {key: "false"}}))
    is_annotation = kind == "labels" and KEYS[key] not in {"inject", "node-config"}
    meant = f"{'the annotation ' if is_annotation else ''}ultraserver-webhook.io/{KEYS[key]}"
    assert f"did you mean {meant}? metadata.{kind}" in text


@pytest.mark.parametrize("key", keys.FOR_AUTHORS)
@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_only_a_label_that_must_be_an_annotation_is_a_mistake(key: str, kind: str) -> None:
    texts = [text for text in warnings(job(("metadata",), {kind: {key: "false"}})) if "did you mean" in text]
    is_mistake = kind == "labels" and key in {keys.TIME_LIMIT, keys.ON_NODE_FAILURE}
    assert [f"did you mean the annotation {key}?" in text for text in texts] == [True] * is_mistake


OTHERS = [
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


@pytest.mark.parametrize("key", OTHERS)
def test_keys_of_others_are_not_accused(key: str) -> None:
    """Protects from false warnings."""
    assert warnings(job(("metadata",), {"annotations": {key: "true"}})) == []


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
def test_a_resource_that_is_nearly_neurons_is_named_with_the_right_one(name: str) -> None:
    """Protects from Pods that wait for a resource that no node has, whether the job is placed or not."""
    limits = {"limits": {name: 1}}
    texts = warnings(job(CONTAINER, {"resources": limits}))
    near = RESOURCES[name]
    assert [text.partition("did you mean ")[2].partition("?")[0] for text in texts] == [near] * bool(near)


def test_several_misspelt_names_are_in_one_answer() -> None:
    """Protects people from mending one name, and reading of the next one when they apply the job again."""
    limits = {"limits": {"aws.amazon.com/neurons": 16, "aws.amazon.com/neuron-core": 64}}
    obj = job(CONTAINER, {"resources": limits})
    get(obj, ("metadata",))["annotations"] = {"node_config": "4", "Inject": "true"}
    meant = [text.partition("did you mean ")[2].partition("?")[0] for text in warnings(obj)]
    ours = ["ultraserver-webhook.io/node-config", "ultraserver-webhook.io/inject"]
    assert meant == ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", *ours]
    get(obj, ("metadata",))["annotations"] = {f"ultraserver{n}-inject": "true" for n in range(20)}
    assert len(warnings(obj)) == 2 + faults.MOST_MISSPELLINGS


UNFINISHED = {
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
    "label": (
        ("metadata",),
        {"labels": {"run": 5}},
        'metadata.labels.run: 5 is not text; quote it, as in "5"',
    ),
    "of a template": ((*WORKER, "template"), {"metadata": {"labels": {"run": 1.5}}}, 'as in "1.5"'),
    "selector": (POD, {"nodeSelector": {"gpu": True}}, "nodeSelector.gpu: true is not"),
    "variable": (
        CONTAINER,
        {"env": [{"name": "A", "value": 1}]},
        'env[0].value: 1 is not text; quote it, as in "1"',
    ),
    "name": (("metadata",), {"name": "${NAME}"}, "envsubst < FILE | ultraserver-webhook preview -"),
    "replicas": (WORKER, {"replicas": "$NUM_NODES"}, "envsubst < FILE"),
    "middle of a name": (("metadata",), {"name": "train.${run}.a"}, "envsubst < FILE"),
    "small letters": (WORKER, {"replicas": "$num_nodes"}, "envsubst < FILE"),
    "placeholder": (WORKER, {"replicas": "<NUM>"}, "looks like a placeholder: replace it with"),
    "replicas of Jinja": (WORKER, {"replicas": "{{ nodes }}"}, "jinja2 FILE"),
    "image": (CONTAINER, {"image": "{{ .Values.image }}"}, "helm template CHART"),
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_files_that_kubectl_refuses_or_that_need_rendering_are_reported(name: str, tmp_path: Path) -> None:
    """Protects from previews of objects that no cluster would take; in the warnings, for every output."""
    path, more, words = UNFINISHED[name]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(path, more)), encoding="utf-8")
    (item,) = json.loads(run(str(file), "-o", "json").stdout)["items"]
    assert sum(words in text for text in item["warnings"]) == 1


REFUSED = {
    "an amount": (
        {"resources": {"limits": {"cpu": "lots"}}},
        '.resources.limits.cpu: "lots" is not a quantity',
    ),
    "a list for a map": ({"resources": {"limits": [16]}}, ".resources.limits: must be a map"),
    "a map for a list": ({"env": {"A": "b"}}, ".env: must be a list"),
    "a number for a text": ({"args": ["-n", 4]}, ".args[1]: must be text (in quotes), not 4"),
    "a word": ({"imagePullPolicy": "always"}, "not \"always\"; did you mean 'Always'?"),
    "null": ({"args": None, "env": None}, ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_api_server_will_refuse_is_named_with_its_field_and_its_line(name: str) -> None:
    """Protects from a preview of a job that no cluster takes; a newer API server may know more keys."""
    more, words = REFUSED[name]
    (shown,) = preview(TABLE, read_documents(dump_yaml(job(CONTAINER, more))))
    entries = [text for text in shown.report["warnings"] if "the API server refuses" in text]
    assert [words in text for text in entries] == [True] * bool(words)
    assert all(shown.line_of(text) > shown.run.document.line for text in entries)


ENDING = put(TEMPLATE, ("spec", "restartPolicy"), "OnFailure")


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({}, ["spec.template.spec: restartPolicy is missing: add it"]),
        ({"restartPolicy": "Always"}, ['spec.restartPolicy: must be Never or OnFailure, not "Always"']),
        ({"restartPolicy": "Never"}, []),
    ],
)
def test_a_job_of_kubernetes_must_end(policy: Json, why: list[str]) -> None:
    """Protects from a preview of a Job that kubectl refuses; operators set the policy of other kinds."""
    for obj, expected in ((JOB, why), ({**JOB, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}, [])):
        template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], **policy}}
        entries = list(find_refusals(TABLE, {**obj, "spec": {**INDEXED, "template": template}}))
        assert len(entries) == len(expected)
        assert all(text.endswith(words) for text, words in zip(entries, expected, strict=True))


QUOTED: dict[str, Any] = {
    "spec.slotsPerWorker": job(("spec",), {"slotsPerWorker": "8"}),
    "spec.mpiReplicaSpecs.Launcher.replicas": job(LAUNCHER, {"replicas": "1"}),
    "spec.runPolicy.backoffLimit": job(("spec",), {"runPolicy": {"backoffLimit": True}}),
    "spec.runPolicy.suspend": job(("spec",), {"runPolicy": {"suspend": "true"}}),
    "spec.backoffLimit": {**JOB, "spec": {**INDEXED, "template": ENDING, "backoffLimit": "0"}},
    "spec.replicatedJobs[0].template.spec.activeDeadlineSeconds": {
        **DEADLINES["a JobSet"],
        "spec": {"replicatedJobs": [{"template": {"spec": {**INDEXED, "activeDeadlineSeconds": "60"}}}]},
    },
    "spec.nprocPerNode": {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "p"},
        "spec": {"nprocPerNode": 8, "pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
    },
}


@pytest.mark.parametrize("field", QUOTED)
def test_numbers_in_quotes_outside_of_the_templates_are_refused_as_well(field: str) -> None:
    """Protects from a preview that places what kubectl refuses."""
    (shown,) = preview(TABLE, read_documents(dump_yaml(QUOTED[field])))
    (text,) = (text for text in shown.report["warnings"] if "the API server refuses" in text)
    assert text.startswith(f"the API server refuses {field}: must be ")


def test_numbers_of_kinds_that_are_not_packaged_may_be_texts() -> None:
    """Protects another kind, and an object in a template, from a false warning."""
    other = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"replicas": "1"}}
    csi = {"volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"size": "1Gi"}}}]}
    for obj in (other, job(POD, csi)):
        assert list(find_refusals(TABLE, obj)) == []


def test_what_a_denial_names_is_not_named_again() -> None:
    """Protects people from reading of one mistake twice."""
    (shown,) = preview(TABLE, read_documents(dump_yaml(job(POD, {"affinity": "x"}))))
    assert "affinity must be a map" in shown.report["sentence"]
    assert shown.report["warnings"] == []


def test_programs_may_look_like_templates() -> None:
    """Protects from false warnings: shells, Docker and Argo write like that."""
    container = (*LAUNCHER, "template", "spec", "containers", 0)
    words = {"args": ["echo $HOME ${X} {{x}} {%"], "env": [{"name": "A", "value": "${B}"}]}
    assert list(find_refusals(TABLE, job(container, words))) == []


def test_templates_of_another_kind_are_for_its_controller() -> None:
    """Protects from false warnings about Argo's Workflows, policies and alerts, except about their names."""
    alert = {"apiVersion": "example.com/v1", "kind": "Alert", "metadata": {"name": "$NAME"}}
    (shown,) = preview(TABLE, read_documents(json.dumps({**alert, "spec": {"text": "{{ $labels.x }} <x>"}})))
    assert [text.rpartition(": ")[2] for text in shown.report["warnings"]] == ['metadata.name is "$NAME"']


UNREADABLE = {
    "replicas: {{ n }}\n": "jinja2 FILE",
    "metadata:\n  name: {{ .Release.Name }}-x\n": "helm template CHART",
    'metadata:\n  labels:\n    {{- include "x" . | nindent 4 }}\n': "helm template CHART",
    "{% for n in nodes %}\nname: {{ n }}\n{% endfor %}\n": "jinja2 FILE",
    "{# of Jinja #}\nname: x\n": "jinja2 FILE",
    "metadata: {name: ${NAME}, labels: {}}\n": "envsubst < FILE",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_template_is_named_with_the_command_that_renders_it(text: str) -> None:
    """Protects from advice about YAML that is none."""
    with pytest.raises(DocumentError, match="this looks like a template of") as caught:
        read_documents(text)
    assert UNREADABLE[text] in str(caught.value)


def test_a_mistake_in_a_text_with_a_shell_command_is_no_template() -> None:
    """Protects from blaming what is right for a slip elsewhere."""
    text = "command: [sh, -c, 'echo ${HOME} {{x}}']\nargs:\n- a\nb: 1: 2\n"
    with pytest.raises(DocumentError) as caught:
        read_documents(text)
    assert "template" not in str(caught.value)


@pytest.mark.parametrize("form", ["diff", "json", "yaml", "why", "github", "junit"])
def test_a_file_that_cannot_be_read_hides_no_other(form: str) -> None:
    """Protects folders with a patch, a chart or a README in YAML among the jobs."""
    bad = "18-one-bad-file/z-kustomize-patch.yaml"
    result = run("-f", str(FIELD / "18-one-bad-file"), "-f", str(FIELD / "none.yaml"), "-o", form)
    assert result.exit_code == 2
    assert "base" in result.stdout
    assert bad in result.output
    assert "a Kubernetes object is a map with apiVersion and kind" in unfolded(result.output)
    assert "No such file" in result.output


HOSTILE = {
    "one word": "a" * 300_000 + HOSTFILE,
    "many options": f"-f {HOSTFILE} " * 15_000,
    "many variables": f"a={HOSTFILE} $a -" * 15_000,
    "many commands": f"mpirun;{HOSTFILE}\n" * 15_000,
    "dashes": f"{HOSTFILE} -" + "-host" * 60_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_command_is_searched_once_for_any_content(name: str) -> None:
    """Protects reviews: a pattern that begins again at every letter takes minutes, and a test one second."""
    launched(HOSTILE[name])


def test_many_names_are_not_all_compared_with_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects reviews of objects with thousands of keys and resources."""
    compared: list[str] = []
    monkeypatch.setattr(faults, "nearest", lambda name, _: compared.append(name))
    obj = job(("metadata",), {"labels": {f"ultra-{number}": "" for number in range(1000)}})
    limits = {f"neuron-{number}": 1 for number in range(1000)}
    get(obj, CONTAINER)["resources"] = {"limits": limits}
    warnings(obj)
    assert 0 < len(compared) < 200


def test_jobs_as_people_write_them_have_no_warning() -> None:
    """Protects people from false warnings: the repository's own jobs, those of the documents too."""
    files = [*REPOSITORY.glob("examples/**/*.yaml"), *REPOSITORY.glob("tests/data/*/*.yaml")]
    files += REPOSITORY.glob("tests/rules/cases/*/mpijob.yaml")
    documents = [
        each
        for file in files
        if file.parent.name != "field"
        for each in expand_lists(read_documents(file.read_bytes(), str(file)))
    ]
    sorts = {rule.name for rule in DEFAULT.rules if rule.match.fault}
    assert len(documents) > 8
    for each in documents:
        for table in (DEFAULT, TABLE):
            outcome = evaluate(table, Request(each.value))
            assert sorts.isdisjoint(outcome.fired()), each.source
        assert list(find_refusals(TABLE, each.value)) == [], each.source
