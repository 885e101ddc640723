"""Families of machines: which one a job is for, its blocks, and what previews say; only rows name one."""

import json
import re
from typing import Any

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text
from tests.rules.packaged import families
from tests.rules.tables import EXTENDS, SOURCE, outcome
from webhook.documents import read_documents
from webhook.engine.outcome import RuleState
from webhook.objects.tree import get
from webhook.preview.run import preview
from webhook.rows.table import Table
from webhook.rules.load import load_default
from webhook.rules.problems import TableError

TYPE = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
ON = "families: [{name: nvl72, mode: enforce, "
NODE_CONFIG = "ultraserver-webhook.io/node-config"
PLACES = {
    12: "12 workers on one NVLink domain, which other jobs may use too",
    24: "24 workers in 2 equal blocks of 12, each on one NVLink domain, which other jobs may use too",
}
"""The places of jobs of these sizes, in the sentence of a preview."""


def gpus(workers: int, **more: Any) -> dict[str, Any]:
    return mpijob(workers, resource=GPU, amount=4, **more)


PODS = """families:
  - name: pods
    instanceTypes: [gpu.4x]
    wholeNode: {nvidia.com/gpu: 4}
    units: [{label: example.com/pod, nodes: 8, names: [pod, pods]}]
    shapes:
      - {name: one-pod, workers: 1 to 8, nodeConfig: 1 to 8, together: required, apart: required}
      - {name: pods, workers: multiple of 1, nodeConfig: 4 to 8, together: preferred, apart: required}
"""


def sentence(job: dict[str, Any], table: Table | None = None) -> str:
    """Returns the sentence of a preview, with all families on."""
    (shown,) = preview(table or families(), read_documents(json.dumps(job)), namespace="default")
    return str(shown.report["sentence"])


@pytest.mark.parametrize(
    ("job", "family"),
    [
        (mpijob(4), "trn2u.48xlarge"),
        (gpus(4), "p6e-gb200.36xlarge"),
        (gpus(4, worker_spec={"nodeSelector": {TYPE: "gb300-4x"}}), "gb300-4x"),
        (mpijob(4, worker_spec={"nodeSelector": {TYPE: "trn3p.48xlarge"}}), "trn3p.48xlarge"),
        (mpijob(4, amount=4, worker_spec={"nodeSelector": {TYPE: "trn3e.24xlarge"}}), "trn3e.24xlarge"),
        (mpijob(4, amount=4), "trn3e.24xlarge"),
        (
            mpijob(4, worker_spec={"nodeSelector": {"karpenter.k8s.aws/instance-family": "trn3"}}),
            "trn3.48xlarge",
        ),
    ],
)
def test_a_job_is_of_the_first_family_whose_nodes_it_asks_for_and_does_not_exclude(
    job: dict[str, Any], family: str
) -> None:
    """What distinguishes two families with one resource: what a job selects, or by how much it asks for."""
    assert get(outcome(families(), job).after, (*WORKER, "spec", "nodeSelector", TYPE)) == family


@pytest.mark.parametrize(
    ("workers", "shape", "size"),
    [
        (1, "one-unit", 1),
        (16, "one-unit", 16),
        (18, "equal-blocks", 9),
        (24, "equal-blocks", 12),
        (35, None, None),
        (45, "equal-blocks", 15),
        (48, "equal-blocks", 16),
        (17, None, None),
        (38, None, None),
    ],
)
def test_a_larger_job_forms_equal_blocks_on_the_fewest_units(
    workers: int, shape: str | None, size: int | None
) -> None:
    result = outcome(families(), gpus(workers))
    if shape is None:
        assert result.denials[0].startswith(f"{workers} workers form no equal blocks of 8 to 16")
    else:
        assert (result.facts["shape"], result.facts["nodeConfig"]) == (shape, str(size))
        assert f"size={size} unit=nvidia.com/gpu.clique " in str(result.after)


def test_a_job_may_choose_smaller_blocks_but_no_part_of_a_unit_for_all() -> None:
    assert outcome(families(), gpus(48, annotations={NODE_CONFIG: "8"})).facts["nodeConfig"] == "8"
    (denial,) = outcome(families(), gpus(12, annotations={NODE_CONFIG: "4"})).denials
    assert denial.startswith("12 workers do not fit node config 4")


@pytest.mark.parametrize(
    ("workers", "requests"),
    [
        (12, {"required-topology": "nvidia.com/gpu.clique"}),
        (24, {"slice-required-topology": "nvidia.com/gpu.clique", "slice-size": "12"}),
    ],
)
def test_kueue_is_asked_for_the_familys_units_and_for_equal_blocks(
    workers: int, requests: dict[str, str]
) -> None:
    job = gpus(workers)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    marks = get(outcome(families(), job).after, (*WORKER, "metadata", "annotations"))
    named = {key.removeprefix("kueue.x-k8s.io/podset-"): value for key, value in marks.items()}
    assert {key: value for key, value in named.items() if "/" not in key} == requests
    assert sentence(job) == f"placed: {PLACES[workers]}; Kueue chooses the nodes and starts the job"


NAMED = re.compile(r"(?i)trn\d|nvl\d|gb[23]00|p6e|trainium|blackwell")
"""Names of families, of their instance types, and of what they have."""


