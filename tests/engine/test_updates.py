"""Tests of updates of stored jobs: which additions are put back, and when the shape is chosen again."""

import copy
import json
from contextlib import suppress
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.admission.anything import mpijobs
from tests.engine.hostile import NODE_TERMS
from tests.engine.strategies import JSON, jobs, without_empty_values
from tests.helpers import examples, kubectl_apply, load_text, request_for
from tests.rules.tables import EXTENDS
from tests.t9k import SHAPES, t9k_mpijob
from webhook.engine import Outcome, Request, evaluate, messages, updates
from webhook.engine.messages import message
from webhook.objects import record
from webhook.objects.tree import Json, WrongTypeError, digest, drop, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

TABLE = load_default()
TEMPLATES = (LAUNCHER, WORKER)
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")
NOISY = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
USER_LISTS = {
    "affinity": {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NOISY]},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchExpressions": [ZONE, ZONE]}]
            }
        },
    },
    "nodeSelector": {"mine": "yes"},
}
REQUIREMENTS = load_text(
    EXTENDS
    + """
rules:
  - name: more-requirements
    reason: Several expressions of one rule, and of two, keep their order.
    match: {role: worker}
    add:
      spec:
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
                - matchExpressions: [{key: f, operator: Exists}, {key: e, operator: Exists}]
                  matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]
""",
    "requirements",
)
SUSPENDED = {"runPolicy": {"suspend": True}}
STARTED = {"startTime": "2026-01-01T00:00:00Z"}
SUSPENDED_AGAIN = {**STARTED, "conditions": [{"type": "Suspended", "status": "True"}]}


def suspended_job(job: Json, status: Json = None) -> Json:
    return {**job, "spec": {**job["spec"], **SUSPENDED}} | ({"status": status} if status else {})


def user_job(workers: int = 4) -> Json:
    """Returns a suspended job in which the lists to which rules add have elements of the user."""
    spec = {"initContainers": [{"name": "mine", "image": "example.invalid/mine"}]}
    return suspended_job(mpijob(workers, worker_spec=copy.deepcopy(USER_LISTS), launcher_spec=spec))


def create(job: Json) -> Json:
    """Returns a job as it is stored after its creation."""
    outcome = evaluate(TABLE, request_for(job))
    assert not outcome.denials
    return outcome.after


def update(table: Table, request: Request, stored: Json) -> Outcome | None:
    """Returns the outcome of an update; None if the webhook admits the update unchanged."""
    result = updates.update(table, request, stored)
    return None if isinstance(result, str) or result.has_pods else result


def update_job(stored: Json, new: Json) -> Outcome:
    """Returns the outcome of an update; fails if the webhook does not evaluate the update."""
    outcome = update(TABLE, request_for(new), stored)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("table", [TABLE, REQUIREMENTS], ids=["packaged", "several requirements"])
def test_additions_that_an_applied_file_removes_are_put_back(table: Table) -> None:
    stored = evaluate(table, request_for(user_job())).after
    sent = kubectl_apply(stored, user_job())
    assert not same(sent, stored)
    outcome = update(table, request_for(sent), stored)
    assert outcome is not None
    assert same(outcome.after, stored)
    assert outcome.warnings == ()


@examples(25)
@given(jobs(), st.sampled_from([TABLE, REQUIREMENTS]))
def test_a_file_that_is_applied_again_changes_nothing(job: Any, table: Table) -> None:
    stored = evaluate(table, request_for(suspended_job(job))).after
    outcome = update(table, request_for(kubectl_apply(stored, suspended_job(job))), stored)
    if outcome is not None:
        assert same(without_empty_values(outcome.after), without_empty_values(stored))


KUEUE_METADATA = {
    "labels": {"kueue.x-k8s.io/podset": "worker"},
    "annotations": {"kueue.x-k8s.io/workload": "mpijob-train", "a": "b"},
}


