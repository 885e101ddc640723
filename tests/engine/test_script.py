"""Tests of the init script in the annotations of launcher Pods, and of the mount for the host file."""

from typing import Any

import jsonpatch
import pytest

from contract import keys
from contract.keys import INIT_SCRIPT
from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import request_for
from tests.rules.tables import EXTENDS
from webhook import initscript
from webhook.engine import Outcome, Request, evaluate, messages
from webhook.objects.messages import wrong_type
from webhook.objects.tree import Json, get
from webhook.rules.load import load_default, load_texts

POLICY_OFF = "policies: [{namespaces: ['*'], mode: off, reason: a test}]"


def launcher_pod(**metadata: Any) -> Json:
    """Returns the Pod that an operator creates from the launcher of a mutated job."""
    template = get(evaluate(load_default(), request_for(mpijob(4))).after, LAUNCHER)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template.get("metadata", {}), "name": "train-launcher-x", **metadata},
        "spec": template["spec"],
    }


def evaluate_pod(pod: Json, table: str = "") -> Outcome:
    """Returns the outcome for a Pod, and checks that the patch results in the Pod of the outcome."""
    outcome = evaluate(load_texts([("own.yaml", EXTENDS + table)], "own.yaml"), Request(pod, "team"))
    assert jsonpatch.apply_patch(pod, outcome.operations) == outcome.after
    return outcome


def script_of(pod: Json) -> Any:
    return get(pod, ("metadata", "annotations", INIT_SCRIPT))


def test_a_job_does_not_have_the_script() -> None:
    assert INIT_SCRIPT not in launcher_pod()["metadata"]["annotations"]


@pytest.mark.parametrize(
    "table",
    ["", "mode: off", POLICY_OFF, "mode: shadow"],
    ids=["enforced", "off", "off by policy", "shadow mode"],
)
@pytest.mark.parametrize(
    "metadata", [{}, {"annotations": None}, {"labels": {"ultraserver-webhook.io/inject": "false"}}]
)
def test_a_launcher_pod_gets_the_script_with_any_table(metadata: dict[str, Any], table: str) -> None:
    """Protects launchers of existing jobs from a change of the table: they fail without the script."""
    after = evaluate_pod(launcher_pod(**metadata), table).after
    assert script_of(after) == initscript.text()
    assert evaluate_pod(after, table).operations == ()


@pytest.mark.parametrize(("script", "result"), [("exit", "exit"), ("", initscript.text())])
def test_a_script_of_the_user_stays_unless_it_is_empty(script: str, result: str) -> None:
    assert script_of(evaluate_pod(launcher_pod(annotations={INIT_SCRIPT: script})).after) == result


def test_a_pod_that_is_refused_is_not_changed() -> None:
    table = "rules: [{name: none, reason: a test, match: {workload: pod, role: pod}, deny: denied}]"
    outcome = evaluate_pod(launcher_pod(), table)
    assert (outcome.denials, outcome.operations) == (("denied",), ())


@pytest.mark.parametrize(
    "pod",
    [
        launcher_pod()
        | {"spec": {"containers": [], "initContainers": [{"name": "mine", "env": [{"name": "OTHER"}]}]}},
        launcher_pod() | {"apiVersion": "v2"},
        launcher_pod() | {"spec": {"initContainers": {}}},
    ],
)
def test_an_object_without_the_init_container_or_of_another_kind_gets_no_script(pod: Json) -> None:
    assert script_of(evaluate_pod(pod).after) is None


@pytest.mark.parametrize(
    ("metadata", "path"), [([], "metadata"), ({"annotations": []}, "metadata.annotations")]
)
def test_a_launcher_pod_with_invalid_metadata_is_refused(metadata: Json, path: str) -> None:
    outcome = evaluate_pod(launcher_pod() | {"metadata": metadata}, "mode: off")
    assert outcome.denials == (wrong_type(path, "a map", []),)


def test_a_volume_whose_name_is_not_text_is_not_the_volume_of_the_host_file() -> None:
    pod = launcher_pod()
    pod["spec"] = {**pod["spec"], "volumes": [{"name": {"a": 1}}, {"name": ["ultraserver-init"]}, {}]}
    outcome = evaluate_pod(pod)
    assert "hostfile" not in outcome.fired()
    reasons = {rule.name: rule.why for rule in outcome.rules}
    assert reasons["hostfile"] == messages.no_volume("pod", "ultraserver-init")


TABLE = load_default()
MOUNT_PATH = "/root/ultraserver_init"
MOUNT = {"mountPath": MOUNT_PATH, "name": "ultraserver-init"}


def job_with_mounts(mounts: list[Any]) -> Any:
    return mpijob(4, launcher_spec={"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]})


@pytest.mark.parametrize("mounts", [[], [MOUNT], [{"mountPath": "/data", "name": "data"}], ["odd", None]])
def test_a_job_without_a_conflicting_mount_gets_no_warning(mounts: list[Any]) -> None:
    outcome = evaluate(TABLE, request_for(job_with_mounts(mounts)))
    assert outcome.warnings == ()
    assert get(outcome.after, (*LAUNCHER, "metadata", "annotations", f"{keys.PREFIX}hostfile"))
