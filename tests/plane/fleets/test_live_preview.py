"""``kubectl ultraserver preview``: what the table says next to what the API server does."""

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
from testbed.plane.jobs import end, text, together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.nodes import INSTANCE_TYPE
from testbed.plane.plugin import account, plugin, previewed
from testbed.plane.previews import previews, wait_until_served
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until
from tests.docs.blocks import blocks_of
from tests.plane import recorder
from tests.plane.fleets.installed import AWAY, installed
from tests.plane.kinds.jobs import job
from tests.plane.recorder import Patch, patching
from webhook.rules.load import load_installed

NAME = "ultraserver-webhook"
CASE = f"{keys.PREFIX}case"
ROWS = chart.RULES / "20-pods.yaml"
SELECTOR = pointer((*WORKER, "spec", "nodeSelector", INSTANCE_TYPE))
HEAD = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
REFUSED = mpijob(6, annotations={keys.NODE_CONFIG: "4"})


class Live(NamedTuple):
    """An installation that is registered, and more webhooks for namespaces that have the label case."""

    plane: ControlPlane
    namespace: Callable[..., Kubectl]
    home: Kubectl
    rules: Path

    def write_table(self, rows: str) -> None:
        """Has the preview service use rows as the installation's table; the webhook keeps its own."""
        new = self.rules.with_suffix(".new")
        new.write_text(rows, encoding="utf-8")
        new.replace(self.rules)  # at once, like a kubelet: the service may read a file that is half written
        wait_until_served(self.home, load_installed(self.rules, placement=False).revision)


def of_another_type(_: Object) -> Patch:
    return [{"op": "replace", "path": SELECTOR, "value": "ml.trn2u.48xlarge"}]


@pytest.fixture(scope="module")
def registered(plane: ControlPlane, running: RunningWebhook) -> Iterator[None]:
    """Our base; ours as well: one behind a condition, two with no one there; and another user's."""
    ours = webhook.configuration(running, f"{NAME}-2")
    hooks = {name: copy.deepcopy(ours["webhooks"][0]) for name in ("condition", "away", "closed", "other")}
    for name, hook in hooks.items():
        hook["name"], hook["namespaceSelector"] = f"{name}.hooks.example", {"matchLabels": {CASE: name}}
        hook["matchConditions"] = []
    hooks["condition"]["matchConditions"] = [{"name": "blue", "expression": "object.metadata.name == 'blue'"}]
    hooks["condition"]["failurePolicy"] = hooks["away"]["failurePolicy"] = "Ignore"
    hooks["away"]["clientConfig"]["url"] = hooks["closed"]["clientConfig"]["url"] = AWAY
    # It comes after ours, and ours is asked again: what it finds changed then is not its own any more.
    theirs = ours | {"metadata": {"name": "zz"}, "webhooks": [hooks.pop("other")]}
    ours["webhooks"] = list(hooks.values())
    folder = plane.folder / "webhook"
    with recorder.answering(folder, patching(of_another_type)) as url:
        theirs["webhooks"][0]["clientConfig"]["url"] = url
        plane.kubectl.create(together(ours, theirs))
        with installed(plane, running, {}):
            yield
        for name in (f"{NAME}-2", "zz"):
            plane.kubectl.delete("mutatingwebhookconfiguration", name)


@pytest.fixture(scope="module")
def served(plane: ControlPlane, passed_on: None) -> Iterator[tuple[Kubectl, Path]]:
    """The installation's preview service, and its table."""
    assert passed_on is None
    rules = plane.folder / "previews.yaml"
    rules.write_bytes(ROWS.read_bytes())
    with previews(plane, NAME, rules) as home:
        yield home, rules


@pytest.fixture
def live(
    plane: ControlPlane, registered: None, namespace: Callable[..., Kubectl], served: tuple[Kubectl, Path]
) -> Iterator[Live]:
    """The installation with its own table."""
    assert registered is None
    result = Live(plane, namespace, *served)
    result.write_table(ROWS.read_text(encoding="utf-8"))
    return result


def asked(inside: Kubectl, *jobs: Object, kubeconfig: Path | None = None) -> tuple[int, list[Any], str]:
    """Returns the exit status, what is said of the server for each object, and the revision of the table."""
    code, items = previewed(replace(inside, kubeconfig=kubeconfig or inside.kubeconfig), *jobs)
    return code, [item["server"] for item in items], items[0]["preview"]["table"]


def test_a_server_that_agrees_with_the_table_needs_no_explanation(live: Live) -> None:
    """Jobs without a name among them, and objects that are none of the table's."""
    inside = live.namespace()
    unnamed, refused = mpijob(8, generate_name="train-"), REFUSED
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    code, (plain, without_name, none, mistake), table = asked(inside, mpijob(4), unnamed, other, refused)
    for server in (plain, without_name, none):
        assert (server["stores"], server["findings"]) == (True, [])
    assert table == load_installed(ROWS, placement=False).revision
    assert (mistake["stores"], mistake["findings"]) == (False, []), "both refuse it"
    assert code == 2
    assert asked(inside, mpijob(4), unnamed, other)[0] == 0
    assert not inside.get_json("mpijobs")["items"], "nothing was created"