@examples(25)
@given(
    jobs(),
    st.fixed_dictionaries({key: st.just(value) | st.just({}) for key, value in KUEUE_METADATA.items()}),
    st.dictionaries(st.sampled_from(["flavor", "zone"]), st.just("x")),
    st.lists(st.sampled_from([{"key": "spot"}, {"operator": "Exists"}]), max_size=2),
    st.booleans(),
)
def test_an_update_that_removes_no_addition_gets_no_patch(
    job: Any, metadata: Any, selector: Any, tolerations: Any, suspend: Any
) -> None:
    stored = new = evaluate(TABLE, request_for(suspended_job(job))).after
    for path in TEMPLATES:
        template = get(stored, path)
        for kind, entries in metadata.items():
            old = get(template, ("metadata", kind)) or {}
            new = put(new, (*path, "metadata", kind), {**entries, **old})
        old = get(template, ("spec", "nodeSelector")) or {}
        new = put(new, (*path, "spec", "nodeSelector"), {**selector, **old})
        old = get(template, ("spec", "tolerations")) or []
        new = put(new, (*path, "spec", "tolerations"), [*old, *tolerations])
        gates = get(template, ("spec", "schedulingGates")) or []
        new = put(new, (*path, "spec", "schedulingGates"), [*gates, {"name": "kueue.x-k8s.io/topology"}])
    new = put(new, ("spec", "runPolicy", "suspend"), suspend)
    outcome = update(TABLE, request_for(new), stored)
    assert outcome is None or (outcome.operations, outcome.warnings) == ((), ())
    outcome = update(TABLE, request_for(stored), put(new, ("spec", "runPolicy"), {"suspend": True}))
    assert outcome is None or outcome.operations == ()


@examples(25)
@given(jobs() | mpijobs() | JSON, jobs() | mpijobs() | JSON, JSON, st.integers(0, 9))
def test_the_patch_of_any_update_applies_and_a_second_update_gets_no_patch(
    before: Any, new: Any, status: Any, workers: int
) -> None:
    if isinstance(before, dict) and isinstance(before.get("spec"), dict):
        before = suspended_job(before, status)
    stored = evaluate(TABLE, request_for(before)).after
    if isinstance(new, dict) and isinstance(new.get("spec"), dict):
        with suppress(WrongTypeError):
            new = put(new, REPLICAS, workers) if workers else new
    copies = copy.deepcopy((stored, new))
    outcome = update(TABLE, request_for(new), stored)
    assert same(list(copies), [stored, new])
    if outcome is None or outcome.denials:
        return
    received, patch = (json.loads(json.dumps(part)) for part in (new, outcome.operations))
    assert same(jsonpatch.apply_patch(received, patch), outcome.after)
    second_outcome = update(TABLE, request_for(outcome.after, uid="another"), stored)
    assert second_outcome is not None
    assert second_outcome.operations == ()


MARKS = [("annotations", key) for key in (keys.JOB, keys.PLACEMENT, keys.OPENED)]


def test_the_gate_stays_only_if_the_stored_template_has_it() -> None:
    stored, user_gate = create(user_job()), {"name": "example.com/mine"}
    path = (*WORKER, "spec", "schedulingGates")
    after = update_job(stored, put(stored, path, [{"name": keys.GATE}, user_gate])).after
    assert get(after, path) == [user_gate]
    stored = put(stored, path, [{"name": keys.GATE}])
    assert get(update_job(stored, put(stored, path, [user_gate, {"name": keys.GATE}])).after, path)[1:] == [
        {"name": keys.GATE}
    ]


@pytest.mark.parametrize("container_name", ["wait-hostfilename", "ultraserver-init-container"])
def test_removed_init_containers_are_put_back_in_their_order(container_name: str) -> None:
    stored = create(user_job())
    path = (*LAUNCHER, "spec", "initContainers")
    containers = [item for item in get(stored, path) if item["name"] != container_name]
    assert same(update_job(stored, put(stored, path, containers)).after, stored)


@pytest.mark.parametrize(
    "change", [{"image": "fixed:2"}, {"securityContext": {"runAsNonRoot": True}}, {"resources": {}}]
)
def test_a_change_of_a_field_that_added_containers_copied_gets_a_warning(change: Json) -> None:
    stored = create(user_job())
    path = (*LAUNCHER, "spec", "containers", 0)
    outcome = update_job(stored, put(stored, path, get(stored, path) | change))
    warnings = [warning for warning in outcome.warnings if warning.code == "copies-kept"]
    assert len(warnings) == (change != {"resources": {}})
    assert outcome.operations == ()


def test_a_users_change_of_an_addition_stays() -> None:
    stored = create(user_job())
    selector_path = (*WORKER, "spec", "nodeSelector", "node.kubernetes.io/instance-type")
    image_path = (*LAUNCHER, "spec", "initContainers", 1, "image")
    new = put(put(stored, selector_path, "trn2.48xlarge"), image_path, "example.invalid/other")
    assert update_job(stored, new).operations == ()
    assert update_job(new, new).operations == ()


