"""Tests of families: the family of a job, its blocks, and the sentence of its preview."""

import json
import re
from typing import Any

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text
from tests.rules.packaged import families_table
from tests.rules.tables import EXTENDS, SOURCE, outcome
from webhook.documents import read_documents
from webhook.engine import messages as engine_messages
from webhook.engine.outcome import RuleState
from webhook.objects.tree import get
from webhook.preview.run import preview
from webhook.rows.table import Table
from webhook.rules import messages
from webhook.rules.load import load_default
from webhook.rules.problems import TableError

TYPE = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
NVL72_ON = "families: [{name: nvl72, mode: enforce, "
NODE_CONFIG = "ultraserver-webhook.io/node-config"
SENTENCE_PLACES = {
    12: "12 workers on one NVLink domain, which other jobs may use too",
    24: "24 workers in 2 equal blocks of 12, each on one NVLink domain, which other jobs may use too",
}
"""For each number of workers, the part of a preview's sentence that describes the nodes."""


def gpu_job(workers: int, **fields: Any) -> dict[str, Any]:
    return mpijob(workers, resource=GPU, amount=4, **fields)


POD_FAMILY = """families:
  - name: pods
    instanceTypes: [gpu.4x]
    wholeNode: {nvidia.com/gpu: 4}
    units: [{label: example.com/pod, nodes: 8, names: [pod, pods]}]
    shapes:
      - {name: one-pod, workers: 1 to 8, nodeConfig: 1 to 8, together: required, apart: required}
      - {name: pods, workers: multiple of 1, nodeConfig: 4 to 8, together: preferred, apart: required}
"""


def sentence(job: dict[str, Any], table: Table | None = None) -> str:
    """Returns the sentence of a job's preview. The default table has all families on."""
    (result,) = preview(table or families_table(), read_documents(json.dumps(job)), namespace="default")
    return str(result.report["sentence"])


@pytest.mark.parametrize(
    ("job", "instance_type"),
    [
        (mpijob(4), "trn2u.48xlarge"),
        (gpu_job(4), "p6e-gb200.36xlarge"),
        (gpu_job(4, worker_spec={"nodeSelector": {TYPE: "gb300-4x"}}), "gb300-4x"),
        (mpijob(4, worker_spec={"nodeSelector": {TYPE: "trn3p.48xlarge"}}), "trn3p.48xlarge"),
        (mpijob(4, amount=4, worker_spec={"nodeSelector": {TYPE: "trn3e.24xlarge"}}), "trn3e.24xlarge"),
        (mpijob(4, amount=4), "trn3e.24xlarge"),
        (
            mpijob(4, worker_spec={"nodeSelector": {"karpenter.k8s.aws/instance-family": "trn3"}}),
            "trn3.48xlarge",
        ),
    ],
)
def test_a_job_gets_an_instance_type_of_the_first_family_that_fits_its_requests_and_selection(
    job: dict[str, Any], instance_type: str
) -> None:
    """The node selection or the requested amount decides between families with the same resource."""
    assert get(outcome(families_table(), job).after, (*WORKER, "spec", "nodeSelector", TYPE)) == instance_type


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
    result = outcome(families_table(), gpu_job(workers))
    if shape is None:
        assert result.denials[0].startswith(engine_messages.no_blocks(f"{workers} workers", "8 to 16"))
    else:
        assert (result.facts["shape"], result.facts["nodeConfig"]) == (shape, str(size))
        assert f"size={size} unit=nvidia.com/gpu.clique " in str(result.after)


def test_a_node_config_can_choose_smaller_blocks_but_not_below_the_minimum_of_the_shape() -> None:
    assert outcome(families_table(), gpu_job(48, annotations={NODE_CONFIG: "8"})).facts["nodeConfig"] == "8"
    (denial,) = outcome(families_table(), gpu_job(12, annotations={NODE_CONFIG: "4"})).denials
    assert denial.startswith("12 workers do not fit node config 4")


@pytest.mark.parametrize(
    ("workers", "requests"),
    [
        (12, {"required-topology": "nvidia.com/gpu.clique"}),
        (24, {"slice-required-topology": "nvidia.com/gpu.clique", "slice-size": "12"}),
    ],
)
def test_a_job_requests_the_familys_units_and_equal_blocks_from_kueue(
    workers: int, requests: dict[str, str]
) -> None:
    job = gpu_job(workers)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    annotations = get(outcome(families_table(), job).after, (*WORKER, "metadata", "annotations"))
    without_prefix = {key.removeprefix("kueue.x-k8s.io/podset-"): value for key, value in annotations.items()}
    assert {key: value for key, value in without_prefix.items() if "/" not in key} == requests
    assert sentence(job) == f"placed: {SENTENCE_PLACES[workers]}; Kueue chooses the nodes and starts the job"


FAMILY_NAMES = re.compile(r"(?i)trn\d|nvl\d|gb[23]00|p6e|trainium|blackwell")
"""Parts of the names of families, instance types and devices."""


