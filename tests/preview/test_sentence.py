"""Tests of the sentence with which every preview begins: a case for each form of the sentence."""

from pathlib import Path
from typing import Any

import pytest

from contract.placement import Placer
from testbed.mpijob import mpijob
from tests.plane.kinds.jobs import jobset, leaderworkerset
from webhook.documents import dump_yaml, read_documents
from webhook.objects.tree import Json, put
from webhook.preview import messages
from webhook.preview.report import Preview
from webhook.preview.run import preview
from webhook.preview.text import totals
from webhook.rules.load import load_installed

TABLE_HEADER = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
WAITS = "the job waits until "
ALONE = "shared with no other job"
ONE_BY_ONE = messages.STARTS[Placer.SCHEDULER]
ONE_NODE = {"resources": {"limits": {"aws.amazon.com/neuron": 16}}}
IF_JOBS_ARE_SENT = messages.if_chart_has("`kinds: [jobs.v1.batch]`")
MISSPELT = messages.misspelt_resource(24, "aws.amazon.com/neurons", "aws.amazon.com/neuron")
ONE_ULTRASERVER = f"4 workers on one whole UltraServer, {ALONE}"


def worker_spec(obj: Any) -> Any:
    return obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]


def job_requesting(resource: str | None, **spec: Any) -> Any:
    obj = mpijob(4)
    for container in worker_spec(obj)["containers"]:
        container["resources"] = {"limits": {resource: 16}} if resource else {}
    worker_spec(obj).update(spec)
    return obj


