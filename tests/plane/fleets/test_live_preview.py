"""Tests that ``kubectl ultraserver preview`` explains why the API server's answer differs from the table."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from common.pointers import pointer
from contract import keys
from testbed import chart
from testbed.mpijob import WORKER, mpijob
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import delete_all, list_object, to_json
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.nodes import INSTANCE_TYPE
from testbed.plane.plugin import account, plugin, run_preview
from testbed.plane.previews import run_preview_service, wait_until_served
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until
from tests.docs.blocks import blocks_of
from tests.plane import recorder
from tests.plane.fleets.installed import UNREACHABLE, installed
from tests.plane.kinds.jobs import job
from tests.plane.recorder import Patch, answer_with_patch
from webhook.rules.load import load_installed

NAME = "ultraserver-webhook"
CASE = f"{keys.PREFIX}case"
ROWS = chart.RULES / "20-pods.yaml"
TYPE_POINTER = pointer((*WORKER, "spec", "nodeSelector", INSTANCE_TYPE))
TABLE_HEAD = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
REFUSED_JOB = mpijob(6, annotations={keys.NODE_CONFIG: "4"})


class Live(NamedTuple):
    """A registered installation, with more webhooks for the namespaces that have the label ``case``."""

    plane: ControlPlane
    namespace: Callable[..., Kubectl]
    home: Kubectl
    rules: Path

    def write_table(self, rows: str) -> None:
        """Replaces the table of the preview service. The webhook keeps its own table."""
        new = self.rules.with_suffix(".new")
        new.write_text(rows, encoding="utf-8")
        new.replace(self.rules)  # the service must not read half of a table
        wait_until_served(self.home, load_installed(self.rules, placement=False).revision)


def change_instance_type(_: Object) -> Patch:
    return [{"op": "replace", "path": TYPE_POINTER, "value": "ml.trn2u.48xlarge"}]


@pytest.fixture(scope="module")
def registered(plane: ControlPlane, running: RunningWebhook) -> Iterator[None]:
    """Registers the installation, three more webhooks of our program, and a webhook of another program.

    The three are ``condition`` with a match condition, and ``away`` and ``closed``, which are unreachable.
    """
    own = webhook.configuration(running, f"{NAME}-2")
    hooks = {name: copy.deepcopy(own["webhooks"][0]) for name in ("condition", "away", "closed", "other")}
    for name, hook in hooks.items():
        hook["name"], hook["namespaceSelector"] = f"{name}.hooks.example", {"matchLabels": {CASE: name}}
        hook["matchConditions"] = []
    hooks["condition"]["matchConditions"] = [{"name": "blue", "expression": "object.metadata.name == 'blue'"}]
    hooks["condition"]["failurePolicy"] = hooks["away"]["failurePolicy"] = "Ignore"
    hooks["away"]["clientConfig"]["url"] = hooks["closed"]["clientConfig"]["url"] = UNREACHABLE
    # The API server calls this webhook after our webhook, and then calls our webhook again. Our webhook then
    # finds that a field, which it has set in the first call, has another value.
    other = own | {"metadata": {"name": "zz"}, "webhooks": [hooks.pop("other")]}
    own["webhooks"] = list(hooks.values())
    folder = plane.folder / "webhook"
    with recorder.serve_answers(folder, answer_with_patch(change_instance_type)) as url:
        other["webhooks"][0]["clientConfig"]["url"] = url
        plane.kubectl.create(list_object(own, other))
        with installed(plane, running, {}):
            yield
        for name in (f"{NAME}-2", "zz"):
            plane.kubectl.delete("mutatingwebhookconfiguration", name)


@pytest.fixture(scope="module")
def served(plane: ControlPlane, passed_on: None) -> Iterator[tuple[Kubectl, Path]]:
    """Kubectl for the namespace of the installation's preview service, and the file of its table."""
    assert passed_on is None
    rules = plane.folder / "previews.yaml"
    rules.write_bytes(ROWS.read_bytes())
    with run_preview_service(plane, NAME, rules) as home:
        yield home, rules


