"""Tests of jobs with device claims: which jobs are candidates, their node config, and added claims."""

from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from webhook.engine import Outcome, Request, evaluate, messages
from webhook.rules.load import load_default, load_texts

INJECT = "ultraserver-webhook.io/inject"
CONFIG = "ultraserver-webhook.io/node-config"
NEURON = "aws.amazon.com/neuron"
PATH = "spec.mpiReplicaSpecs.Worker.template.spec.resourceClaims"
SHARED = {"name": "shared", "resourceClaimName": "one"}
TABLE = """
apiVersion: ultraserver-webhook.io/v1alpha2
kind: RuleTable
extends: default
families: [{name: trn2u, claims: {few-*: {takes: 4}, all-*: {takes: 16}}}]
"""


def claims_by_template(*names: str) -> dict[str, Any]:
    """Returns the part of a pod spec that claims devices by these ResourceClaimTemplates."""
    return {
        "resourceClaims": [
            {"name": f"c{index}", "resourceClaimTemplateName": name} for index, name in enumerate(names)
        ]
    }


def claim(template: str, index: int = 0) -> str:
    """Returns the place of a claim, as messages name it."""
    return f"the template {template} at {PATH}[{index}].resourceClaimTemplateName"


def outcome_of(job: Any, table: str = TABLE) -> Outcome:
    return evaluate(load_texts([("own.yaml", table)], "own.yaml"), Request(job, "team"))


def job_claiming(*names: str, workers: int = 4, **options: Any) -> Any:
    return mpijob(workers, resource=None, worker_spec=claims_by_template(*names), **options)


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
def test_a_job_that_claims_whole_nodes_is_a_candidate_with_the_node_config_of_its_claim(
    names: tuple[str, ...], workers: int, shape: str, config: str
) -> None:
    outcome = outcome_of(job_claiming(*names, workers=workers))
    assert (outcome.denials, outcome.facts["shape"], outcome.facts["nodeConfig"]) == ((), shape, config)
    template = next(name for name in names if name != "efa")
    assert outcome.reason == messages.claims_node(template)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (claims_by_template("few-neurons"), messages.claims_less("few-neurons") + messages.OPTS_IN),
        (claims_by_template("strange"), messages.claims_unknown("strange", "trn2u") + messages.OPTS_IN),
        ({"resourceClaims": [SHARED]}, messages.shares_claim("one") + messages.OPTS_IN),
        (
            {"resourceClaims": [*claims_by_template("us-4-node-config")["resourceClaims"], SHARED]},
            messages.shares_claim("one") + messages.OPTS_IN,
        ),
        ({"resourceClaims": [{"name": "c"}, 7, None]}, messages.no_device(NEURON)),
        ({"resourceClaims": {"name": "c"}}, messages.no_device(NEURON)),
    ],
)
def test_a_job_with_other_claims_is_not_changed_and_has_a_reason(spec: dict[str, Any], reason: str) -> None:
    outcome = outcome_of(mpijob(4, resource=None, worker_spec=spec))
    assert (outcome.reason, outcome.operations) == (reason, ())


@pytest.mark.parametrize(
    ("job", "denial"),
    [
        (
            job_claiming("us-2-node-config", annotations={CONFIG: "4"}),
            messages.two_configs(f"metadata.annotations[{CONFIG}]", '"4"', claim("us-2-node-config"), '"2"'),
        ),
        (
            job_claiming("us-4-node-config", "us-2-node-config"),
            messages.two_configs(claim("us-4-node-config"), '"4"', claim("us-2-node-config", 1), '"2"'),
        ),
        (
            job_claiming("us-4-node-config", workers=2),
            messages.do_not_fit(
                "2 workers do", 4, claim("us-4-node-config"), "4 or a multiple of 4", "2 or 1"
            ),
        ),
    ],
)
def test_a_claim_that_conflicts_with_a_node_config_or_a_size_is_refused(job: Any, denial: str) -> None:
    assert outcome_of(job).denials == (denial,)


def test_a_launcher_with_ranks_gets_a_warning_only_if_the_script_writes_a_file() -> None:
    """If the workers claim devices, the DRA driver sets the node config, and the script writes no file."""
    for job, has_warning in (
        (mpijob(3), True),
        (mpijob(3, resource=None, annotations={INJECT: "true"}), False),
    ):
        job["spec"]["runLauncherAsWorker"] = True
        rows = (REPOSITORY / "docs/claims.md").read_text(encoding="utf-8")
        rows = rows.partition("```yaml 41-claims-for-opted-in.yaml\n")[2].partition("```")[0]
        assert any("launcher.env" in text for text in outcome_of(job, rows).warnings) is has_warning


def test_each_template_of_a_job_gets_the_claim_in_its_container() -> None:
    leader, worker = ({"spec": {"containers": [{"name": name, "image": "i"}]}} for name in ("lead", "work"))
    job = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "vllm", "annotations": {INJECT: "true"}},
        "spec": {"leaderWorkerTemplate": {"size": 4, "leaderTemplate": leader, "workerTemplate": worker}},
    }
    outcome = outcome_of(job, TABLE + "rules: [{name: claims-for-opted-in, mode: enforce}]")
    assert outcome.warnings == ()
    for template in ("leaderTemplate", "workerTemplate"):
        pod = outcome.after["spec"]["leaderWorkerTemplate"][template]["spec"]
        assert pod["containers"][0]["resources"] == {"claims": [{"name": "neurons"}]}


def leaderworkerset(leader: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    template = {
        "size": 4,
        "leaderTemplate": {"spec": {**CONTAINERS, **leader}},
        "workerTemplate": {"spec": {**CONTAINERS, **worker}},
    }
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"} | {
        "spec": {"replicas": 2, "leaderWorkerTemplate": template}
    }


CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
CLAIM = claims_by_template("us-4-node-config")


@pytest.mark.parametrize(("leader", "worker"), [(CLAIM, CLAIM), (CLAIM, {}), ({}, CLAIM)])
def test_a_claim_of_the_leader_or_of_the_workers_makes_a_candidate(leader: Any, worker: Any) -> None:
    outcome = evaluate(
        load_default(), Request(leaderworkerset(leader, worker) | {"metadata": {"name": "train"}}, "team")
    )
    assert outcome.reason == messages.claims_node("us-4-node-config")
    assert (outcome.denials, outcome.facts["shape"], outcome.facts["nodes"]) == ((), "four-node", "4")


def test_a_leader_and_workers_with_different_node_configs_are_refused() -> None:
    job = leaderworkerset(claims_by_template("us-4-node-config"), claims_by_template("us-2-node-config")) | {
        "metadata": {"name": "x"}
    }
    (denial,) = evaluate(load_default(), Request(job, "team")).denials
    assert ".leaderTemplate." in denial
    assert ".workerTemplate." in denial


def test_only_the_pods_of_a_jobset_that_claim_a_node_take_nodes() -> None:
    def replicated(name: str, spec: dict[str, Any]) -> dict[str, Any]:
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        job = {"spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": pod}}
        return {"name": name, "replicas": 1, "template": job}

    jobs = [replicated("driver", {}), replicated("node", claims_by_template("us-4-node-config"))]
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}
    outcome = evaluate(load_default(), Request(jobset | {"spec": {"replicatedJobs": jobs}}, "team"))
    assert (outcome.facts["shape"], outcome.facts["nodes"]) == ("four-node", "4")
