"""``preview --pods``: the Pods of a job and what they get, equal ones as one."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract import keys
from testbed.mpijob import mpijob
from tests.helpers import unfolded
from tests.plane.kinds.jobs import job, leaderworkerset, pytorchjob, trainjob
from tests.preview.schema import assert_as_published
from tests.rules.tables import EXTENDS
from webhook import limits
from webhook.cli import main
from webhook.documents import dump_yaml, read_documents
from webhook.preview import messages
from webhook.preview.run import preview
from webhook.rules.load import load_installed

PLAIN = {"resources": {}, "name": "x", "image": "example.invalid/x"}


def run(*words: str, obj: Any) -> Result:
    """Returns without whole-job admission, whose workers get no block."""
    return CliRunner().invoke(
        main,
        ["preview", "--pods", "--without-placement", *words],
        input=dump_yaml(obj),
        catch_exceptions=False,
    )


def lines(result: Result) -> list[str]:
    """Returns what standard error says of Pods."""
    return [
        line.strip()
        for line in unfolded(result.stderr).splitlines()
        if line.startswith(("  Pod ", "  note "))
    ]


def test_a_preview_of_many_pods_evaluates_the_first_and_reports_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job of 100,000 workers took half a minute without a word."""
    monkeypatch.setattr(limits, "PODS", 25)
    monkeypatch.setattr("webhook.preview.run._PROGRESS_PODS", 20)
    result = run(obj=mpijob(100_000))
    assert result.stderr.startswith("MPIJob default/train: 20 Pods evaluated\n")
    note, *_, last = lines(result)
    assert note == "note     the job has more than 25 Pods, and the others are not shown"
    assert last.startswith("Pod      worker 4-23 of 100000: ")


