"""Tests of ``preview --pods``, which shows the changes of a job's Pods; equal Pods form one range."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract import keys
from testbed.mpijob import mpijob
from tests.helpers import unfold
from tests.plane.kinds.jobs import job, leaderworkerset, pytorchjob, trainjob
from tests.preview.schema import assert_matches_schema
from tests.rules.tables import EXTENDS
from webhook import limits
from webhook.cli import main
from webhook.documents import dump_yaml, read_documents
from webhook.messages import no_pods
from webhook.preview import messages
from webhook.preview.run import preview
from webhook.rules.load import load_installed

PLAIN = {"resources": {}, "name": "x", "image": "example.invalid/x"}


def run_preview(*options: str, obj: Any) -> Result:
    """Runs a preview without whole-job admission, because gated workers get no block label."""
    return CliRunner().invoke(
        main,
        ["preview", "--pods", "--without-placement", *options],
        input=dump_yaml(obj),
        catch_exceptions=False,
    )


def lines(result: Result) -> list[str]:
    """Returns the lines of standard error about Pods, and the notes."""
    return [
        line.strip() for line in unfold(result.stderr).splitlines() if line.startswith(("  Pod ", "  note "))
    ]


def test_a_preview_of_many_pods_evaluates_the_first_and_reports_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Protects users from waiting half a minute without any output for a job of 100,000 workers."""
    monkeypatch.setattr(limits, "PODS", 25)
    monkeypatch.setattr("webhook.preview.run._PROGRESS_PODS", 20)
    result = run_preview(obj=mpijob(100_000))
    assert result.stderr.startswith(f"{messages.pods_evaluated('MPIJob default/train', 20)}\n")
    note, *_, last = lines(result)
    assert note == f"note     {messages.more_pods(25)}"
    assert last.startswith("Pod      worker 4-23 of 100000: ")


