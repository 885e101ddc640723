"""``preview -f``: what the service says, then the dry run; without the service the dry run alone."""

import json
from pathlib import Path

import pytest
import yaml

from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver.listing import RULES_PATH
from testbed.mpijob import mpijob
from tests.kubectl_ultraserver.api import MISSING, Cluster
from tests.kubectl_ultraserver.build import NAMESPACE, rules, run
from tests.placement.stored import store_nodes


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """An installation, and a webhook that no one calls."""
    made = Cluster()
    store_nodes(made, 3)
    made.put(RULES_PATH, rules())
    made.put("/apis", {"groups": [{"versions": [{"groupVersion": "kubeflow.org/v2beta1"}]}]})
    kind = {"name": "mpijobs", "kind": "MPIJob", "namespaced": True}
    made.put("/apis/kubeflow.org/v2beta1", {"resources": [kind]})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (made, NAMESPACE))
    return made


def file(tmp_path: Path, *objects: object) -> str:
    """Returns a file of objects."""
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
    return str(path)


def test_messages_of_the_service_have_the_name_and_lines_of_the_users_file(
    api: Cluster, tmp_path: Path
) -> None:
    path = file(tmp_path, mpijob(4), mpijob(8, name="other"))
    code, out, err = run("preview", "-f", path)
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


def test_json_has_everything_that_the_service_answers(api: Cluster, tmp_path: Path) -> None:
    assert api.objects
    path = file(tmp_path, mpijob(4, namespace="elsewhere"), mpijob(4))
    (item, other) = json.loads(run("preview", "-f", path, "--fit", "-o", "json")[1])["items"]
    assert item["preview"]["source"] == {"file": path, "line": 1}
    assert item["preview"]["object"]["namespace"] == "elsewhere"
    assert other["preview"]["object"]["namespace"] == NAMESPACE, "that of the context refuses no document"
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
def test_a_refusal_of_the_service_is_shown_in_its_words(
    api: Cluster, tmp_path: Path, text: str, line: str
) -> None:
    assert api.objects
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")
    code, out, err = run("preview", "-f", str(path), "-n", "team")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}:")
    assert line in err


@pytest.mark.parametrize(
    ("words", "text", "done"),
    [
        ((), "kind: A", (0, ())),
        (("--fit",), "kind: A", (1, ())),
        (("-n", "team"), "refused", (2, ("--namespace=team",))),
        (("-o", "json"), "kind: A", (0, ("--output=json",))),
    ],
)
def test_without_the_service_the_dry_run_is_done_with_a_note(
    api: Cluster, tmp_path: Path, words: tuple[str, ...], text: str, done: tuple[int, tuple[str, ...]]
) -> None:
    """Protects people whose installation has no preview service, or who may not use it."""
    api.off = MISSING
    (path := tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    code, options = done
    remedy = "install the chart with the value preview: true"
    note = f"note: only the dry run is done: the API server answers 404: {MISSING}; {remedy}\n"
    assert run("preview", "-f", str(path), *words) == (code, "", note)
    assert api.dry_runs == [(str(path), *options)]
    assert len(api.paths) == 1


def test_an_installation_of_an_older_release_is_asked_for_the_dry_run(
    api: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects users of a newer plugin: 0.2.0 has fewer parameters and answers less."""
    answer = b'{"code": "unknown-parameter", "error": "unknown parameter"}'
    monkeypatch.setattr(api, "fetch", lambda *_: (400, answer))
    (path := tmp_path / "a.yaml").write_text("kind: A", encoding="utf-8")
    note = "note: only the dry run is done: the preview service refuses (400): unknown parameter\n"
    assert run("preview", "-f", str(path), "-n", "team") == (0, "", note)
