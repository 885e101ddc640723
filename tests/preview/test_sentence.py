"""The sentence that every preview begins with: one case for each of its forms."""

from pathlib import Path
from typing import Any

import pytest

from contract.place import Placer
from testbed.mpijob import mpijob
from tests.plane.kinds.jobs import jobset, leaderworkerset
from webhook.documents import dump_yaml, read_documents
from webhook.objects.tree import Json, put
from webhook.preview import messages
from webhook.preview.report import Preview
from webhook.preview.run import preview
from webhook.preview.text import totals
from webhook.rules.load import load_installed

TABLE = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
WAITS = "the job waits until "
ALONE = "shared with no other job"
ONE_BY_ONE = messages.STARTS[Placer.SCHEDULER]
LIMITS = {"resources": {"limits": {"aws.amazon.com/neuron": 16}}}
WITH_JOBS = "if the chart has the value `kinds: [jobs.v1.batch]`, "
ONE = f"4 workers on one whole UltraServer, {ALONE}"


def worker(obj: Any) -> Any:
    return obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]


def requesting(resource: str | None, **spec: Any) -> Any:
    obj = mpijob(4)
    for container in worker(obj)["containers"]:
        container["resources"] = {"limits": {resource: 16}} if resource else {}
    worker(obj).update(spec)
    return obj