@pytest.fixture
def live(
    plane: ControlPlane, registered: None, namespace: Callable[..., Kubectl], served: tuple[Kubectl, Path]
) -> Iterator[Live]:
    """The installation; its preview service and its webhook use equal tables."""
    assert registered is None
    result = Live(plane, namespace, *served)
    result.write_table(ROWS.read_text(encoding="utf-8"))
    return result


def previewed_answers(
    inside: Kubectl, *jobs: Object, kubeconfig: Path | None = None
) -> tuple[int, list[Any], str]:
    """Returns the exit status, the part about the server for each object, and the revision of the table."""
    code, items = run_preview(replace(inside, kubeconfig=kubeconfig or inside.kubeconfig), *jobs)
    return code, [item["server"] for item in items], items[0]["preview"]["table"]


def test_there_is_no_finding_if_server_and_table_agree(live: Live) -> None:
    """This includes a job without a name, an object of no workload, and a job that both refuse."""
    inside = live.namespace()
    unnamed = mpijob(8, generate_name="train-")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    accepted = (mpijob(4), unnamed, config_map)
    code, (*accepted_servers, refusing_server), table = previewed_answers(inside, *accepted, REFUSED_JOB)
    for server in accepted_servers:
        assert (server["stores"], server["findings"]) == (True, [])
    assert table == load_installed(ROWS, placement=False).revision
    assert (refusing_server["stores"], refusing_server["findings"]) == (False, []), "both refuse it"
    assert code == 2
    assert previewed_answers(inside, *accepted)[0] == 0
    assert not inside.get_json("mpijobs")["items"], "nothing was created"