OURS = "mpijobs.ultraserver-webhook.io"
WOULD = "though the rule table would change it"
SELECTED = f"the webhook's namespaceSelector: label {keys.INJECT} is disabled, not NotIn disabled, false"
CONDITION = "blue: object.metadata.name == 'blue'"
EXCLUDED = "a match condition excludes the object"
SILENT = "the webhook did not answer, and its failurePolicy is Ignore; or its replicas have another table"
TYPES = '"ml.trn2u.48xlarge", not "trn2u.48xlarge"'
CANNOT = 'MPIJob in version "v2beta1" cannot be handled as a MPIJob'
FAILED = 'Internal error occurred: failed calling webhook "closed.hooks.example": failed to call webhook: '
CASES: Mapping[str, tuple[Object, str]] = {
    "opted-out": (mpijob(4), f"{OURS}: is not called, {WOULD}: namespace NS is excluded by {SELECTED}"),
    "kind": (
        job(4, completionMode="Indexed"),
        f"{NAME}: is not called, {WOULD}: no rule of its registration is for jobs.batch",
    ),
    "condition": (
        mpijob(4),
        f"condition.hooks.example: did nothing, {WOULD}: {EXCLUDED}; or {SILENT} [{CONDITION}]",
    ),
    "away": (mpijob(4), f"away.hooks.example: did nothing, {WOULD}: {SILENT}"),
    "closed": (mpijob(4), f"kube-apiserver: refuses it: {FAILED}"),
    "other": (
        mpijob(4),
        (
            "other.hooks.example: changed a field that the installation sets, or an admission policy did "
            f"[{SELECTOR}: {TYPES}]"
        ),
    ),
    "strict": (
        mpijob(4) | {"spce": {}},
        f'kube-apiserver: refuses it: {CANNOT}: strict decoding error: unknown field "spce"',
    ),
    "unknown": (
        mpijob(4) | {"kind": "MPIjob"},
        "kube-apiserver: refuses it: it serves no MPIjob of kubeflow.org/v2beta1; is the CRD installed?",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference_is_explained(case: str, live: Live) -> None:
    away = {"inject": "disabled"} if case in {"opted-out", "condition", "away", "closed"} else {}
    # The API server reads a new namespace's labels at once; it learns of later changes after a moment.
    inside = live.namespace(**away, case=case)
    sent, wanted = CASES[case]
    code, (server,), _ = asked(inside, sent)
    (result,) = server["findings"]
    details = f" [{'; '.join(result['details'])}]" if result["details"] else ""
    line = f"{result['name']}: {result['text']}{details}"
    assert line.startswith(wanted.replace("NS", inside.namespace))
    assert code == (1 if server["stores"] else 2)


@pytest.mark.parametrize("rows", ["rules: [{name: apart-across-namespaces, mode: off}]", "mode: off"])
def test_a_table_that_differs_from_the_serving_one_is_reported(rows: str, live: Live) -> None:
    live.write_table(f"{HEAD}{rows}\n")
    code, (server,), table = asked(live.namespace(), mpijob(4))
    (result,) = server["findings"]
    here, there = table, load_installed(ROWS, placement=False).revision
    assert result["text"] == f"its replicas use table {there}, and the preview service uses table {here}"
    assert code == 1


def test_a_refusal_by_another_table_is_explained(live: Live) -> None:
    live.write_table(f"{HEAD}mode: off\n")
    code, (server,), _ = asked(live.namespace(), REFUSED)
    (result,) = server["findings"]
    assert result["text"].startswith(
        "refuses it, because the webhook uses another table than the preview service: "
    )
    assert code == 2


def test_a_stored_job_is_named(live: Live) -> None:
    inside = live.namespace()
    inside.create(mpijob(4))
    code, (server,), _ = asked(inside, mpijob(4))
    (result,) = server["findings"]
    assert result["text"] == 'refuses it: mpijobs.kubeflow.org "train" already exists'
    assert result["remedy"].startswith("use another name")
    assert code == 2
    end(inside, "mpijobs")


def test_with_only_the_right_to_create_jobs_unread_objects_are_named(live: Live, tmp_path: Path) -> None:
    inside = live.namespace(inject="disabled")
    person = account(inside, "ada", tmp_path)
    who = f"--serviceaccount={inside.namespace}:ada"
    inside.run("create", "role", "jobs", "--verb=create", "--resource=mpijobs.kubeflow.org")
    inside.run("create", "rolebinding", "jobs", "--role=jobs", who)
    (file := tmp_path / "job.json").write_text(text(mpijob(4)), encoding="utf-8")
    words = ("preview", "-f", str(file))
    done = plugin(inside, *words, kubeconfig=person)
    assert (done.returncode, done.stdout) == (0, "mpijob.kubeflow.org/train created (server dry run)\n")
    assert done.stderr.startswith("note: only the dry run is done: the API server answers 403: services ")
    assert done.stderr.endswith("; an administrator can give you the Role of docs/preview.md\n")
    (role,) = [block for block in blocks_of("docs/preview.md") if block.file == "previews.yaml"]
    live.home.apply(role.text)
    live.home.run("create", "rolebinding", "ada", "--role=ultraserver-previews", who)
    until(lambda: not plugin(inside, *words, kubeconfig=person).stderr, "the right")
    code, (server,), _ = asked(inside, mpijob(4), kubeconfig=person)
    (result,) = server["findings"]
    assert result["text"] == (
        f"did nothing, {WOULD}: you may not read its registration (mutatingwebhookconfigurations)"
    )
    assert code == 1
    kinds = "mutatingwebhookconfigurations.admissionregistration.k8s.io,namespaces"
    reader = ["--verb=get,list", f"--resource={kinds}"]
    role = f"hooks-{inside.namespace}"
    inside.run("create", "clusterrole", role, *reader)
    inside.run("create", "clusterrolebinding", role, f"--clusterrole={role}", who)
    inside.run("label", "namespace", inside.namespace, f"{CASE}=condition")
    _, (server,), _ = asked(inside, mpijob(4), kubeconfig=person)
    inside.run("delete", "clusterrolebinding", role)
    (result,) = server["findings"]
    assert result["name"] == "condition.hooks.example"
    assert result["text"].endswith(f": {EXCLUDED}; or {SILENT}")
