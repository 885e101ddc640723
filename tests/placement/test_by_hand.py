"""Breaking the glass: ``python -m placement open``."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from contract.keys import PLACE
from placement import __main__ as program
from placement import messages
from tests.kube.fake import FakeApi
from tests.placement.stored import pods, store_job


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    made = FakeApi(page=1)
    for namespace, name in (("team", "a"), ("team", "b"), ("other", "a")):
        store_job(made, name, 4, namespace)
    monkeypatch.setattr(program, "connect", lambda _: made)
    return made


def call(*arguments: str) -> Result:
    return CliRunner().invoke(program.main, arguments)


def waiting(api: FakeApi) -> set[str]:
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name'].split('-')[0]}"
        for pod in pods(api)
        if pod["spec"]["schedulingGates"]
    }


@pytest.mark.parametrize("name", ["team/a", "team/team.a"])
def test_one_job_is_admitted(api: FakeApi, name: str) -> None:
    done = call("open", name)
    assert done.exit_code == 0, done.output
    assert "admitted pod team/a-worker-0 of job team/a" in done.output.splitlines()
    assert len(done.output.splitlines()) == 5
    assert waiting(api) == {"team/b", "other/a"}


HASHED = "c_0123456789abcdef0123"
"""The label's value where it has no room for the kind, or there was no name yet."""


@pytest.mark.parametrize(
    ("label", "marks"),
    [
        ("c_PyTorchJob.kubeflow.org", {}),
        (HASHED, {"training.kubeflow.org/job-name": "c"}),
        (HASHED, {"owner": "c"}),
        ("c_LeaderWorkerSet.leaderworkerset.x-k8s.io", {"group": "1"}),
        (HASHED, {"group": "1", "leaderworkerset.sigs.k8s.io/name": "c"}),
    ],
)
def test_one_of_another_kind_is_called_by_its_name(label: str, marks: dict[str, str], api: FakeApi) -> None:
    store_job(api, label, 4)
    for pod in pods(api, "c_"):
        pod["metadata"]["labels"] |= marks
        pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": marks.get("owner"), "controller": True}]
        if "group" in marks and PLACE in pod["metadata"]["annotations"]:
            pod["metadata"]["annotations"][PLACE] += " group=labels/group"
    assert "no pod of team/other waits" in call("open", "team/other").output
    assert len(call("open", "team/c").output.splitlines()) == 5
    assert waiting(api) == {"team/a", "team/b", "other/a"}


def test_all_are(api: FakeApi) -> None:
    done = call("open", "--all")
    assert done.exit_code == 0
    assert waiting(api) == set()


@pytest.mark.parametrize("arguments", [[], ["team/a", "--all"]])
def test_one_job_or_all_must_be_named(api: FakeApi, arguments: list[str]) -> None:
    done = call("open", *arguments)
    assert done.exit_code == 2
    assert messages.ONE_OR_ALL in done.output
    assert len(waiting(api)) == 3


@pytest.mark.parametrize("name", ["team/c", "nowhere/a", "a"])
def test_a_job_that_does_not_wait_is_an_error(api: FakeApi, name: str) -> None:
    done = call("open", name)
    assert done.exit_code == 1
    assert f"no pod of {name} waits" in done.output
    assert len(waiting(api)) == 3


def test_what_cannot_be_opened_is_named_and_the_rest_is_opened(api: FakeApi) -> None:
    api.refuse = "PATCH /api/v1/namespaces/team/pods/a-worker-1"
    done = call("open", "team/a")
    assert done.exit_code == 1
    assert "pod team/a-worker-1 of job team/a: PATCH" in done.output
    assert "1 pods were not admitted" in done.output
    assert len([pod for pod in pods(api, "a-") if not pod["spec"]["schedulingGates"]]) == 4


def test_pods_that_cannot_be_listed_are_an_error_in_words(api: FakeApi) -> None:
    api.refuse = "GET /api/v1/pods"
    done = call("open", "--all")
    assert done.exit_code == 1
    assert done.output.startswith("Error: GET /api/v1/pods: 403 forbidden")


def test_without_a_cluster_an_error_is_printed(tmp_path: Path) -> None:
    for command in (["open", "--all"], ["run"]):
        done = call(*command, f"--kubeconfig={tmp_path}/none")
        assert done.exit_code == 1
        assert "cannot reach the API server" in done.output