MPIJOBS_HOOK = "mpijobs.ultraserver-webhook.io"
WOULD_CHANGE = "though the rule table would change it"
NAMESPACE_SELECTOR = (
    f"the webhook's namespaceSelector: label {keys.INJECT} is disabled, not NotIn disabled, false"
)
CONDITION = "blue: object.metadata.name == 'blue'"
EXCLUDED = "a match condition excludes the object"
NO_ANSWER = "the webhook did not answer, and its failurePolicy is Ignore; or its replicas have another table"
TYPES = '"ml.trn2u.48xlarge", not "trn2u.48xlarge"'
NOT_DECODED = 'MPIJob in version "v2beta1" cannot be handled as a MPIJob'
CALL_FAILED = (
    'Internal error occurred: failed calling webhook "closed.hooks.example": failed to call webhook: '
)
CASES: Mapping[str, tuple[Object, str]] = {
    "opted-out": (
        mpijob(4),
        f"{MPIJOBS_HOOK}: is not called, {WOULD_CHANGE}: namespace NS is excluded by {NAMESPACE_SELECTOR}",
    ),
    "kind": (
        job(4, completionMode="Indexed"),
        f"{NAME}: is not called, {WOULD_CHANGE}: no rule of its registration is for jobs.batch",
    ),
    "condition": (
        mpijob(4),
        f"condition.hooks.example: did nothing, {WOULD_CHANGE}: {EXCLUDED}; or {NO_ANSWER} [{CONDITION}]",
    ),
    "away": (mpijob(4), f"away.hooks.example: did nothing, {WOULD_CHANGE}: {NO_ANSWER}"),
    "closed": (mpijob(4), f"kube-apiserver: refuses it: {CALL_FAILED}"),
    "other": (
        mpijob(4),
        (
            "other.hooks.example: changed a field that the installation sets, or an admission policy did "
            f"[{TYPE_POINTER}: {TYPES}]"
        ),
    ),
    "strict": (
        mpijob(4) | {"spce": {}},
        f'kube-apiserver: refuses it: {NOT_DECODED}: strict decoding error: unknown field "spce"',
    ),
    "unknown": (
        mpijob(4) | {"kind": "MPIjob"},
        "kube-apiserver: refuses it: it serves no MPIjob of kubeflow.org/v2beta1; is the CRD installed?",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference_between_server_and_table_is_explained(case: str, live: Live) -> None:
    labels = {"inject": "disabled"} if case in {"opted-out", "condition", "away", "closed"} else {}
    # The API server uses the labels of a new namespace at once, but later changes only after a moment.
    inside = live.namespace(**labels, case=case)
    document, expected = CASES[case]
    code, (server,), _ = previewed_answers(inside, document)
    (result,) = server["findings"]
    details = f" [{'; '.join(result['details'])}]" if result["details"] else ""
    line = f"{result['name']}: {result['text']}{details}"
    assert line.startswith(expected.replace("NS", inside.namespace))
    assert code == (1 if server["stores"] else 2)


@pytest.mark.parametrize("rows", ["rules: [{name: apart-across-namespaces, mode: off}]", "mode: off"])
def test_a_table_that_differs_from_the_table_of_the_webhook_is_reported(rows: str, live: Live) -> None:
    live.write_table(f"{TABLE_HEAD}{rows}\n")
    code, (server,), table = previewed_answers(live.namespace(), mpijob(4))
    (result,) = server["findings"]
    webhook_table = load_installed(ROWS, placement=False).revision
    assert (
        result["text"]
        == f"its replicas use table {webhook_table}, and the preview service uses table {table}"
    )
    assert code == 1


def test_a_refusal_by_another_table_is_explained(live: Live) -> None:
    live.write_table(f"{TABLE_HEAD}mode: off\n")
    code, (server,), _ = previewed_answers(live.namespace(), REFUSED_JOB)
    (result,) = server["findings"]
    assert result["text"].startswith(
        "refuses it, because the webhook uses another table than the preview service: "
    )
    assert code == 2


def test_a_job_whose_name_already_exists_is_refused_with_a_remedy(live: Live) -> None:
    inside = live.namespace()
    inside.create(mpijob(4))
    code, (server,), _ = previewed_answers(inside, mpijob(4))
    (result,) = server["findings"]
    assert result["text"] == 'refuses it: mpijobs.kubeflow.org "train" already exists'
    assert result["remedy"].startswith("use another name")
    assert code == 2
    delete_all(inside, "mpijobs")


def test_a_user_who_may_only_create_jobs_sees_which_rights_are_missing(live: Live, tmp_path: Path) -> None:
    inside = live.namespace(inject="disabled")
    kubeconfig = account(inside, "ada", tmp_path)
    subject = f"--serviceaccount={inside.namespace}:ada"
    inside.run("create", "role", "jobs", "--verb=create", "--resource=mpijobs.kubeflow.org")
    inside.run("create", "rolebinding", "jobs", "--role=jobs", subject)
    (file := tmp_path / "job.json").write_text(to_json(mpijob(4)), encoding="utf-8")
    command = ("preview", "-f", str(file))
    done = plugin(inside, *command, kubeconfig=kubeconfig)
    assert (done.returncode, done.stdout) == (0, "mpijob.kubeflow.org/train created (server dry run)\n")
    assert done.stderr.startswith("note: only the dry run is done: the API server answers 403: services ")
    assert done.stderr.endswith("; an administrator can give you the Role of docs/preview.md\n")
    (role_block,) = [block for block in blocks_of("docs/preview.md") if block.file == "previews.yaml"]
    live.home.apply(role_block.text)
    live.home.run("create", "rolebinding", "ada", "--role=ultraserver-previews", subject)
    until(
        lambda: not plugin(inside, *command, kubeconfig=kubeconfig).stderr,
        "the right to use the preview service",
    )
    code, (server,), _ = previewed_answers(inside, mpijob(4), kubeconfig=kubeconfig)
    (result,) = server["findings"]
    assert result["text"] == (
        f"did nothing, {WOULD_CHANGE}: you may not read its registration (mutatingwebhookconfigurations)"
    )
    assert code == 1
    kinds = "mutatingwebhookconfigurations.admissionregistration.k8s.io,namespaces"
    read_rights = ["--verb=get,list", f"--resource={kinds}"]
    role = f"hooks-{inside.namespace}"
    inside.run("create", "clusterrole", role, *read_rights)
    inside.run("create", "clusterrolebinding", role, f"--clusterrole={role}", subject)
    inside.run("label", "namespace", inside.namespace, f"{CASE}=condition")
    _, (server,), _ = previewed_answers(inside, mpijob(4), kubeconfig=kubeconfig)
    inside.run("delete", "clusterrolebinding", role)
    (result,) = server["findings"]
    assert result["name"] == "condition.hooks.example"
    assert result["text"].endswith(f": {EXCLUDED}; or {NO_ANSWER}")