def with_annotations(obj: Any, **annotations: str) -> Any:
    result = {f"ultraserver-webhook.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    obj["metadata"].setdefault("annotations", {}).update(result)
    return obj


def preview_of(
    obj: Any, table: str = "", folder: Path | None = None, *, placement: bool = True, old: Json = None
) -> Preview:
    rules = None
    if folder and table:
        (rules := folder / "table.yaml").write_text(TABLE_HEADER + table)
    stored = None if old is None else read_documents(dump_yaml(old))
    installed = load_installed(rules, placement=placement)
    (item,) = preview(installed, read_documents(dump_yaml(obj)), old=stored)
    return item


def sentence_of(item: Preview) -> str:
    return str(item.report["sentence"])


def job_whose_launcher_runs_ranks() -> Any:
    """Returns a job of three workers whose launcher takes the fourth node."""
    obj = put(mpijob(3), ("spec", "runLauncherAsWorker"), value=True)
    launcher = ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers", 0, "resources")
    return put(obj, launcher, {"limits": {"aws.amazon.com/neuron": 16}})


def nonindexed_job(workers: int) -> Any:
    """Returns a NonIndexed Job."""
    spec = {"parallelism": workers, "template": mpijob(4)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


SENTENCES = {
    "one node": (mpijob(1), f"placed: 1 worker on one node; {WAITS}a node is free"),
    "a pair": (
        mpijob(2),
        f"placed: 2 workers on one pair of nodes of an UltraServer, {ALONE}; {WAITS}both nodes are free",
    ),
    "one UltraServer": (mpijob(4), f"placed: {ONE_ULTRASERVER}; {WAITS}all 4 nodes are free"),
    "pairs": (
        mpijob(6),
        (
            f"placed: 6 workers in blocks of 2 on 3 pairs of nodes of UltraServers, {ALONE}; "
            f"{WAITS}all 6 nodes are free"
        ),
    ),
    "UltraServers": (
        mpijob(8),
        f"placed: 8 workers in blocks of 4 on 2 whole UltraServers, {ALONE}; {WAITS}all 8 nodes are free",
    ),
    "no pairs": (mpijob(3), f"placed: 3 workers on any 3 nodes; {WAITS}all 3 nodes are free"),
    "a device claim": (
        mpijob(4, claim="us-4-node-config"),
        f"placed: {ONE_ULTRASERVER}; {WAITS}all 4 nodes are free",
    ),
    "a launcher with ranks": (
        job_whose_launcher_runs_ranks(),
        f"placed: 4 Pods{ONE_ULTRASERVER[9:]}; {WAITS}all 4 nodes are free",
    ),
    "a NonIndexed Job": (
        nonindexed_job(8),
        f"placed: {IF_JOBS_ARE_SENT}8 workers on 8 nodes, {ALONE}; {ONE_BY_ONE}",
    ),
    "a NonIndexed Job of one block": (
        nonindexed_job(4),
        f"placed: {IF_JOBS_ARE_SENT}{ONE_ULTRASERVER}; {ONE_BY_ONE}",
    ),
    "a NonIndexed Job in a JobSet": (
        put(jobset(2, 4), ("spec", "replicatedJobs", 0, "template", "spec", "completionMode"), "NonIndexed"),
        (
            "placed: if the chart has the value `kinds: [jobsets.v1alpha2.jobset.x-k8s.io]`, "
            f"8 workers on 8 nodes, {ALONE}; {ONE_BY_ONE}"
        ),
    ),
    "a native gang": (
        job_requesting("aws.amazon.com/neuron", schedulingGroup={"podGroupName": "gang"}),
        f"placed: 4 workers on 4 nodes; {messages.STARTS[Placer.GANG]}",
    ),
    "workers that name a node": (
        job_requesting("aws.amazon.com/neuron", nodeName="n1"),
        f"not placed: {messages.NAMES_NODE}",
    ),
    "another scheduler": (
        job_requesting("aws.amazon.com/neuron", schedulerName="mine"),
        f"placed: {ONE_ULTRASERVER}; {ONE_BY_ONE}",
    ),
    "more devices than a node has": (
        job_requesting(
            "aws.amazon.com/neuron", containers=[{"name": "w", **ONE_NODE}, {"name": "x", **ONE_NODE}]
        ),
        "not placed: "
        + messages.no_node(
            "a worker requests 32, and no node has more than 16: "
            "request less at spec.mpiReplicaSpecs.Worker.template.spec.containers[0]."
            "resources.limits[aws.amazon.com/neuron], and use more workers"
        ),
    ),
    "another architecture": (
        job_requesting("aws.amazon.com/neuron", nodeSelector={"kubernetes.io/arch": "arm64"}),
        "not placed: "
        + messages.no_node(
            "the node selector or required affinity of the workers"
            " excludes kubernetes.io/arch amd64, or kubernetes.io/os linux, which the nodes of"
            " trn2u.48xlarge have; remove this condition"
        ),
    ),
    "a misspelt resource": (
        job_requesting("aws.amazon.com/neurons"),
        f"not placed: the workers request no aws.amazon.com/neuron. {MISSPELT}",
    ),
    "no devices": (
        job_requesting(None, nodeSelector={"node.kubernetes.io/instance-type": "trn2u.48xlarge"}),
        "not placed: the workers request no aws.amazon.com/neuron",
    ),
    "a misspelt resource on UltraServers": (
        job_requesting(
            "aws.amazon.com/neurons", nodeSelector={"node.kubernetes.io/instance-type": "trn2u.48xlarge"}
        ),
        f"not placed: the workers request no aws.amazon.com/neuron. {MISSPELT}",
    ),
    "a misspelt resource, opted out": (
        with_annotations(job_requesting("aws.amazon.com/neurons"), inject="false"),
        "not placed: opted out by ultraserver-webhook.io/inject",
    ),
    "opted out": (
        with_annotations(mpijob(4), inject="false"),
        "not placed: opted out by ultraserver-webhook.io/inject",
    ),
    "a forged placement annotation": (
        with_annotations(mpijob(4), inject="false", place="placer=gate workers=4 size=4 unit=x"),
        "not placed: opted out by ultraserver-webhook.io/inject",
    ),
    "another kind": (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}},
        "not placed: no workload of the rule table matches kind apps/v1/Deployment",
    ),
    "a number of workers that does not fit": (
        with_annotations(mpijob(6), node_config="4"),
        (
            "refused: 6 workers do not fit node config 4 of "
            "metadata.annotations[ultraserver-webhook.io/node-config]: "
            "it takes 4 or a multiple of 4 workers; change the number of workers, or use node config 2 or 1"
        ),
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_the_sentence_describes_the_placement(case: str) -> None:
    obj, text = SENTENCES[case]
    assert sentence_of(preview_of(obj)) == text


def test_without_whole_job_admission_the_scheduler_places_the_pods() -> None:
    where = "in blocks of 4, on whole units where the scheduler finds them"
    text = sentence_of(preview_of(mpijob(8), placement=False))
    assert text == f"placed: 8 workers {where}, {ALONE}; {ONE_BY_ONE}"


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ('mode: "off"', "not placed: the whole rule table is switched off"),
        (
            "policies: [{mode: off, reason: They move.}]",
            "not placed: the whole rule table is switched off for it, by the policy: They move.",
        ),
        (
            "policies: [{mode: shadow, reason: They move.}]",
            (
                "not placed: the whole rule table only reports for it, by the policy: They move; its workers "
                f"ask for aws.amazon.com/neuron. If shadow mode ended: {ONE_ULTRASERVER}"
            ),
        ),
        (
            "mode: shadow",
            (
                "not placed: the whole rule table only reports; its workers ask for aws.amazon.com/neuron. "
                f"If shadow mode ended: {ONE_ULTRASERVER}"
            ),
        ),
    ],
)
def test_a_table_that_is_not_enforced_places_no_job(mode: str, text: str, tmp_path: Path) -> None:
    assert sentence_of(preview_of(mpijob(4), f"{mode}\n", tmp_path)) == text