def test_a_new_node_selector_term_gets_the_requirements_of_the_replaced_terms() -> None:
    stored = create(user_job())
    path = (*WORKER, *NODE_TERMS)
    expression = {"key": "pool", "operator": "Exists"}
    new = put(stored, path, [{"matchExpressions": [expression]}])
    requirements = get(stored, path)[0]["matchExpressions"][-2:]
    after = get(update_job(stored, new).after, path)
    assert after == [{"matchExpressions": [expression, *requirements]}]


@pytest.mark.parametrize("mark", [("annotations", keys.ADDED), ("labels", keys.JOB), *MARKS])
def test_removed_or_forged_marks_are_restored(mark: tuple[str, str]) -> None:
    stored = create(user_job())
    assert same(update_job(stored, drop(stored, (*WORKER, "metadata", *mark))).after, stored)
    forged_job = put(stored, (*WORKER, "metadata", *mark), "team-b.victim")
    assert same(update_job(stored, forged_job).after, stored)


def test_a_forged_job_label_in_an_applied_file_is_replaced_again() -> None:
    job = put(user_job(), (*LAUNCHER, "metadata", "labels"), {keys.JOB: "team-b.victim"})
    stored = create(job)
    assert same(update_job(stored, kubectl_apply(stored, job)).after, stored)


def test_additions_that_the_present_table_no_longer_makes_are_put_back() -> None:
    stored = create(user_job())
    table = load_text(EXTENDS + "rules: [{name: ultraserver-nodes, mode: off}]\n", "t")
    outcome = update(table, request_for(user_job()), stored)
    assert outcome is not None
    assert same(outcome.after, stored)


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_a_table_that_is_not_enforced_puts_nothing_back(mode: str) -> None:
    assert (
        update(load_text(f"{EXTENDS}mode: {mode}\n", "t"), request_for(user_job()), create(user_job()))
        is None
    )


STATES_WITH_PODS = {
    "a job that has started": {"status": STARTED},
    "a job that is being suspended": {**SUSPENDED, "status": STARTED},
    "a job that was resumed and is suspended again": {
        **SUSPENDED,
        "status": {**STARTED, "conditions": [{"type": "Suspended", "status": "False"}]},
    },
    "a suspended job whose pods still run": {
        **SUSPENDED,
        "status": {**SUSPENDED_AGAIN, "replicaStatuses": {"Worker": {"active": 1}}},
    },
    "a suspended job with pods and without a start time": {
        **SUSPENDED,
        "status": {"replicaStatuses": {"Worker": {"active": 1}}},
    },
}
STATES_WITHOUT_PODS = {
    "suspended, not seen by the operator": {**SUSPENDED, "status": {}},
    "suspended and never started": {
        **SUSPENDED,
        "status": {
            "conditions": [{"type": "Suspended", "status": "True"}],
            "replicaStatuses": {"Worker": {}},
        },
    },
    "suspended again": {**SUSPENDED, "status": SUSPENDED_AGAIN},
    "not suspended, not seen by the operator": {"status": {}},
}


def in_state(job: Json, state: Json) -> Json:
    spec = {key: value for key, value in job["spec"].items() if key != "runPolicy"}
    fields = {key: value for key, value in state.items() if key != "status"}
    return {**job, "spec": {**spec, **fields}, "status": state["status"]}


@pytest.mark.parametrize("state", STATES_WITH_PODS.values(), ids=STATES_WITH_PODS.keys())
@pytest.mark.parametrize("workers", [4, 8])
def test_a_job_that_may_have_pods_is_not_changed(state: Json, workers: int) -> None:
    stored = in_state(create(user_job()), state)
    assert update(TABLE, request_for(in_state(user_job(workers), state)), stored) is None


@pytest.mark.parametrize("state", STATES_WITHOUT_PODS.values(), ids=STATES_WITHOUT_PODS.keys())
def test_a_job_without_pods_keeps_its_additions(state: Json) -> None:
    stored = in_state(create(user_job()), state)
    assert same(update_job(stored, in_state(user_job(), state)).after, stored)


def test_a_job_that_opts_out_or_is_being_deleted_is_not_changed() -> None:
    stored, new = create(user_job()), user_job()
    for key, value in (
        ("annotations", {keys.INJECT: "false"}),
        ("deletionTimestamp", "2026-01-01T00:00:00Z"),
    ):
        assert (
            update(TABLE, request_for({**new, "metadata": {**new["metadata"], key: value}}), stored) is None
        )