def test_the_pods_of_all_jobs_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects pipelines from files with many jobs, each of which is below the limit for one job."""
    monkeypatch.setattr(limits, "PODS_OF_ALL", 20)
    jobs = {"apiVersion": "v1", "kind": "List", "items": [mpijob(12), mpijob(12)]}
    result = run_preview(obj=jobs)
    assert result.exit_code == 2
    assert messages.MANY_PODS in unfold(result.stderr)
    assert run_preview(obj=mpijob(12)).exit_code == 1


def test_equal_pods_are_shown_once_and_similar_pods_by_the_difference() -> None:
    """The launcher and the first block have a diff, and the other blocks have one line."""
    result = run_preview(obj=mpijob(12))
    assert lines(result) == [
        "Pod      launcher: changed by hostfile, launcher-mounts-both-paths, hostfile-open-mpi-5",
        "Pod      worker 0-3 of 12: changed by blocks-whole",
        f"Pod      worker 4-11 of 12: 2 ranges, each like worker 0-3 of 12, with {keys.BLOCK} 1 to 2",
    ]
    headers = [line for line in result.stdout.splitlines() if line.startswith("---")]
    titles = [
        "MPIJob default/train",
        *(f"Pod {pod} of MPIJob default/train" for pod in ("launcher", "worker 0-3 of 12")),
    ]
    assert headers == [f"--- <stdin>:1 ({title})" for title in titles]
    assert lines(run_preview(obj=pytorchjob(3)))[1:] == [
        "Pod      master: as in the job's template",
        "Pod      worker 0-2 of 3: as in the job's template",
    ]
    (why,) = [
        line for line in run_preview("-o", "why", obj=mpijob(8)).stdout.splitlines() if "like worker" in line
    ]
    assert why == "<stdin>:1: Pod worker 4-7 of 8: like worker 0-3 of 8, with ultraserver-webhook.io/block 1"


def test_json_has_the_pod_and_the_rule_of_each_change_for_every_range() -> None:
    """The JSON matches its schema. Each range has its own block label, and the rule that set the label."""
    document = json.loads(run_preview("-o", "json", obj=mpijob(8)).stdout)
    assert_matches_schema(document)
    pods = document["items"][0]["pods"]
    assert [(pod["group"], pod["first"], pod["last"], pod["of"]) for pod in pods] == [
        ("launcher", 0, 0, 1),
        ("worker", 0, 3, 8),
        ("worker", 4, 7, 8),
    ]
    path = f"/metadata/labels/{keys.BLOCK.replace('/', '~1')}"
    changes = [{change["path"]: change for change in pod["preview"]["changes"]}.get(path) for pod in pods]
    assert [change and (change["after"], change["rule"]["name"]) for change in changes] == [
        None,
        ("0", "blocks-whole"),
        ("1", "blocks-whole"),
    ]


def test_in_yaml_a_comment_before_each_pod_has_its_range() -> None:
    """The job and its Pods are in one stream. A preview of this stream has no further changes."""
    text = run_preview("-o", "yaml", obj=mpijob(4)).stdout
    assert "---\n# Pod worker 0-3 of 4 of MPIJob default/train\n" in text
    documents = read_documents(text)
    assert [document.value["kind"] for document in documents] == ["MPIJob", "Pod", "Pod"]
    assert CliRunner().invoke(main, ["preview", "--without-placement"], input=text).exit_code == 0


NOTES: dict[str, tuple[Any, str]] = {
    "no workload": (
        trainjob(4),
        "its Pods are not known: no workload of the rule table matches kind trainer",
    ),
    "groups": (
        leaderworkerset(2, 4),
        "these are the Pods of the first group (leaderworkerset.sigs.k8s.io/group-index); each group",
    ),
    "more completions than parallelism": (
        job(4, completionMode="Indexed", completions=8),
        "its Pods do not all exist at once",
    ),
    "an Indexed Job": (job(4, completionMode="Indexed"), ""),
    "refused": (mpijob(-1), ""),
    "a Pod": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, ""),
}


@pytest.mark.parametrize("case", NOTES)
def test_unknown_or_hidden_pods_are_reported(case: str) -> None:
    """Protects users from the impression that a job has no Pods, or no other Pods."""
    obj, note = NOTES[case]
    output = [line for line in lines(run_preview(obj=obj)) if line.startswith("note")]
    notes = [line for line in output if "does not send" not in line and "is not a workload" not in line]
    assert notes == [] if not note else notes[0].startswith(f"note     {note}")


def test_with_a_table_that_is_off_the_pods_of_an_invalid_job_are_unknown(
    tmp_path: Path,
) -> None:
    (table := tmp_path / "t.yaml").write_text(f"{EXTENDS}mode: off\n")
    (note,) = lines(run_preview("--rules", str(table), obj=mpijob(-1)))
    assert note.startswith("note     its Pods are not known: the number of workers must be a whole number")


def test_a_denial_or_warning_about_a_pod_is_a_finding_of_its_job(tmp_path: Path) -> None:
    """The finding changes the exit status and has an annotation. A changed Pod changes the exit status."""
    row = "rules: [{name: x, reason: r, match: {workload: pod, role: pod, labels: {%s: '1'}}, %s: said}]\n"
    label = "batch.kubernetes.io/job-completion-index"
    obj = job(2, completionMode="Indexed")
    for action, code in (("deny", 2), ("warn", 1)):
        (table := tmp_path / "t.yaml").write_text(EXTENDS + row % (label, action))
        result = run_preview("--rules", str(table), "-o", "github", obj=obj)
        assert result.exit_code == code
        assert f"::{'error' if code == 2 else 'warning'} file=<stdin>,line=1" in result.stdout
        assert "::Pod worker 1 of 2: said" in result.stdout
    options = ["preview", "--without-placement"]
    text = CliRunner().invoke(main, [*options, "-o", "yaml"], input=dump_yaml(mpijob(8))).stdout
    assert CliRunner().invoke(main, [*options, "--pods"], input=text).exit_code == 1


def test_an_output_format_without_pods_is_refused() -> None:
    """Protects users from the impression that the patch includes the changes of Pods."""
    result = run_preview("-o", "patch", obj=mpijob(8))
    assert (result.exit_code, no_pods("patch") in result.stderr) == (2, True)


def test_a_worker_of_a_placed_job_is_placed_with_its_job() -> None:
    """Protects users from the answer that the Pods of a placed job are not placed."""
    (job,) = preview(load_installed(), read_documents(dump_yaml(mpijob(4)), "job"), None, 0, pods=True)
    sentences = [pod.report["sentence"] for pod in job.pods]
    assert (
        f"placed: {messages.with_pods('4 Pods')}; {messages.waits_for_nodes(4, is_group=False)}" in sentences
    )