def test_a_job_that_gets_no_job_label_is_not_placed_for_this_reason(tmp_path: Path) -> None:
    """The reason is the missing label, and not the warning, which also contains "not placed"."""
    table = (
        "rules:\n- {name: job-label, mode: off}\n"
        "- {name: ours, reason: x, match: {role: worker}, warn: this is not placed}\n"
    )
    item = preview_of(mpijob(4), table, tmp_path)
    assert "this is not placed" in item.report["warnings"]
    assert sentence_of(item) == f"not placed: {messages.no_job_label(item.report['reason'])}"


def test_a_mutated_job_has_the_sentence_of_the_job_before_its_mutation() -> None:
    item = preview_of(mpijob(4))
    assert sentence_of(preview_of(item.run.outcome.after)) == sentence_of(item)


RUNNING: Json = {"startTime": "2026-11-25T12:00:00Z"}
SUCCEEDED: Json = RUNNING | {"conditions": [{"type": "Succeeded", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (RUNNING, f"placed: {ONE_ULTRASERVER}; {messages.PLACE_KEPT}"),
        (SUCCEEDED, f"not placed: {messages.ENDED}"),
    ],
    ids=["running", "ended"],
)
def test_the_preview_of_an_update_of_a_job_with_pods_describes_these_pods(status: Json, text: str) -> None:
    """Protects users from "not placed" for a running job, whose file has no placement annotation."""
    stored = {**preview_of(mpijob(4)).run.outcome.after, "status": status}
    assert sentence_of(preview_of(mpijob(4), old=stored)) == text


@pytest.mark.parametrize("workers", [8, 3])
def test_the_preview_of_a_resized_running_job_describes_its_running_pods(workers: int) -> None:
    """A running job keeps its pods, so the preview must not describe the placement of the new size."""
    stored = {**preview_of(mpijob(4)).run.outcome.after, "status": RUNNING}
    assert (
        sentence_of(preview_of(mpijob(workers), old=stored))
        == f"placed: {ONE_ULTRASERVER}; {messages.recreate_for(workers)}"
    )


def test_the_sentence_mentions_that_a_leaderworkerset_has_no_groups() -> None:
    """Protects users from "placed" for Pods that no operator creates."""
    obj = put(leaderworkerset(1, 4), ("spec", "replicas"), 0)
    assert "each group, of which there is none now: 4 " in sentence_of(preview_of(obj))


def test_a_job_in_a_namespace_that_the_webhook_does_not_get_is_not_placed() -> None:
    """Protects users from "placed" for a job that the webhook never receives."""
    for obj in (mpijob(4), with_annotations(mpijob(6), node_config="4")):
        obj["metadata"]["namespace"] = "kube-system"
        item = preview_of(obj)
        assert sentence_of(item) == f"not placed: {messages.not_called('kube-system')}"
        assert (item.report["patch"], item.report["denials"], item.report["warnings"]) == ([], [], [])
        assert len(item.report["notes"]) == 1
    template = job_requesting("aws.amazon.com/neuron")["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    text = sentence_of(preview_of(with_annotations(job, node_config="4")))
    assert text.startswith(f"refused: {IF_JOBS_ARE_SENT}1 worker does not")


DISABLED_ROWS = {
    "together": ("together-required together-preferred", 4, f"placed: 4 workers on 4 nodes, {ALONE}"),
    "blocks": ("together-required together-preferred", 8, f"placed: 8 workers on 8 nodes, {ALONE}"),
    "nodes": ("nodes-with-server-id", 4, f"placed: 4 workers on 4 nodes, {ALONE}"),
    "apart": ("apart-across-namespaces", 4, "placed: 4 workers on one whole UltraServer"),
}


@pytest.mark.parametrize("mode", ["off", "shadow"])
@pytest.mark.parametrize("case", DISABLED_ROWS)
def test_the_sentence_promises_only_the_terms_of_enforced_rows(case: str, mode: str, tmp_path: Path) -> None:
    """Protects users from promises of rows that are off or in shadow mode."""
    names, workers, text = DISABLED_ROWS[case]
    rows = ", ".join(f'{{name: {name}, mode: "{mode}"}}' for name in names.split())
    item = preview_of(mpijob(workers), f"rules: [{rows}]\n", tmp_path, placement=False)
    assert sentence_of(item) == f"{text}; {ONE_BY_ONE}"


@pytest.mark.parametrize(
    ("requests", "where"),
    [
        ({}, "in blocks of 4 on 2 whole UltraServers"),
        ({"required-topology": "kubernetes.io/hostname"}, "on 8 nodes"),
        (
            {"slice-required-topology": "neuron.amazonaws.com/ultraserver-server-id-4", "slice-size": "4"},
            "in blocks of 4 on 2 whole UltraServers",
        ),
        (
            {"slice-required-topology": "neuron.amazonaws.com/ultraserver-server-id-4", "slice-size": "8"},
            "on 8 nodes",
        ),
    ],
    ids=["no topology", "nodes", "slices of 4", "slices of 8"],
)
def test_the_sentence_promises_only_the_topology_that_workers_request_from_kueue(
    requests: dict[str, str], where: str, tmp_path: Path
) -> None:
    """The sentence does not depend on the warning of kueue-not-whole, which is off."""
    rows = "rules: [{name: kueue-chooses-nodes, mode: enforce}, {name: kueue-not-whole, mode: off}]\n"
    obj = put(mpijob(8), ("metadata", "labels"), {"kueue.x-k8s.io/queue-name": "team"})
    annotations = {f"kueue.x-k8s.io/podset-{key}": value for key, value in requests.items()}
    obj = put(
        obj, ("spec", "mpiReplicaSpecs", "Worker", "template", "metadata"), {"annotations": annotations}
    )
    item = preview_of(obj, rows, tmp_path)
    assert sentence_of(item) == f"placed: 8 workers {where}; {messages.STARTS[Placer.KUEUE]}"


def test_the_last_line_has_the_number_of_objects_of_each_verdict() -> None:
    items = [preview_of(obj) for obj, _ in SENTENCES.values()]
    assert totals(items) == "13 placed, 10 not placed, 1 refused"


def test_a_group_without_anti_affinity_against_other_jobs_is_not_reported_as_alone() -> None:
    """The anti-affinity is only against groups of this object, so other jobs may be next to the group."""
    obj = with_annotations(leaderworkerset(1, 4))
    obj["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "x"}
    assert ALONE in sentence_of(preview_of(obj))
    for name, template in obj["spec"]["leaderWorkerTemplate"].items():
        if name.endswith("Template"):
            template["spec"]["resourceClaims"] = [
                {"name": "all", "resourceClaimTemplateName": "us-4-node-config"}
            ]
            template["spec"]["containers"][0]["resources"] = {"claims": [{"name": "all"}]}
    text = sentence_of(preview_of(obj))
    assert "4 Pods on one whole UltraServer" in text.replace("workers", "Pods")
    assert ALONE not in text