def annotated(obj: Any, **annotations: str) -> Any:
    result = {f"ultraserver-webhook.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    obj["metadata"].setdefault("annotations", {}).update(result)
    return obj


def shown(
    obj: Any, table: str = "", folder: Path | None = None, *, placement: bool = True, old: Json = None
) -> Preview:
    rules = None
    if folder and table:
        (rules := folder / "table.yaml").write_text(TABLE + table)
    stored = None if old is None else read_documents(dump_yaml(old))
    installed = load_installed(rules, placement=placement)
    (item,) = preview(installed, read_documents(dump_yaml(obj)), old=stored)
    return item


def sentence(item: Preview) -> str:
    return str(item.report["sentence"])


def with_ranks() -> Any:
    """Returns a job of three workers whose launcher takes the fourth node."""
    obj = put(mpijob(3), ("spec", "runLauncherAsWorker"), value=True)
    launcher = ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers", 0, "resources")
    return put(obj, launcher, {"limits": {"aws.amazon.com/neuron": 16}})


def without_numbers(workers: int) -> Any:
    """Returns a NonIndexed Job."""
    spec = {"parallelism": workers, "template": mpijob(4)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


CASES = {
    "one node": (mpijob(1), f"placed: 1 worker on one node; {WAITS}a node is free"),
    "a pair": (
        mpijob(2),
        f"placed: 2 workers on one pair of nodes of an UltraServer, {ALONE}; {WAITS}both nodes are free",
    ),
    "one UltraServer": (mpijob(4), f"placed: {ONE}; {WAITS}all 4 nodes are free"),
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
    "no units": (mpijob(3), f"placed: 3 workers on any 3 nodes; {WAITS}all 3 nodes are free"),
    "a claim": (mpijob(4, claim="us-4-node-config"), f"placed: {ONE}; {WAITS}all 4 nodes are free"),
    "a launcher with ranks": (with_ranks(), f"placed: 4 Pods{ONE[9:]}; {WAITS}all 4 nodes are free"),
    "no numbers": (
        without_numbers(8),
        f"placed: {WITH_JOBS}8 workers on 8 nodes, {ALONE}; {ONE_BY_ONE}",
    ),
    "no numbers and one block": (
        without_numbers(4),
        f"placed: {WITH_JOBS}{ONE}; {ONE_BY_ONE}",
    ),
    "no numbers in a JobSet": (
        put(jobset(2, 4), ("spec", "replicatedJobs", 0, "template", "spec", "completionMode"), "NonIndexed"),
        (
            "placed: if the chart has the value `kinds: [jobsets.v1alpha2.jobset.x-k8s.io]`, "
            f"8 workers on 8 nodes, {ALONE}; {ONE_BY_ONE}"
        ),
    ),
    "a native gang": (
        requesting("aws.amazon.com/neuron", schedulingGroup={"podGroupName": "gang"}),
        f"placed: 4 workers on 4 nodes; {messages.STARTS[Placer.GANG]}",
    ),
    "a node of its own": (
        requesting("aws.amazon.com/neuron", nodeName="n1"),
        f"not placed: {messages.NAMES_NODE}",
    ),
    "another scheduler": (
        requesting("aws.amazon.com/neuron", schedulerName="mine"),
        f"placed: {ONE}; {ONE_BY_ONE}",
    ),
    "more than a node has": (
        requesting("aws.amazon.com/neuron", containers=[{"name": "w", **LIMITS}, {"name": "x", **LIMITS}]),
        (
            "not placed: no node can take its workers: a worker requests 32, and no node has more than 16: "
            "request less at spec.mpiReplicaSpecs.Worker.template.spec.containers[0]."
            "resources.limits[aws.amazon.com/neuron], and use more workers"
        ),
    ),
    "another processor": (
        requesting("aws.amazon.com/neuron", nodeSelector={"kubernetes.io/arch": "arm64"}),
        (
            "not placed: no node can take its workers: the node selector or required affinity of the workers"
            " excludes kubernetes.io/arch amd64, or kubernetes.io/os linux, which the nodes of"
            " trn2u.48xlarge have; remove this condition"
        ),
    ),
    "a misspelt resource": (
        requesting("aws.amazon.com/neurons"),
        (
            "not placed: the workers request no aws.amazon.com/neuron. "
            "Line 24 requests aws.amazon.com/neurons; did you mean aws.amazon.com/neuron?"
        ),
    ),
    "no devices": (
        requesting(None, nodeSelector={"node.kubernetes.io/instance-type": "trn2u.48xlarge"}),
        "not placed: the workers request no aws.amazon.com/neuron",
    ),
    "a misspelt resource on UltraServers": (
        requesting(
            "aws.amazon.com/neurons", nodeSelector={"node.kubernetes.io/instance-type": "trn2u.48xlarge"}
        ),
        (
            "not placed: the workers request no aws.amazon.com/neuron. "
            "Line 24 requests aws.amazon.com/neurons; did you mean aws.amazon.com/neuron?"
        ),
    ),
    "a misspelt resource, opted out": (
        annotated(requesting("aws.amazon.com/neurons"), inject="false"),
        "not placed: opted out by ultraserver-webhook.io/inject",
    ),
    "opted out": (
        annotated(mpijob(4), inject="false"),
        "not placed: opted out by ultraserver-webhook.io/inject",
    ),
    "a forged place": (
        annotated(mpijob(4), inject="false", place="placer=gate workers=4 size=4 unit=x"),
        "not placed: opted out by ultraserver-webhook.io/inject",
    ),
    "another kind": (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}},
        "not placed: no workload of the rule table matches kind apps/v1/Deployment",
    ),
    "a number that does not fit": (
        annotated(mpijob(6), node_config="4"),
        (
            "refused: 6 workers do not fit node config 4 of "
            "metadata.annotations[ultraserver-webhook.io/node-config]: "
            "it takes 4 or a multiple of 4 workers; change the number of workers, or use node config 2 or 1"
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sentence_is_true(case: str) -> None:
    obj, text = CASES[case]
    assert sentence(shown(obj)) == text


def test_the_sentence_names_who_chooses_nodes_without_whole_job_admission() -> None:
    where = "in blocks of 4, on whole units where the scheduler finds them"
    text = sentence(shown(mpijob(8), placement=False))
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
                f"ask for aws.amazon.com/neuron. If shadow mode ended: {ONE}"
            ),
        ),
        (
            "mode: shadow",
            (
                "not placed: the whole rule table only reports; its workers ask for aws.amazon.com/neuron. "
                f"If shadow mode ended: {ONE}"
            ),
        ),
    ],
)
def test_a_table_that_does_not_enforce_places_nothing(mode: str, text: str, tmp_path: Path) -> None:
    assert sentence(shown(mpijob(4), f"{mode}\n", tmp_path)) == text


def test_a_job_with_devices_and_without_a_label_is_not_placed_for_the_label(tmp_path: Path) -> None:
    """Protects the reason from the words of a warning."""
    table = (
        "rules:\n- {name: job-label, mode: off}\n"
        "- {name: ours, reason: x, match: {role: worker}, warn: this is not placed}\n"
    )
    item = shown(mpijob(4), table, tmp_path)
    assert "this is not placed" in item.report["warnings"]
    assert sentence(item).endswith("but no rule of the table gives them a job label")


def test_a_stored_job_is_placed_as_it_was() -> None:
    once = shown(mpijob(4))
    assert sentence(shown(once.run.outcome.after)) == sentence(once)