def test_pods_of_all_jobs_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects a pipeline from a file of many jobs, each of them below the limit for one."""
    monkeypatch.setattr(limits, "PODS_OF_ALL", 20)
    jobs = {"apiVersion": "v1", "kind": "List", "items": [mpijob(12), mpijob(12)]}
    result = run(obj=jobs)
    assert result.exit_code == 2
    assert messages.MANY_PODS in unfolded(result.stderr)
    assert run(obj=mpijob(12)).exit_code == 1


def test_equal_pods_are_shown_once_and_others_by_what_differs() -> None:
    """A diff of the launcher and of the first block; the other blocks are a line."""
    result = run(obj=mpijob(12))
    assert lines(result) == [
        "Pod      launcher: changed by hostfile, launcher-mounts-both-paths, hostfile-open-mpi-5",
        "Pod      worker 0-3 of 12: changed by blocks-whole",
        f"Pod      worker 4-11 of 12: 2 ranges, each like worker 0-3 of 12, with {keys.BLOCK} 1 to 2",
    ]
    heads = [line for line in result.stdout.splitlines() if line.startswith("---")]
    titles = [
        "MPIJob default/train",
        *(f"Pod {pod} of MPIJob default/train" for pod in ("launcher", "worker 0-3 of 12")),
    ]
    assert heads == [f"--- <stdin>:1 ({title})" for title in titles]
    assert lines(run(obj=pytorchjob(3)))[1:] == [
        "Pod      master: unchanged",
        "Pod      worker 0-2 of 3: unchanged",
    ]
    (why,) = [line for line in run("-o", "why", obj=mpijob(8)).stdout.splitlines() if "like worker" in line]
    assert why == "<stdin>:1: Pod worker 4-7 of 8: like worker 0-3 of 8, with ultraserver-webhook.io/block 1"


def test_for_tools_every_part_is_there_with_the_pod_and_who_set_what() -> None:
    """The JSON is what its schema says; each part has its own block, and the rule that set it."""
    document = json.loads(run("-o", "json", obj=mpijob(8)).stdout)
    assert_as_published(document)
    pods = document["items"][0]["pods"]
    assert [(pod["group"], pod["first"], pod["last"], pod["of"]) for pod in pods] == [
        ("launcher", 0, 0, 1),
        ("worker", 0, 3, 8),
        ("worker", 4, 7, 8),
    ]
    at = f"/metadata/labels/{keys.BLOCK.replace('/', '~1')}"
    answer = [{each["path"]: each for each in pod["preview"]["changes"]}.get(at) for pod in pods]
    assert [each and (each["after"], each["rule"]["name"]) for each in answer] == [
        None,
        ("0", "blocks-whole"),
        ("1", "blocks-whole"),
    ]


def test_as_yaml_each_pod_follows_a_comment_with_its_share() -> None:
    """In one stream with its job; nothing is done to it a second time."""
    text = run("-o", "yaml", obj=mpijob(4)).stdout
    assert "---\n# Pod worker 0-3 of 4 of MPIJob default/train\n" in text
    documents = read_documents(text)
    assert [each.value["kind"] for each in documents] == ["MPIJob", "Pod", "Pod"]
    assert CliRunner().invoke(main, ["preview", "--without-placement"], input=text).exit_code == 0


NOTES: dict[str, tuple[Any, str]] = {
    "no row": (trainjob(4), "its Pods are not known: no workload of the rule table matches kind trainer"),
    "groups": (
        leaderworkerset(2, 4),
        "these are the Pods of the first leaderworkerset.sigs.k8s.io/group-index; each",
    ),
    "later": (job(4, completionMode="Indexed", completions=8), "its Pods do not all exist at once"),
    "numbered": (job(4, completionMode="Indexed"), ""),
    "refused": (mpijob(-1), ""),
    "a Pod": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, ""),
}


@pytest.mark.parametrize("what", NOTES)
def test_unknown_or_hidden_pods_are_reported(what: str) -> None:
    """Silence would say that there are none, or no others."""
    obj, note = NOTES[what]
    output = [line for line in lines(run(obj=obj)) if line.startswith("note")]
    entries = [line for line in output if "does not send" not in line and "is not a workload" not in line]
    assert entries == [] if not note else entries[0].startswith(f"note     {note}")


def test_a_table_that_is_off_does_not_know_the_pods_of_an_unreadable_job(
    tmp_path: Path,
) -> None:
    """No one has read the job then."""
    (table := tmp_path / "t.yaml").write_text(f"{EXTENDS}mode: off\n")
    (note,) = lines(run("--rules", str(table), obj=mpijob(-1)))
    assert note.startswith("note     its Pods are not known: the number of workers must be a whole number")


def test_what_refuses_a_pod_or_warns_of_it_is_a_finding_of_its_job(tmp_path: Path) -> None:
    """The exit status and the annotations of a pipeline count it; a Pod that would change is a change."""
    row = "rules: [{name: x, reason: r, match: {workload: pod, role: pod, labels: {%s: '1'}}, %s: said}]\n"
    label = "batch.kubernetes.io/job-completion-index"
    obj = job(2, completionMode="Indexed")
    for verdict, code in (("deny", 2), ("warn", 1)):
        (table := tmp_path / "t.yaml").write_text(EXTENDS + row % (label, verdict))
        result = run("--rules", str(table), "-o", "github", obj=obj)
        assert result.exit_code == code
        assert f"::{'error' if code == 2 else 'warning'} file=<stdin>,line=1" in result.stdout
        assert "::Pod worker 1 of 2: said" in result.stdout
    words = ["preview", "--without-placement"]
    eight = CliRunner().invoke(main, [*words, "-o", "yaml"], input=dump_yaml(mpijob(8))).stdout
    assert CliRunner().invoke(main, [*words, "--pods"], input=eight).exit_code == 1


def test_a_form_that_has_no_pods_is_refused() -> None:
    """Or one would take the answer for all there is."""
    result = run("-o", "patch", obj=mpijob(8))
    assert (result.exit_code, "-o patch has no Pods: use -o json" in result.stderr) == (2, True)


def test_a_worker_of_a_placed_job_is_placed_with_its_job() -> None:
    """Protects who looks at the Pods of a job from the answer that they are not placed."""
    (job,) = preview(load_installed(), read_documents(dump_yaml(mpijob(4)), "job"), None, 0, pods=True)
    sentences = [pod.report["sentence"] for pod in job.pods]
    assert "placed: with the 4 Pods of its job; the job waits until all 4 nodes are free" in sentences
