"""Tests of ``verify``: whether a job is placed whole, and the order of its ranks."""

from dataclasses import replace

import pytest

from contract.keys import DRIVER, LOOSE, NO_SERVER, NODE_IDS, PLACEMENT, SERVER_4
from kubectl_ultraserver import messages
from kubectl_ultraserver.servers import servers
from kubectl_ultraserver.terminal import topology_lines, verification_lines
from kubectl_ultraserver.verify import Verification, verify
from placement.observe.inventory import Claim, Inventory, read_claim
from tests.kubectl_ultraserver.build import NODES, fleet, job_case, pod, stored_job, with_claims, workers
from tests.placement.world import changed_nodes

FIRST = ["n1-0", "n1-1", "n1-2", "n1-3"]
SECOND = ["n2-0", "n2-1", "n2-2", "n2-3"]
NAMES = [f"train-worker-{index}" for index in range(4)]
LABEL_HINT = "; the device plugin, the DRA driver or you must set the label"
MODE = "neuron.amazonaws.com/ultraserver-mode"


def problems_of(verdict: Verification) -> list[tuple[str, str]]:
    assert not verdict.is_whole
    return [(problem.kind, problem.text) for problem in verdict.problems]


def test_a_job_on_one_ultraserver_is_placed_whole() -> None:
    verdict = verify(job_case(workers("train", 4, FIRST)))
    assert verdict.is_whole
    assert verdict.text == "placed whole: 4 workers on 1 UltraServer, as node config 4 needs"


def test_pairs_jobs_on_two_ultraservers_and_single_nodes_are_placed_whole() -> None:
    assert verify(job_case(workers("train", 2, ["n1-2", "n1-3"], size=2))).text == (
        "placed whole: 2 workers on 1 pair of nodes, as node config 2 needs"
    )
    assert verify(job_case(workers("train", 8, [*SECOND, *FIRST]))).is_whole
    assert verify(job_case(workers("train", 3, ["n1-0", "n2-1", "n3-3"], size=1))).is_whole
    # Four single nodes do not have to be on one UltraServer.
    assert verify(job_case(workers("train", 4, ["n1-0", "n2-1", "n3-3", "n3-2"], size=1))).is_whole


def test_a_job_without_a_placement_annotation_cannot_be_verified() -> None:
    pods = workers("train", 4, [*FIRST[:3], "n2-0"])
    for worker in pods:
        worker["metadata"]["annotations"] = {}
    no_annotation = f"no annotation {PLACEMENT}: the webhook did not change it"
    verdict = verify(
        job_case(pods, changed_nodes(NODES, n1_0={"ready": False}), job=stored_job(mutated=False))
    )
    assert (verdict.text, verdict.is_certain) == (messages.UNKNOWN, False)
    assert problems_of(verdict) == [
        ("placement", no_annotation),
        ("node", "train-worker-0 is on node n1-0, which is not ready"),
    ]
    assert [(row.rank, row.node) for row in verdict.rows] == [(None, node) for node in [*FIRST[:3], "n2-0"]]
    # One worker has no annotation, and one worker has an invalid annotation.
    pods = workers("train", 4, FIRST)
    pods[0]["metadata"]["annotations"] = {}
    pods[1]["metadata"]["annotations"][PLACEMENT] = "here"
    (missing, invalid) = verify(job_case(pods)).problems
    assert missing.text == f"train-worker-0: {no_annotation}"
    assert invalid.text.startswith(f"train-worker-1: annotation {PLACEMENT} cannot be read: ")


def test_ranks_are_ordered_by_ultraserver_and_node_as_in_the_init_script() -> None:
    verdict = verify(job_case(workers("train", 8, [*reversed(SECOND), *reversed(FIRST)])))
    assert [(row.rank, row.worker, row.node) for row in verdict.rows] == [
        (rank, f"train-worker-{worker}", node)
        for rank, (worker, node) in enumerate(zip([7, 6, 5, 4, 3, 2, 1, 0], FIRST + SECOND, strict=True))
    ]
    assert list(verdict.rows[0].labels.values()) == ["us-01-a", "0", "us-01", "0", ""]


