"""Tests that the documents' sessions with kubectl, and ``make cluster``, print what the documents show."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.keys import OPENED
from testbed import chart
from testbed.plane import nodes
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import reopen_namespace, retire_namespace
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.previews import run_preview_service, wait_until_served
from testbed.plane.webhook import RunningWebhook
from tests.docs import session
from tests.docs.blocks import REPOSITORY, Step, blocks_of
from tests.plane.guard import people
from tests.rules.tables import EXTENDS

MASKS = session.MASKS | {
    "node": (r"ip-172-32-\d+-\d+\.", "NODE."),
    "launcher's suffix": (r"launcher-\w{5}\b", "launcher-SUFFIX"),
    "server id": (r"\b[0-9a-z]{16}(?= |$)", "SERVER"),
    "age": (r"\b\d+[smh](?:\d+[smh])?\b", "AGE"),
    "width of columns": (r" +", " "),
    # The scheduler chooses the node of a worker, and the node decides the worker's rank.
    "worker of a rank": (r"^(\d+) demo-worker-\d\b", r"\1 WORKER"),
    "port": (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    "folder": (r"\S+/ultraserver-cluster-\w+", "FOLDER"),
}


def steps(document: str, *beginnings: str) -> list[Step]:
    return [
        step for block in blocks_of(document) for step in block.steps() if step.command.startswith(beginnings)
    ]


@pytest.fixture
def default_namespace(control_plane: ControlPlane, registered_webhook: RunningWebhook) -> Iterator[Kubectl]:
    """The namespace that a reader's kubectl uses, empty before and after."""
    assert registered_webhook.url
    inside = control_plane.kubectl.in_namespace("default")
    reopen_namespace(inside)
    yield inside
    # Otherwise, a slow operator can create Pods for a deleted job, which the next session would show.
    retire_namespace(inside)


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane, passed_on: None) -> Iterator[None]:
    """The preview service of an installation, with the packaged table, which the webhook uses, too."""
    assert passed_on is None
    rules = control_plane.folder / "packaged.yaml"
    rules.write_text(EXTENDS, encoding="utf-8")
    with run_preview_service(control_plane, chart.NAME, rules) as inside:
        wait_until_served(inside)
        yield


def wait_until_placed(inside: Kubectl) -> None:
    """Waits until every MPIJob has all its pods, and every pod has a node."""
    jobs = [job["spec"]["mpiReplicaSpecs"] for job in inside.get_json("mpijobs")["items"]]
    expected = sum(role.get("replicas", 1) for job in jobs for role in job.values())

    def placed(pods: Object) -> bool:
        nodes_of = [pod["spec"].get("nodeName") for pod in pods["items"]]
        return len(nodes_of) == expected and all(nodes_of)

    inside.wait_for(placed, "pods")
    # kubectl diff reads a job twice. If the operator writes the status in between, it prints a difference.
    inside.wait_for(lambda obj: all("conditions" in job.get("status", {}) for job in obj["items"]), "mpijobs")


def is_kubectl_command(step: Step) -> bool:
    return step.command.startswith("kubectl ")


@pytest.mark.usefixtures("served")
@pytest.mark.limit(40, "starts six processes of kubectl and its plugin")
@pytest.mark.parametrize("document", session.documents_with(is_kubectl_command))
def test_a_session_prints_what_the_document_shows(
    document: str, control_plane: ControlPlane, default_namespace: Kubectl, tmp_path: Path
) -> None:
    folder = session.folder_with_examples(tmp_path)
    env = {"KUBECONFIG": str(default_namespace.kubeconfig), "KUBERC": "off"}
    for block in blocks_of(document):
        session.write_file(block, folder)
    for step in steps(document, "kubectl "):
        printed, status = session.run(step.command, folder, path=[str(control_plane.tools)], env=env)
        assert status == 0, f"{step.where}\n{printed}"
        session.assert_printed(step, printed, MASKS)
        if " apply " in step.command:
            # A reader is slower than the scheduler.
            wait_until_placed(default_namespace)
        if nodes.SERVER_ID_4 in step.command:
            assert len(set(re.findall(r"[0-9a-z]{16}$", printed, re.MULTILINE))) == 1, printed


@pytest.mark.limit(60, "make cluster starts a control plane of its own")
def test_make_cluster_prints_the_documented_output_works_like_an_installation_and_stops_cleanly(
    tools: Path,
) -> None:
    (step,) = steps("README.md", "make cluster")
    with session.make("Ctrl-C stops everything", "--old-file=.venv/.dev", "cluster") as cluster:
        (exported,) = re.findall(r"export KUBECONFIG=(\S+)", cluster.output)
        inside = Kubectl(tools / "kubectl", Path(exported)).in_namespace("default")
        inside.run("apply", "-f", str(REPOSITORY / "examples" / "four-node.yaml"))
        wait_until_placed(inside)
        worker = inside.get_json("pod", "demo-worker-0")
        assert OPENED in worker["metadata"]["annotations"], (
            "the placement program runs, as in an installation"
        )
        people.give_rights(inside)
        people.wait_refusal(inside, people.WORKER)
    assert "nothing is left running" in cluster.after_interrupt
    session.assert_printed(step, cluster.output, MASKS)
    assert str(tools) in cluster.output
