"""Tests of the command line: exit codes, colours, JSON, shell completion, and listed pods."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from contract import keys
from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver.listing import RULES_PATH, Lister
from testbed import chart
from tests.kubectl_ultraserver.api import Cluster
from tests.kubectl_ultraserver.build import NAMESPACE, rules, run_plugin, stored_job, workers
from tests.placement.stored import path_of, store_nodes

MPIJOBS = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Returns a cluster with three UltraServers, and a job on the first UltraServer."""
    cluster = Cluster(page=2)
    store_nodes(cluster, 3)
    cluster.put("/apis", {"groups": [{"versions": [{"groupVersion": "kubeflow.org/v2beta1"}]}]})
    cluster.put("/apis/kubeflow.org/v2beta1", {"resources": [{"name": "mpijobs", "kind": "MPIJob"}]})
    cluster.put(f"{MPIJOBS}/train", stored_job())
    for pod in workers("train", 4, ["n1-0", "n1-1", "n1-2", "n1-3"]):
        cluster.put(path_of(pod), pod)
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (cluster, NAMESPACE))
    return cluster


def test_the_exit_code_of_verify_depends_on_the_result(api: Cluster) -> None:
    assert run_plugin("verify", "train")[0] == 0
    del api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/train-worker-3"]
    code, out, _ = run_plugin("verify", "mpijob/train")
    assert code == 1
    assert out.endswith("mpijob team/train: not placed whole: waiting for nodes\n  3 of 4 workers exist\n")
    del api.objects[f"{MPIJOBS}/train"]
    for pod in workers("train", 3, ["n1-0", "n1-1", "n1-2"]):
        pod["metadata"]["annotations"] = {}
        api.put(path_of(pod), pod)
    assert run_plugin("verify", "train")[0] == 2
    code, out, err = run_plugin("verify", "missing")
    assert (code, out) == (2, "")
    assert err == "error: there is no job missing in namespace team\n"


def test_json_has_all_data(api: Cluster) -> None:
    assert api.objects
    verdict = json.loads(run_plugin("verify", "train", "-o", "json")[1])
    assert verdict["whole"] is True
    assert [row["node"] for row in verdict["rows"]] == ["n1-0", "n1-1", "n1-2", "n1-3"]
    assert json.loads(run_plugin("why", "train", "-o", "json")[1]) == {
        "job": "mpijob team/train",
        "jobs": [],
        "findings": [],
        "unseen": "",
    }
    topology = json.loads(run_plugin("topology", "--free", "-o", "json")[1])
    assert [server["id"] for server in topology["ultraservers"]] == ["us-02", "us-03"]
    for words, ids in (
        (["-n", NAMESPACE], ["us-01"]),
        (["-n", "other"], []),
        (["--job", "job/train"], ["us-01"]),
    ):
        ultraservers = json.loads(run_plugin("topology", *words, "-o", "json")[1])["ultraservers"]
        assert [server["id"] for server in ultraservers] == ids


def test_colours_are_for_terminals_only(api: Cluster) -> None:
    assert api.objects
    escape = re.compile("\x1b\\[")
    assert escape.search(run_plugin("topology", color=True)[1])
    assert not escape.search(run_plugin("topology", color=True, env={"NO_COLOR": "1"})[1])
    assert not escape.search(run_plugin("topology")[1])


def test_characters_that_a_terminal_cannot_show_become_question_marks(api: Cluster) -> None:
    owned_pod = workers("x", 1, ["n2-0"], size=1)[0]
    owned_pod["metadata"] |= {"labels": {}, "ownerReferences": [{"name": "\u2192", "controller": True}]}
    api.put(path_of(owned_pod), owned_pod)
    result = CliRunner(charset="latin-1").invoke(cli.main, ["topology"])
    assert result.exit_code == 0, result.exception
    assert "A team/?\n" in result.stdout