def test_ranks_of_single_nodes_are_the_numbers_of_the_workers() -> None:
    verdict = verify(job_case(workers("train", 3, ["n2-0", "n1-0", "n3-0"], size=1)))
    assert [row.node for row in verdict.rows] == ["n2-0", "n1-0", "n3-0"]


def test_a_job_of_one_block_on_two_ultraservers_straddles() -> None:
    assert problems_of(verify(job_case(workers("train", 4, ["n1-0", "n1-1", "n1-2", "n2-0"])))) == [
        ("straddles", "us-01 has 3 of the job's workers, and node config 4 needs 4: " + ", ".join(NAMES[:3])),
        ("straddles", "us-02 has 1 of the job's workers, and node config 4 needs 4: train-worker-3"),
    ]


def test_a_job_that_waits_names_its_workers_and_does_not_straddle_yet() -> None:
    verdict = verify(job_case(workers("train", 8, [*FIRST, "n2-0"])))
    text = "3 of 8 workers have no node: train-worker-5, train-worker-6, train-worker-7"
    assert problems_of(verdict) == [("waiting", text)]
    assert [row.rank for row in verdict.rows] == [0, 1, 2, 3, 4, None, None, None]


def test_a_job_that_waits_may_straddle_already() -> None:
    kinds = [kind for kind, _ in problems_of(verify(job_case(workers("train", 4, ["n1-0", "n2-0"]))))]
    assert kinds == ["waiting", "straddles", "straddles"]


def test_workers_that_do_not_exist_are_counted() -> None:
    verdict = verify(job_case(workers("train", 4, FIRST)[:3], job=stored_job()))
    assert problems_of(verdict) == [("waiting", "3 of 4 workers exist")]
    assert verify(job_case([], job=stored_job())).text == "not placed whole: waiting for nodes"
    assert ("waiting", messages.NO_WORKERS) in problems_of(verify(job_case([], job=stored_job(count=0))))


def test_another_job_on_the_same_ultraserver_is_named_with_its_pod_and_node() -> None:
    others = workers("other", 1, ["n1-3"], size=1)
    assert problems_of(verify(job_case(workers("train", 4, FIRST), others=others))) == [
        ("shares", "us-01 is shared with team/other, which has other-worker-0 on node n1-3")
    ]


def test_devices_that_only_a_claim_holds_are_named() -> None:
    allocated = {"devices": {"results": [{"driver": DRIVER, "pool": "n1-3", "device": "node"}]}}
    claim = read_claim({"status": {"allocation": allocated}})
    fleet_ = replace(fleet(), inventory=Inventory(claims={("team", "stray"): claim}))
    result = replace(job_case(workers("train", 4, FIRST)), fleet=fleet_)
    assert problems_of(verify(result)) == [
        ("shares", "us-01 is shared with claim team/stray, which has devices on node n1-3")
    ]
    assert servers(fleet_)[0].holders == ("claim team/stray",)
    assert [spot.claims for spot in servers(fleet_)[0].spots] == [(), (), (), ("team/stray",)]
    assert any("1 of 4 nodes claimed" in line for line in topology_lines(servers(fleet_), 120))


@pytest.mark.parametrize(("mode", "whole"), [(4, True), (2, False), (None, True)])
def test_a_claim_for_another_node_config_is_a_problem(mode: int | None, *, whole: bool) -> None:
    """The driver reads the claim's ``ultraserverMode``, which may be missing, and not the template's name."""
    claims = {("team", f"train-worker-{worker}-neurons"): worker_claim(worker, mode) for worker in range(4)}
    inventory = Inventory(claims=claims)
    pods = with_claims(workers("train", 4, FIRST), "us-4-node-config")
    verdict = verify(job_case(pods, inventory=inventory))
    assert verdict.is_whole is whole
    assert {row.claims for row in verdict.rows} == {("us-4-node-config",)}
    assert "us-4-node-config" in "\n".join(verification_lines(verdict))
    if not whole:
        assert verdict.problems[0].text == (
            "train-worker-0 gets its devices through us-4-node-config, with node config 2; "
            "the job has node config 4"
        )


