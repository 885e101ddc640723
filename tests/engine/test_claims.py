"""Jobs that claim their devices: which are candidates, and what they get."""

from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from webhook.engine import Outcome, Request, evaluate
from webhook.rules.load import load_default, load_texts

INJECT = "ultraserver-webhook.io/inject"
CONFIG = "ultraserver-webhook.io/node-config"
PATH = "spec.mpiReplicaSpecs.Worker.template.spec.resourceClaims[0].resourceClaimTemplateName"
SHARED = {"name": "shared", "resourceClaimName": "one"}
OWN = """
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
extends: default
families: [{name: trn2u, claims: {few-*: {takes: 4}, all-*: {takes: 16}}}]
"""


def by_template(*names: str) -> dict[str, Any]:
    """Returns the part of a pod spec that claims by templates."""
    return {
        "resourceClaims": [
            {"name": f"c{index}", "resourceClaimTemplateName": name} for index, name in enumerate(names)
        ]
    }


def outcome_of(job: Any, table: str = OWN) -> Outcome:
    return evaluate(load_texts([("own.yaml", table)], "own.yaml"), Request(job, "team"))


def claiming(*names: str, workers: int = 4, **more: Any) -> Any:
    return mpijob(workers, resource=None, worker_spec=by_template(*names), **more)


def fired(outcome: Outcome) -> set[str]:
    return {row.name for row in outcome.rules if row.state == "fired"}


@pytest.mark.parametrize(
    ("names", "workers", "shape", "config"),
    [
        (("us-4-node-config",), 4, "four-node", "4"),
        (("us-4-node-config",), 8, "multi-node", "4"),
        (("us-2-node-config",), 4, "multi-pair", "2"),
        (("us-1-node-config",), 4, "singles", "1"),
        (("efa", "us-2-node-config"), 2, "two-node", "2"),
        (("all-neurons",), 4, "four-node", "4"),
    ],
)
def test_a_claim_of_a_node_makes_a_candidate_of_its_node_config(
    names: tuple[str, ...], workers: int, shape: str, config: str
) -> None:
    outcome = outcome_of(claiming(*names, workers=workers))
    assert (outcome.denials, outcome.facts["shape"], outcome.facts["nodeConfig"]) == ((), shape, config)
    known = next(name for name in names if name != "efa")
    assert outcome.reason == f"its workers claim a node by the template {known}"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (by_template("few-neurons"), "its workers claim less than a node by the template few-neurons"),
        (by_template("strange"), "the template strange, which the table does not know"),
        ({"resourceClaims": [SHARED]}, "its workers share the claim one"),
        (
            {"resourceClaims": [*by_template("us-4-node-config")["resourceClaims"], SHARED]},
            "its workers share the claim one",
        ),
        ({"resourceClaims": [{"name": "c"}, 7, None]}, "the workers request no aws.amazon.com/neuron"),
        ({"resourceClaims": {"name": "c"}}, "the workers request no aws.amazon.com/neuron"),
    ],
)
def test_other_claims_leave_a_job_alone_with_a_reason(entry: dict[str, Any], text: str) -> None:
    outcome = outcome_of(mpijob(4, resource=None, worker_spec=entry))
    assert text in outcome.reason
    assert outcome.operations == ()


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (
            claiming("us-2-node-config", annotations={CONFIG: "4"}),
            f"[{CONFIG}] is for node config 4, and the template us-2-node-config at {PATH} for 2",
        ),
        (claiming("us-4-node-config", "us-2-node-config"), "the template us-4-node-config at"),
        (claiming("us-4-node-config", workers=2), "2 workers do not fit node config 4 of "),
    ],
)
def test_a_job_that_names_two_node_configs_is_refused_with_both_places(job: Any, text: str) -> None:
    assert text in outcome_of(job).denials[0].replace('"', "")


def test_a_launcher_with_ranks_gets_a_warning_only_if_the_script_writes_a_file() -> None:
    """Where the driver sets the mode there is none."""
    for job, warns in ((mpijob(3), True), (mpijob(3, resource=None, annotations={INJECT: "true"}), False)):
        job["spec"]["runLauncherAsWorker"] = True
        rows = (REPOSITORY / "docs/claims.md").read_text(encoding="utf-8")
        rows = rows.partition("```yaml 41-claims-for-opted-in.yaml\n")[2].partition("```")[0]
        assert any("launcher.env" in text for text in outcome_of(job, rows).warnings) is warns


def test_each_of_a_jobs_templates_gets_the_claim_in_a_container_of_its_own() -> None:
    leader, worker = ({"spec": {"containers": [{"name": name, "image": "i"}]}} for name in ("lead", "work"))
    job = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "vllm", "annotations": {INJECT: "true"}},
        "spec": {"leaderWorkerTemplate": {"size": 4, "leaderTemplate": leader, "workerTemplate": worker}},
    }
    outcome = outcome_of(job, OWN + "rules: [{name: claims-for-opted-in, mode: enforce}]")
    assert outcome.warnings == ()
    for template in ("leaderTemplate", "workerTemplate"):
        pod = outcome.after["spec"]["leaderWorkerTemplate"][template]["spec"]
        assert pod["containers"][0]["resources"] == {"claims": [{"name": "neurons"}]}


def lws(leader: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    template = {
        "size": 4,
        "leaderTemplate": {"spec": {**CONTAINERS, **leader}},
        "workerTemplate": {"spec": {**CONTAINERS, **worker}},
    }
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"} | {
        "spec": {"replicas": 2, "leaderWorkerTemplate": template}
    }


CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
CLAIM = by_template("us-4-node-config")


@pytest.mark.parametrize(("leader", "worker"), [(CLAIM, CLAIM), (CLAIM, {}), ({}, CLAIM)])
def test_a_claim_of_the_leader_or_of_the_workers_makes_a_candidate(leader: Any, worker: Any) -> None:
    outcome = evaluate(load_default(), Request(lws(leader, worker) | {"metadata": {"name": "train"}}, "team"))
    assert outcome.reason == "its workers claim a node by the template us-4-node-config"
    assert (outcome.denials, outcome.facts["shape"], outcome.facts["nodes"]) == ((), "four-node", "4")


def test_a_leader_and_workers_of_two_modes_are_refused() -> None:
    job = lws(by_template("us-4-node-config"), by_template("us-2-node-config")) | {"metadata": {"name": "x"}}
    (denial,) = evaluate(load_default(), Request(job, "team")).denials
    assert ".leaderTemplate." in denial
    assert ".workerTemplate." in denial


def test_of_a_jobset_those_pods_take_nodes_that_claim_one() -> None:
    def replicated(name: str, spec: dict[str, Any]) -> dict[str, Any]:
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        job = {"spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": pod}}
        return {"name": name, "replicas": 1, "template": job}

    jobs = [replicated("driver", {}), replicated("node", by_template("us-4-node-config"))]
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}
    outcome = evaluate(load_default(), Request(jobset | {"spec": {"replicatedJobs": jobs}}, "team"))
    assert (outcome.facts["shape"], outcome.facts["nodes"]) == ("four-node", "4")