def test_no_python_and_no_template_of_the_product_names_a_family() -> None:
    """Protects a family that a platform team adds: all that the packaged ones get follows from their rows."""
    rows = [name for row in load_default().families for name in (row.name, *row.instance_types)]
    assert all(map(NAMED.search, rows))
    packages = ("webhook", "placement", "kubectl_ultraserver", "certs", "kube", "common", "contract")
    files = [path for package in packages for path in (REPOSITORY / package).rglob("*.py")]
    files += [
        path for path in (REPOSITORY / "manifests" / "chart").rglob("*") if path.suffix in {".tpl", ".json"}
    ]
    files += (REPOSITORY / "manifests" / "chart" / "templates").glob("*.yaml")
    assert len(files) > 100
    assert [str(path) for path in files if NAMED.search(path.read_text(encoding="utf-8"))] == []


def test_the_reason_of_a_selection_names_the_family() -> None:
    job = mpijob(4, resource=None, worker_spec={"nodeSelector": {TYPE: "gb300-4x"}})
    assert outcome(families(), job).reason == "its workers select an instance type of family nvl72"


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io/queue-name": "research"}])
@pytest.mark.parametrize("workers", [1, 12, 24])
def test_the_reasons_of_rules_do_not_call_every_unit_an_ultraserver(
    workers: int, labels: dict[str, str]
) -> None:
    job = gpus(workers)
    job["metadata"]["labels"] = labels
    rules = [rule for rule in outcome(families(), job).rules if rule.state is RuleState.FIRED]
    assert len(rules) > 5
    assert [rule.name for rule in rules if "UltraServer" in rule.why] == []


@pytest.mark.parametrize("workers", PLACES)
def test_a_preview_has_the_number_and_size_of_blocks(workers: int) -> None:
    waits = f"the job waits until all {workers} nodes are free"
    assert sentence(gpus(workers)) == f"placed: {PLACES[workers]}; {waits}"


@pytest.mark.parametrize(
    ("workers", "denial"),
    [
        (9, "9 workers form no equal blocks of 4 to 8; use 8 or 10"),
        (17, "17 workers form no equal blocks of 4 to 8; use 16 or 18"),
    ],
)
def test_a_size_without_a_shape_is_refused_with_the_nearest_sizes(workers: int, denial: str) -> None:
    table = load_text(f"{EXTENDS}{PODS}", SOURCE)
    assert outcome(table, gpus(workers)).denials == (denial,)
    few = load_text(f"{EXTENDS}{PODS.replace('multiple of 1', '10')}", SOURCE)
    assert outcome(few, gpus(9)).denials == ("no shape of the rule table fits 9 workers; use 8 or 10",)
    only = load_text(f"{EXTENDS}{PODS.replace('multiple of 1', '900')}", SOURCE)
    known = "family pods has one-pod (1 to 8), pods (900): use such a number, or add a shape"
    assert outcome(only, gpus(500)).denials == (f"no shape of the rule table fits 500 workers; {known}",)


def test_a_shape_that_refuses_needs_no_node_config_and_is_none_for_jobs_that_name_one() -> None:
    refusing = '      - {name: none, workers: multiple of 1, deny: "$(job.nodes) do not fit"}\n'
    table = load_text(f"{EXTENDS}{PODS}{refusing}", SOURCE)
    assert outcome(table, gpus(9)).denials == ("9 do not fit",)
    for config in "0", "3":
        (denial,) = outcome(table, gpus(12, annotations={NODE_CONFIG: config})).denials
        assert "do not fit node config 3" in denial or "must be one of 4 to 8, 1 to 8: " in denial
        assert "use node config 6" in denial or config == "0"


@pytest.mark.parametrize(
    ("workers", "where"),
    [
        (1, "1 worker on one pod, shared with no other job, which leaves 7 of its 8 nodes empty"),
        (6, "6 workers on one pod, shared with no other job, which leaves 2 of its 8 nodes empty"),
        (8, "8 workers on one pod, shared with no other job"),
        (
            10,
            (
                "10 workers in 2 equal blocks of 5, each on one pod, shared with no other job, "
                "which leaves 3 of its 8 nodes empty"
            ),
        ),
    ],
)
def test_a_preview_says_how_many_nodes_of_an_unshared_unit_stay_empty(workers: int, where: str) -> None:
    text = sentence(gpus(workers), load_text(f"{EXTENDS}{PODS}", SOURCE))
    assert text.startswith(f"placed: {where}; the ")


def test_a_family_is_switched_on_with_the_label_of_its_units_alone() -> None:
    (unit,) = (
        load_text(f"{EXTENDS}{ON}units: [{{label: example.com/rack}}]}}]\n", SOURCE).enabled_families[1].units
    )
    assert (unit.label, unit.nodes, unit.usable) == ("example.com/rack", 18, 16)
    own = load_text(f"{EXTENDS}{ON}units: [{{label: a, nodes: 17}}, {{label: b, nodes: 2}}]}}]\n", SOURCE)
    assert [(unit.label, unit.nodes, unit.usable) for unit in own.enabled_families[1].units] == [
        ("b", 2, None),
        ("a", 17, 16),
    ]


def test_a_family_is_not_switched_on_without_the_label_of_its_units() -> None:
    with pytest.raises(TableError, match="label: is empty: write the node label of your units"):
        load_text(f"{EXTENDS}{ON}}}]\n", SOURCE)