@pytest.mark.parametrize(
    ("table", "change", "reason"),
    [
        ("mode: off\n", {}, messages.NOT_ENFORCED),
        ("", {"kind": "Job"}, messages.other_kind("kubeflow.org/v2beta1/MPIJob")),
        ("", {"metadata": {"name": "train", "deletionTimestamp": "now"}}, messages.DELETED),
        ("", {"metadata": {"name": "train", "annotations": {keys.INJECT: "false"}}}, messages.OPTED_OUT),
        ("", {}, messages.NOTHING_REMOVED),
        ("", {"spec": user_job()["spec"]}, messages.PUT_BACK),
        (
            "",
            {"spec": put(create(user_job()), REPLICAS, "4")["spec"]},
            messages.admitted_unchanged(messages.invalid_count(".".join(REPLICAS), '"4"')),
        ),
    ],
)
def test_an_update_has_a_reason(table: str, change: Json, reason: str) -> None:
    stored = create(user_job())
    outcome = updates.update(load_text(EXTENDS + table, "t"), request_for(stored | change), stored)
    assert (outcome if isinstance(outcome, str) else outcome.reason) == reason


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (user_job(), messages.NOTHING_ADDED),
        (create(user_job()) | {"status": STARTED}, messages.HAS_PODS),
        ({"apiVersion": "v1", "kind": "Secret"}, messages.no_workload("v1/Secret")),
    ],
)
def test_an_update_of_an_object_without_additions_or_with_pods_has_a_reason(
    stored: Json, reason: str
) -> None:
    outcome = updates.update(TABLE, request_for(stored), stored)
    assert (outcome if isinstance(outcome, str) else outcome.reason) == reason


def test_a_job_without_additions_is_not_changed() -> None:
    assert update(TABLE, request_for(user_job(8)), user_job()) is None


@pytest.mark.parametrize(("old_size", "new_size"), [(4, 8), (4, 2), (8, 1), (1, 16), (2, 3)])
def test_a_suspended_job_of_a_new_size_equals_a_new_job_of_this_size(old_size: int, new_size: int) -> None:
    stored = suspended_job(create(user_job(old_size)), SUSPENDED_AGAIN)
    outcome = update_job(stored, kubectl_apply(stored, user_job(new_size)))
    creation = evaluate(TABLE, request_for(user_job(new_size)))
    assert same({**outcome.after, "status": None}, {**creation.after, "status": None})
    assert set(creation.warnings) < set(outcome.warnings)
    assert outcome.warnings[-1] == message("launcher-kept", "train-launcher")
    assert outcome.reason == messages.resized(creation.reason)
    assert outcome.facts == creation.facts
    assert same(
        jsonpatch.apply_patch(kubectl_apply(stored, user_job(new_size)), outcome.operations), outcome.after
    )


def test_a_resized_job_without_its_record_loses_the_terms_of_its_old_size() -> None:
    new = put(create(user_job(4)), REPLICAS, 8)
    new = drop(new, (*WORKER, "metadata", "annotations", keys.ADDED))
    assert same(update_job(create(user_job(4)), new).after, create(user_job(8)))


def test_an_invalid_size_is_refused_as_at_creation() -> None:
    job = suspended_job(mpijob(4, annotations={keys.NODE_CONFIG: "4"}))
    stored = create(job)
    new = put(stored, REPLICAS, 6)
    field, sizes = f"metadata.annotations[{keys.NODE_CONFIG}]", "4 or a multiple of 4"
    denial = messages.do_not_fit("6 workers do", 4, field, sizes, "2 or 1")
    assert update_job(stored, new).denials == (denial,)


def test_a_job_that_is_not_suspended_keeps_the_terms_of_its_old_size() -> None:
    stored = create(mpijob(4))
    assert update_job(stored, put(stored, REPLICAS, 8)).operations == ()


def test_a_job_with_a_generated_name_keeps_its_terms_with_a_warning() -> None:
    stored = create(suspended_job(mpijob(4, generate_name="gen-")))
    stored = put(stored, ("metadata", "name"), "gen-x7k2p")
    outcome = update_job(stored, put(stored, REPLICAS, 8))
    assert outcome.operations == ()
    assert [warning.code for warning in outcome.warnings] == ["size-kept"]


def test_a_job_that_is_scaled_to_zero_workers_keeps_its_additions() -> None:
    stored = create(user_job())
    new = put(stored, REPLICAS, 0)
    assert update_job(stored, new).operations == ()
    assert same(update_job(new, create(user_job(8))).after, create(user_job(8)))