def test_control_characters_in_names_are_escaped(api: Cluster) -> None:
    owned_pod = workers("x", 1, ["n2-0"], size=1)[0]
    owned_pod["metadata"] |= {
        "name": "x",
        "labels": {},
        "ownerReferences": [{"name": "other\x1b\x9b2J", "controller": True}],
    }
    api.put(path_of(owned_pod), owned_pod)
    code, _, err = run_plugin("verify", "train\x1b\x9b2J")
    assert code == 2
    assert r"train\x1b\x9b2J" in err
    assert err.strip().isprintable()
    assert run_plugin("topology", "-o", "json")[1].replace("\n", "").isprintable()


def test_without_the_right_to_list_all_pods_only_pods_of_the_namespace_are_examined(api: Cluster) -> None:
    api.refuse = "GET /api/v1/pods?"
    code, out, _ = run_plugin("verify", "train")
    assert code == 0
    assert "note: pods of other namespaces were not examined: cannot list pods: " in out
    api.refuse = "GET /api/v1/nodes"
    code, _, err = run_plugin("verify", "train")
    assert code == 2
    assert err.startswith("error: cannot list nodes: ")
    assert "you need the right to list nodes: docs/kubectl.md" in err


def test_pods_that_hold_no_neuron_node_are_not_in_the_fleet(api: Cluster) -> None:
    pod_elsewhere = workers("web", 1, ["somewhere"], size=1)[0]
    waiting_pod = workers("waits", 1, size=1)[0]
    waiting_pod["metadata"]["annotations"] = {}
    for pod in (pod_elsewhere, waiting_pod):
        api.put(path_of(pod), pod)
    names = [pod.name for pod in Lister(api, NAMESPACE).fleet.pods]
    assert names == [f"train-worker-{index}" for index in range(4)]


def test_why_reads_the_rule_table_from_the_config_map_of_the_manifests(api: Cluster) -> None:
    (metadata,) = [obj["metadata"] for obj in chart.objects() if obj["kind"] == "ConfigMap"]
    api.put(f"/api/v1/namespaces/{metadata['namespace']}/configmaps/{metadata['name']}", rules("mode: off\n"))
    api.put(f"{MPIJOBS}/train", stored_job(mutated=False))
    for pod in workers("train", 4, ["n1-0", "n1-1", "n1-2", "n1-3"]):
        del pod["metadata"]["labels"][keys.JOB]
        api.put(path_of(pod), pod)
    assert "added nothing: the whole rule table is switched off" in run_plugin("why", "train")[1]


def test_a_missing_file_or_a_file_without_objects_is_an_error_with_its_name(
    api: Cluster, tmp_path: Path
) -> None:
    api.put(RULES_PATH, rules())
    (tmp_path / "list.yaml").write_text("- 1\n")
    words = "with apiVersion and kind, and this is [1]"
    for file, message in (
        (tmp_path / "no.yaml", f"{tmp_path}/no.yaml: No such file or directory"),
        (tmp_path, f"{tmp_path}/list.yaml:1:1: a Kubernetes object is a map {words}"),
        ("-", "<stdin>: there are no objects"),
    ):
        assert run_plugin("preview", "-f", str(file), input="") == (2, "", f"error: {message}\n")


def test_an_invalid_name_of_a_job_is_refused(api: Cluster) -> None:
    assert api.objects
    code, _, err = run_plugin("why", "a/b/c")
    assert code == 2
    assert "write NAME or KIND/NAME" in err


def test_a_list_shows_progress_on_a_terminal(
    api: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Lister(api, NAMESPACE).fleet.pods
    assert capsys.readouterr().err == ""
    terminal = SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("common.output.sys", terminal)
    assert Lister(api, NAMESPACE).fleet.pods
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "listing nodes, page 2\r" in printed.err
    assert printed.err.endswith("\r")  # click removes the escape sequence: this is not a terminal


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["ver"], ["verify", ":4"]),
        (["why", "train", "-o", ""], ["text", "json", ":4"]),
        (["preview", "--fit", "-f", ""], [":0"]),
    ],
)
def test_kubectl_completes_commands_and_choices_and_leaves_files_to_the_shell(
    words: list[str], lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-ultraserver", *words])
    cli.complete()
    assert [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()] == lines