def test_no_python_and_no_chart_template_contains_the_name_of_a_family() -> None:
    """Protects families that a platform team adds: the code has no special case for a packaged family."""
    names = [name for row in load_default().families for name in (row.name, *row.instance_types)]
    assert all(map(FAMILY_NAMES.search, names))
    packages = ("webhook", "placement", "kubectl_ultraserver", "certs", "kube", "common", "contract")
    files = [path for package in packages for path in (REPOSITORY / package).rglob("*.py")]
    files += [
        path for path in (REPOSITORY / "manifests" / "chart").rglob("*") if path.suffix in {".tpl", ".json"}
    ]
    files += (REPOSITORY / "manifests" / "chart" / "templates").glob("*.yaml")
    assert len(files) > 100
    assert [str(path) for path in files if FAMILY_NAMES.search(path.read_text(encoding="utf-8"))] == []


def test_the_reason_of_a_job_that_selects_an_instance_type_names_the_family() -> None:
    job = mpijob(4, resource=None, worker_spec={"nodeSelector": {TYPE: "gb300-4x"}})
    assert outcome(families_table(), job).reason == engine_messages.selects_type("nvl72")


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io/queue-name": "research"}])
@pytest.mark.parametrize("workers", [1, 12, 24])
def test_the_reasons_of_rules_for_other_families_do_not_name_ultraservers(
    workers: int, labels: dict[str, str]
) -> None:
    job = gpu_job(workers)
    job["metadata"]["labels"] = labels
    rules = [rule for rule in outcome(families_table(), job).rules if rule.state is RuleState.FIRED]
    assert len(rules) > 5
    assert [rule.name for rule in rules if "UltraServer" in rule.why] == []


@pytest.mark.parametrize("workers", SENTENCE_PLACES)
def test_a_preview_has_the_number_and_size_of_blocks(workers: int) -> None:
    waits = f"the job waits until all {workers} nodes are free"
    assert sentence(gpu_job(workers)) == f"placed: {SENTENCE_PLACES[workers]}; {waits}"


@pytest.mark.parametrize(("workers", "sizes"), [(9, "8 or 10"), (17, "16 or 18")])
def test_a_size_without_a_shape_is_refused_with_the_nearest_sizes(workers: int, sizes: str) -> None:
    table = load_text(f"{EXTENDS}{POD_FAMILY}", SOURCE)
    reason = engine_messages.no_blocks(f"{workers} workers", "4 to 8")
    assert outcome(table, gpu_job(workers)).denials == (engine_messages.use_sizes(reason, sizes),)
    ten = load_text(f"{EXTENDS}{POD_FAMILY.replace('multiple of 1', '10')}", SOURCE)
    reason = engine_messages.no_shape("9 workers")
    assert outcome(ten, gpu_job(9)).denials == (engine_messages.use_sizes(reason, "8 or 10"),)
    nine_hundred = load_text(f"{EXTENDS}{POD_FAMILY.replace('multiple of 1', '900')}", SOURCE)
    reason, shapes = engine_messages.no_shape("500 workers"), "one-pod (1 to 8), pods (900)"
    assert outcome(nine_hundred, gpu_job(500)).denials == (engine_messages.add_shape(reason, "pods", shapes),)


def test_a_shape_that_denies_needs_no_node_config_and_is_ignored_for_jobs_with_a_node_config() -> None:
    denying_shape = '      - {name: none, workers: multiple of 1, deny: "$(job.nodes) do not fit"}\n'
    table = load_text(f"{EXTENDS}{POD_FAMILY}{denying_shape}", SOURCE)
    assert outcome(table, gpu_job(9)).denials == ("9 do not fit",)
    for config in "0", "3":
        (denial,) = outcome(table, gpu_job(12, annotations={NODE_CONFIG: config})).denials
        assert "do not fit node config 3" in denial or "must be one of 4 to 8, 1 to 8: " in denial
        assert "use node config 6" in denial or config == "0"


@pytest.mark.parametrize(
    ("workers", "places"),
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
def test_a_preview_has_the_number_of_empty_nodes_of_an_unshared_unit(workers: int, places: str) -> None:
    text = sentence(gpu_job(workers), load_text(f"{EXTENDS}{POD_FAMILY}", SOURCE))
    assert text.startswith(f"placed: {places}; the ")


def test_a_family_can_be_switched_on_with_only_the_label_of_its_units() -> None:
    (unit,) = (
        load_text(f"{EXTENDS}{NVL72_ON}units: [{{label: example.com/rack}}]}}]\n", SOURCE)
        .enabled_families[1]
        .units
    )
    assert (unit.label, unit.nodes, unit.usable) == ("example.com/rack", 18, 16)
    two_units = load_text(
        f"{EXTENDS}{NVL72_ON}units: [{{label: a, nodes: 17}}, {{label: b, nodes: 2}}]}}]\n", SOURCE
    )
    assert [(unit.label, unit.nodes, unit.usable) for unit in two_units.enabled_families[1].units] == [
        ("b", 2, None),
        ("a", 17, 16),
    ]


def test_a_family_cannot_be_switched_on_without_the_label_of_its_units() -> None:
    with pytest.raises(TableError, match=f"label: {messages.NO_UNIT_LABEL}"):
        load_text(f"{EXTENDS}{NVL72_ON}}}]\n", SOURCE)