def worker_claim(worker: int, mode: int | None) -> Claim:
    """Returns the claim of a worker, with a node config for the driver or without it."""
    owner = {"kind": "Pod", "uid": f"team/train-worker-{worker}"}
    driver_config = {"opaque": {"driver": DRIVER, "parameters": {"ultraserverMode": mode} if mode else {}}}
    requests = [{"name": "neurons", "exactly": {"deviceClassName": DRIVER}}]
    spec = {"devices": {"requests": requests, "config": [driver_config]}}
    return read_claim({"metadata": {"ownerReferences": [owner]}, "spec": spec})


def test_a_pair_does_not_share_with_the_other_pair() -> None:
    others = workers("other", 2, ["n1-2", "n1-3"], size=2)
    assert verify(job_case(workers("train", 2, ["n1-0", "n1-1"], size=2), others=others)).is_whole


def test_a_single_node_may_be_shared_only_with_other_jobs_of_single_nodes() -> None:
    own = workers("train", 1, ["n1-0"], size=1)
    (small,), whole = workers("other", 1, ["n1-0"], size=1), workers("other", 4, FIRST)
    assert verify(job_case(own, others=[small])).is_whole
    small["metadata"] |= {"labels": small["metadata"]["labels"] | {LOOSE: "true"}, "annotations": {}}
    for others in (whole, [small]):
        assert problems_of(verify(job_case(own, others=others))) == [
            ("shares", "n1-0 is shared with team/other, which has other-worker-0 on node n1-0")
        ]


def test_two_workers_on_the_same_node_are_a_problem() -> None:
    problems = problems_of(verify(job_case(workers("train", 4, ["n1-0", "n1-0", "n1-2", "n1-3"]))))
    assert ("straddles", "node n1-0 has 2 of the job's workers, and must have at most one") in problems


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ready": False}, messages.NODE_NOT_READY),
        (
            {"labels": {SERVER_4: NO_SERVER, NODE_IDS[SERVER_4]: "-1"}},
            f"which is in no working UltraServer: label {SERVER_4} is {NO_SERVER}, node id -1",
        ),
        (
            {"labels": {}},
            f"which is in no working UltraServer: label {SERVER_4} is missing, node id missing{LABEL_HINT}",
        ),
    ],
)
def test_a_node_that_is_not_ready_or_in_no_ultraserver_is_named(change: dict[str, object], text: str) -> None:
    nodes = changed_nodes(NODES, n1_2=change)
    problems = problems_of(verify(job_case(workers("train", 4, FIRST), nodes)))
    assert ("node", f"train-worker-2 is on node n1-2, {text}") in problems


@pytest.mark.parametrize(("mode", "fits"), [("1_2_4", True), ("4", True), ("2", False), ("2_3", False)])
def test_the_mode_label_must_include_the_node_config(mode: str, fits: bool) -> None:  # noqa: FBT001
    labels = dict(NODES["n1-1"].labels) | {MODE: mode}
    verdict = verify(job_case(workers("train", 4, FIRST), changed_nodes(NODES, n1_1={"labels": labels})))
    assert verdict.is_whole == fits
    if not fits:
        assert problems_of(verdict) == [
            ("node", f"train-worker-1 is on node n1-1, whose mode {mode} has no node config 4")
        ]


def test_a_node_that_no_longer_exists_is_named() -> None:
    problems = problems_of(verify(job_case(workers("train", 4, FIRST), changed_nodes(NODES, n1_3=None))))
    assert ("node", "train-worker-3 is on node n1-3, which does not exist any more") in problems


def test_the_launcher_takes_no_node_unless_it_runs_ranks() -> None:
    plain = pod("train-launcher", "train", "launcher", nodeName="n1-0")
    assert verify(job_case([*workers("train", 4, FIRST), plain])).is_whole
    *others, ranks = workers("train", 4, FIRST)
    ranks["metadata"] |= {"name": "train-launcher", "uid": "launcher"}
    ranks["metadata"]["labels"]["training.kubeflow.org/job-role"] = "launcher"
    job = stored_job(count=3, runLauncherAsWorker=True)
    assert verify(job_case([*others, ranks], job=job)).text.startswith("placed whole: 4")