RUNNING: Json = {"startTime": "2026-11-25T12:00:00Z"}
SUCCEEDED: Json = RUNNING | {"conditions": [{"type": "Succeeded", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (RUNNING, f"placed: {ONE}; {messages.PLACE_KEPT}"),
        (SUCCEEDED, f"not placed: {messages.ENDED}"),
    ],
    ids=["running", "ended"],
)
def test_a_preview_of_an_update_of_a_job_with_pods_has_their_place(status: Json, text: str) -> None:
    """Protects from "not placed" of a job that runs, whose file has no placement annotation."""
    stored = {**shown(mpijob(4)).run.outcome.after, "status": status}
    assert sentence(shown(mpijob(4), old=stored)) == text


@pytest.mark.parametrize("workers", [8, 3])
def test_a_job_that_runs_keeps_the_place_of_its_first_size(workers: int) -> None:
    """Protects from a preview of a new number of workers that leaves out their place."""
    stored = {**shown(mpijob(4)).run.outcome.after, "status": RUNNING}
    assert sentence(shown(mpijob(workers), old=stored)) == f"placed: {ONE}; {messages.recreate_for(workers)}"


def test_a_set_without_groups_has_a_reason() -> None:
    """Protects from "placed" of Pods that no operator creates."""
    obj = put(leaderworkerset(1, 4), ("spec", "replicas"), 0)
    assert "each group, of which there is none now: 4 " in sentence(shown(obj))


def test_nothing_is_placed_in_a_namespace_that_is_not_sent() -> None:
    """Protects from "placed" of a job that the webhook never sees."""
    for obj in (mpijob(4), annotated(mpijob(6), node_config="4")):
        obj["metadata"]["namespace"] = "kube-system"
        item = shown(obj)
        assert sentence(item) == "not placed: the webhook is not called for namespace kube-system"
        assert (item.report["patch"], item.report["denials"], item.report["warnings"]) == ([], [], [])
        assert len(item.report["notes"]) == 1
    job = requesting("aws.amazon.com/neuron")["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": job}}
    refused = sentence(shown(annotated(other, node_config="4")))
    assert refused.startswith(
        "refused: if the chart has the value `kinds: [jobs.v1.batch]`, 1 worker does not"
    )


WITHOUT_ROWS = {
    "together": ("together-required together-preferred", 4, f"placed: 4 workers on 4 nodes, {ALONE}"),
    "blocks": ("together-required together-preferred", 8, f"placed: 8 workers on 8 nodes, {ALONE}"),
    "nodes": ("nodes-with-server-id", 4, f"placed: 4 workers on 4 nodes, {ALONE}"),
    "apart": ("apart-across-namespaces", 4, "placed: 4 workers on one whole UltraServer"),
}


@pytest.mark.parametrize("mode", ["off", "shadow"])
@pytest.mark.parametrize("case", WITHOUT_ROWS)
def test_the_scheduler_keeps_only_what_the_terms_say(case: str, mode: str, tmp_path: Path) -> None:
    """Protects from a promise by rows that are off or in shadow."""
    names, workers, text = WITHOUT_ROWS[case]
    rows = ", ".join(f'{{name: {name}, mode: "{mode}"}}' for name in names.split())
    item = shown(mpijob(workers), f"rules: [{rows}]\n", tmp_path, placement=False)
    assert sentence(item) == f"{text}; {ONE_BY_ONE}"


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
    ids=["nothing", "nodes", "slices", "other slices"],
)
def test_kueue_keeps_only_what_the_workers_ask(requests: dict[str, str], where: str, tmp_path: Path) -> None:
    """Protects the sentence from the words of a warning that is switched off."""
    rows = "rules: [{name: kueue-chooses-nodes, mode: enforce}, {name: kueue-not-whole, mode: off}]\n"
    obj = put(mpijob(8), ("metadata", "labels"), {"kueue.x-k8s.io/queue-name": "team"})
    annotations = {f"kueue.x-k8s.io/podset-{key}": value for key, value in requests.items()}
    obj = put(
        obj, ("spec", "mpiReplicaSpecs", "Worker", "template", "metadata"), {"annotations": annotations}
    )
    item = shown(obj, rows, tmp_path)
    assert sentence(item) == f"placed: 8 workers {where}; {messages.STARTS[Placer.KUEUE]}"


def test_a_last_line_counts_every_verdict() -> None:
    items = [shown(obj) for obj, _ in CASES.values()]
    assert totals(items) == "13 placed, 10 not placed, 1 refused"


def test_a_group_with_unread_claims_is_not_reported_as_alone() -> None:
    """Its only anti-affinity is about other groups of the object: jobs of others may be next to it."""
    obj = annotated(leaderworkerset(1, 4))
    obj["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "x"}
    assert ALONE in sentence(shown(obj))
    for name, template in obj["spec"]["leaderWorkerTemplate"].items():
        if name.endswith("Template"):
            template["spec"]["resourceClaims"] = [
                {"name": "all", "resourceClaimTemplateName": "us-4-node-config"}
            ]
            template["spec"]["containers"][0]["resources"] = {"claims": [{"name": "all"}]}
    text = sentence(shown(obj))
    assert "4 Pods on one whole UltraServer" in text.replace("workers", "Pods")
    assert ALONE not in text
