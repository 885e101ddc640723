"""Tests of ``preview -f``: the preview service's answer and the dry run, or only the dry run."""

import json
from pathlib import Path

import pytest
import yaml

from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver import messages
from kubectl_ultraserver.listing import RULES_PATH
from testbed.mpijob import mpijob
from tests.kubectl_ultraserver.api import MISSING, Cluster
from tests.kubectl_ultraserver.build import NAMESPACE, rules, run_plugin
from tests.placement.stored import store_nodes


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Returns a cluster with an installation, whose webhook is not called."""
    cluster = Cluster()
    store_nodes(cluster, 3)
    cluster.put(RULES_PATH, rules())
    cluster.put("/apis", {"groups": [{"versions": [{"groupVersion": "kubeflow.org/v2beta1"}]}]})
    kind = {"name": "mpijobs", "kind": "MPIJob", "namespaced": True}
    cluster.put("/apis/kubeflow.org/v2beta1", {"resources": [kind]})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (cluster, NAMESPACE))
    return cluster


def write_file(tmp_path: Path, *objects: object) -> str:
    """Writes objects to a file, and returns its path."""
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
    return str(path)


def test_messages_of_the_service_have_the_name_and_lines_of_the_users_file(
    api: Cluster, tmp_path: Path
) -> None:
    path = write_file(tmp_path, mpijob(4), mpijob(8, name="other"))
    code, out, err = run_plugin("preview", "-f", path)
    assert (code, err) == (1, "")
    text = Path(path).read_text(encoding="utf-8")
    second = text[: text.index("---")].count("\n") + 2
    assert out.startswith(f"{path}:1: MPIJob {NAMESPACE}/train\n  placed: 4 workers on one whole UltraServer")
    assert f"\n{path}:{second}: MPIJob {NAMESPACE}/other\n  placed: 8 workers" in out
    assert f"\n--- {path}:{second} (MPIJob {NAMESPACE}/other)\n" in out
    assert "request:" not in out
    assert "\n2 placed, 0 not placed, 0 refused\n" in out
    assert out.count("  table    the rule table, revision ") == 2
    assert out.count(f"{path}:{second}: MPIJob team/other\n") == 2, "each object has the answer of the server"
    assert out.count("  server   would store something else:") == 2
    assert api.paths.count("/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs") == 2


def test_json_has_the_whole_answer_of_the_service(api: Cluster, tmp_path: Path) -> None:
    assert api.objects
    path = write_file(tmp_path, mpijob(4, namespace="elsewhere"), mpijob(4))
    (item, other) = json.loads(run_plugin("preview", "-f", path, "--fit", "-o", "json")[1])["items"]
    assert item["preview"]["source"] == {"file": path, "line": 1}
    assert item["preview"]["object"]["namespace"] == "elsewhere"
    assert other["preview"]["object"]["namespace"] == NAMESPACE, (
        "the namespace of the context is only a default"
    )
    assert item["preview"]["sentence"].startswith("placed: ")
    assert item["server"]["stores"] is True
    assert item["server"]["findings"][0]["code"] == "not-registered"
    assert item["fit"]["text"].startswith("the scheduler chooses the nodes, for example us-01")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: [", ":2:1: "),
        ("kind: {{ .Values.kind }}", ": this looks like a template of Helm: render it first, helm template"),
        ("apiVersion: v1\nkind: X\nmetadata: {namespace: other}", "use --namespace=other"),
    ],
)
def test_a_refusal_is_shown_with_the_text_of_the_service(
    api: Cluster, tmp_path: Path, text: str, line: str
) -> None:
    assert api.objects
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")
    code, out, err = run_plugin("preview", "-f", str(path), "-n", "team")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}:")
    assert line in err


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ((), "kind: A", (0, ())),
        (("--fit",), "kind: A", (1, ())),
        (("-n", "team"), "refused", (2, ("--namespace=team",))),
        (("-o", "json"), "kind: A", (0, ("--output=json",))),
    ],
)
def test_without_the_service_only_the_dry_run_is_done_and_a_note_has_the_reason(
    api: Cluster, tmp_path: Path, words: tuple[str, ...], text: str, expected: tuple[int, tuple[str, ...]]
) -> None:
    """Protects users whose installation has no preview service."""
    api.service_error = MISSING
    (path := tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    code, options = expected
    remedy = "install the chart with the value preview: true"
    note = f"{messages.only_dry_run(f'the API server answers 404: {MISSING}; {remedy}')}\n"
    assert run_plugin("preview", "-f", str(path), *words) == (code, "", note)
    assert api.dry_runs == [(str(path), *options)]
    assert len(api.paths) == 1


def test_with_the_service_of_an_older_release_only_the_dry_run_is_done(
    api: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects users of a newer plugin: the service of release 0.2.0 has fewer parameters."""
    answer = b'{"code": "unknown-parameter", "error": "unknown parameter"}'
    monkeypatch.setattr(api, "fetch", lambda *_: (400, answer))
    (path := tmp_path / "a.yaml").write_text("kind: A", encoding="utf-8")
    note = f"{messages.only_dry_run('the preview service refuses (400): unknown parameter')}\n"
    assert run_plugin("preview", "-f", str(path), "-n", "team") == (0, "", note)