def test_a_job_of_many_node_selector_terms_gets_its_requirement_back_in_each_term() -> None:
    job = user_job()
    terms = [{"matchExpressions": [{**ZONE, "values": [f"zone-{number}"]}]} for number in range(300)]
    path = (*WORKER, *NODE_TERMS)
    job = put(job, path, terms)
    stored = create(job)
    assert same(update_job(stored, kubectl_apply(stored, job)).after, stored)


def test_a_record_that_is_expensive_to_put_back_is_ignored() -> None:
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(3000)]
    forged_record = record.Record("", "", {"/spec/tolerations": [digest(item) for item in tolerations]})
    stored = create(user_job())
    template = put(get(stored, WORKER), ("spec", "tolerations"), tolerations)
    stored = put(stored, WORKER, record.write(template, forged_record))
    assert update(TABLE, request_for(user_job()), stored) is None


def test_a_launcher_that_newly_runs_ranks_is_a_new_size() -> None:
    job = user_job(3)
    stored, fields = create(job), {"runLauncherAsWorker": True}
    creation = evaluate(TABLE, request_for({**job, "spec": {**job["spec"], **fields}}))
    assert creation.facts["nodes"] == "4"
    assert same(update_job(stored, {**stored, "spec": {**stored["spec"], **fields}}).after, creation.after)


def pod_template() -> Json:
    container = {"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    return {"spec": {"containers": [container], **copy.deepcopy(USER_LISTS)}}


def build_object(kind: str, spec: Json) -> Json:
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}


def jobset(*names: str) -> Json:
    pods = {"parallelism": 2, "template": pod_template()}
    jobs = [{"name": name, "replicas": 2, "template": {"spec": copy.deepcopy(pods)}} for name in names]
    return build_object("jobset.x-k8s.io/v1alpha2/JobSet", {"replicatedJobs": jobs})


def pytorchjob(workers: int, *, master: bool = True) -> Json:
    roles: Json = {"Worker": {"replicas": workers, "template": pod_template()}}
    roles |= {"Master": {"template": pod_template()}} if master else {}
    return build_object("kubeflow.org/v1/PyTorchJob", {**SUSPENDED, "pytorchReplicaSpecs": roles})


ALWAYS_UPDATED = {
    "a Job": build_object("batch/v1/Job", {"parallelism": 4, "template": pod_template()}),
    "a JobSet": jobset("workers"),
    "a LeaderWorkerSet": build_object(
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": 4, "workerTemplate": pod_template()}},
    ),
}


@pytest.mark.parametrize("job", ALWAYS_UPDATED.values(), ids=ALWAYS_UPDATED.keys())
@pytest.mark.parametrize("status", [{}, {"startTime": "2026-01-01T00:00:00Z", "active": 4}])
def test_an_update_of_an_immutable_or_recreated_template_gets_the_additions_back(
    job: Json, status: Json
) -> None:
    stored = {**create(job), "status": status}
    assert same(update_job(stored, {**job, "status": status}).after, stored)


def test_a_batch_job_of_a_new_size_keeps_its_terms_because_its_template_is_immutable() -> None:
    stored = create({**ALWAYS_UPDATED["a Job"], "spec": {**ALWAYS_UPDATED["a Job"]["spec"], "suspend": True}})
    assert update_job(stored, put(stored, ("spec", "parallelism"), 8)).operations == ()


def test_a_template_is_identified_by_its_name_and_not_by_its_position() -> None:
    stored = create(jobset("launcher", "workers"))
    launcher, workers = stored["spec"]["replicatedJobs"]
    new = put(stored, ("spec", "replicatedJobs"), [workers, launcher])
    assert update_job(stored, new).operations == ()


@pytest.mark.parametrize(("old_size", "new_size"), [((3, True), (7, True)), ((4, False), (4, True))])
def test_a_suspended_pytorchjob_of_a_new_size_equals_a_new_job_of_this_size(
    old_size: tuple[int, bool], new_size: tuple[int, bool]
) -> None:
    stored = create(pytorchjob(old_size[0], master=old_size[1]))
    job = pytorchjob(new_size[0], master=new_size[1])
    outcome = update_job(stored, kubectl_apply(stored, job))
    creation = evaluate(TABLE, request_for(job))
    assert same(outcome.after, creation.after)
    assert outcome.warnings == creation.warnings


def test_a_kind_whose_row_has_no_updates_is_not_changed() -> None:
    job = t9k_mpijob(SHAPES[0])
    assert update(TABLE, request_for(job), create(job)) is None
