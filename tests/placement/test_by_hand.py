"""Tests of ``python -m placement admit``, with which an administrator admits jobs by hand."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from contract.keys import PLACEMENT
from placement import __main__ as program
from placement import messages
from tests.kube.fake import FakeApi
from tests.placement.stored import pods, store_job


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake_api = FakeApi(page=1)
    for namespace, name in (("team", "a"), ("team", "b"), ("other", "a")):
        store_job(fake_api, name, 4, namespace)
    monkeypatch.setattr(program, "connect", lambda _: fake_api)
    return fake_api


def run_command(*arguments: str) -> Result:
    return CliRunner().invoke(program.main, arguments)


def gated_jobs(api: FakeApi) -> set[str]:
    """Returns the jobs that have gated pods, as namespace and name."""
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name'].split('-')[0]}"
        for pod in pods(api)
        if pod["spec"]["schedulingGates"]
    }


@pytest.mark.parametrize("name", ["team/a", "team/team.a"])
def test_the_named_job_is_admitted(api: FakeApi, name: str) -> None:
    result = run_command("admit", name)
    assert result.exit_code == 0, result.output
    assert "admitted pod team/a-worker-0 of job team/a" in result.output.splitlines()
    assert len(result.output.splitlines()) == 5
    assert gated_jobs(api) == {"team/b", "other/a"}


HASHED_LABEL = "c_0123456789abcdef0123"
"""A job label without the kind: the job's name was too long, or the job had no name in its review."""


@pytest.mark.parametrize(
    ("label", "name_fields"),
    [
        ("c_PyTorchJob.kubeflow.org", {}),
        (HASHED_LABEL, {"training.kubeflow.org/job-name": "c"}),
        (HASHED_LABEL, {"owner": "c"}),
        ("c_LeaderWorkerSet.leaderworkerset.x-k8s.io", {"group": "1"}),
        (HASHED_LABEL, {"group": "1", "leaderworkerset.sigs.k8s.io/name": "c"}),
    ],
)
def test_a_job_of_any_kind_is_found_by_its_name(
    label: str, name_fields: dict[str, str], api: FakeApi
) -> None:
    store_job(api, label, 4)
    for pod in pods(api, "c_"):
        pod["metadata"]["labels"] |= name_fields
        pod["metadata"]["ownerReferences"] = [
            {"kind": "Job", "name": name_fields.get("owner"), "controller": True}
        ]
        if "group" in name_fields and PLACEMENT in pod["metadata"]["annotations"]:
            pod["metadata"]["annotations"][PLACEMENT] += " group=labels/group"
    assert "no pod of team/other waits" in run_command("admit", "team/other").output
    assert len(run_command("admit", "team/c").output.splitlines()) == 5
    assert gated_jobs(api) == {"team/a", "team/b", "other/a"}


def test_with_all_every_job_is_admitted(api: FakeApi) -> None:
    result = run_command("admit", "--all")
    assert result.exit_code == 0
    assert gated_jobs(api) == set()


@pytest.mark.parametrize("arguments", [[], ["team/a", "--all"], ["a"], ["team/"], ["/a"]])
def test_namespace_and_name_of_a_job_or_all_must_be_given(api: FakeApi, arguments: list[str]) -> None:
    result = run_command("admit", *arguments)
    assert result.exit_code == 2
    assert messages.ONE_OR_ALL in result.output
    assert len(gated_jobs(api)) == 3


@pytest.mark.parametrize("name", ["team/c", "nowhere/a"])
def test_a_job_that_does_not_wait_is_an_error(api: FakeApi, name: str) -> None:
    result = run_command("admit", name)
    assert result.exit_code == 1
    assert f"no pod of {name} waits" in result.output
    assert len(gated_jobs(api)) == 3


def test_a_pod_that_cannot_be_admitted_is_reported_and_other_pods_are_admitted(api: FakeApi) -> None:
    api.refuse = "PATCH /api/v1/namespaces/team/pods/a-worker-1"
    result = run_command("admit", "team/a")
    assert result.exit_code == 1
    assert "pod team/a-worker-1 of job team/a: PATCH" in result.output
    assert "1 pods were not admitted" in result.output
    assert len([pod for pod in pods(api, "a-") if not pod["spec"]["schedulingGates"]]) == 4


def test_if_pods_cannot_be_listed_an_error_is_printed(api: FakeApi) -> None:
    api.refuse = "GET /api/v1/pods"
    result = run_command("admit", "--all")
    assert result.exit_code == 1
    assert result.output.startswith("Error: GET /api/v1/pods: 403 forbidden")


def test_without_a_cluster_an_error_is_printed(tmp_path: Path) -> None:
    for command in (["admit", "--all"], ["open", "--all"], ["run"]):
        result = run_command(*command, f"--kubeconfig={tmp_path}/none")
        assert result.exit_code == 1
        assert "cannot reach the API server" in result.output
