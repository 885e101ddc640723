"""The script of a launcher's Pod, and the folder that its host file is in."""

from typing import Any

import jsonpatch
import pytest

from contract import keys
from contract.keys import INIT_SCRIPT
from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import requested
from tests.rules.tables import EXTENDS
from webhook import initscript
from webhook.engine import Outcome, Request, evaluate
from webhook.objects.tree import Json, get
from webhook.rules.load import load_default, load_texts

OFF = "policies: [{namespaces: ['*'], mode: off, reason: a test}]"


def launcher(**metadata: Any) -> Json:
    """Returns the Pod that is made of an admitted job's launcher."""
    template = get(evaluate(load_default(), requested(mpijob(4))).after, LAUNCHER)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template.get("metadata", {}), "name": "train-launcher-x", **metadata},
        "spec": template["spec"],
    }


def reviewed(pod: Json, table: str = "") -> Outcome:
    """Returns evaluated, with a patch that gives what the outcome says."""
    outcome = evaluate(load_texts([("own.yaml", EXTENDS + table)], "own.yaml"), Request(pod, "team"))
    assert jsonpatch.apply_patch(pod, outcome.operations) == outcome.after
    return outcome


def text(pod: Json) -> Any:
    return get(pod, ("metadata", "annotations", INIT_SCRIPT))


def test_a_job_does_not_have_the_text() -> None:
    assert INIT_SCRIPT not in launcher()["metadata"]["annotations"]


@pytest.mark.parametrize(
    "table", ["", "mode: off", OFF, "mode: shadow"], ids=["table", "off", "policy", "shadow"]
)
@pytest.mark.parametrize(
    "own", [{}, {"annotations": None}, {"labels": {"ultraserver-webhook.io/inject": "false"}}]
)
def test_its_pod_has_it_after_any_change_of_the_table(own: dict[str, Any], table: str) -> None:
    """Without it the launcher could only fail, and that it runs was decided with the job."""
    after = reviewed(launcher(**own), table).after
    assert text(after) == initscript.text()
    assert reviewed(after, table).operations == ()


@pytest.mark.parametrize(("own", "line"), [("exit", "exit"), ("", initscript.text())])
def test_a_text_of_the_jobs_own_stays(own: str, line: str) -> None:
    assert text(reviewed(launcher(annotations={INIT_SCRIPT: own})).after) == line


def test_a_pod_that_is_refused_is_not_changed() -> None:
    deny = "rules: [{name: none, reason: a test, match: {workload: pod, role: pod}, deny: denied}]"
    outcome = reviewed(launcher(), deny)
    assert (outcome.denials, outcome.operations) == (("denied",), ())


@pytest.mark.parametrize(
    "pod",
    [
        launcher()
        | {"spec": {"containers": [], "initContainers": [{"name": "mine", "env": [{"name": "OTHER"}]}]}},
        launcher() | {"apiVersion": "v2"},
        launcher() | {"spec": {"initContainers": {}}},
    ],
)
def test_what_runs_none_or_is_no_pod_gets_none(pod: Json) -> None:
    assert text(reviewed(pod).after) is None


@pytest.mark.parametrize("metadata", [[], {"annotations": []}])
def test_one_that_cannot_have_it_is_refused_by_what_is_wrong(metadata: Json) -> None:
    assert "must be a map" in reviewed(launcher() | {"metadata": metadata}, "mode: off").denials[0]


def test_a_volume_with_an_odd_name_is_none_that_a_host_file_is_in() -> None:
    pod = launcher()
    pod["spec"] = {**pod["spec"], "volumes": [{"name": {"a": 1}}, {"name": ["ultraserver-init"]}, {}]}
    outcome = reviewed(pod)
    assert "hostfile" not in outcome.fired()
    assert {rule.name: rule.why for rule in outcome.rules}[
        "hostfile"
    ] == "the pod has no volume ultraserver-init"


TABLE = load_default()
PLACE = "/root/ultraserver_init"
OURS = {"mountPath": PLACE, "name": "ultraserver-init"}


def job(mounts: list[Any]) -> Any:
    return mpijob(4, launcher_spec={"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]})


@pytest.mark.parametrize("mounts", [[], [OURS], [{"mountPath": "/data", "name": "data"}], ["odd", None]])
def test_a_job_that_leaves_the_field_free_gets_no_warning(mounts: list[Any]) -> None:
    outcome = evaluate(TABLE, requested(job(mounts)))
    assert outcome.warnings == ()
    assert get(outcome.after, (*LAUNCHER, "metadata", "annotations", f"{keys.PREFIX}hostfile"))
