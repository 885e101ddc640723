"""Updates of stored jobs: what is put back, when the shape is chosen again, and what is left alone."""

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
from tests.engine.strategies import JSON, jobs, without_void
from tests.helpers import applied, examples, load_text, requested
from tests.rules.tables import EXTENDS
from tests.t9k import SHAPES, t9k_mpijob
from webhook.engine import Outcome, Request, evaluate, updates
from webhook.objects import record
from webhook.objects.tree import Json, WrongTypeError, digest, drop, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

TABLE = load_default()
TEMPLATES = (LAUNCHER, WORKER)
REPLICAS = ("spec", "mpiReplicaSpecs", "Worker", "replicas")
NOISY = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
OWN_LISTS = {
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
EVICTED = {**STARTED, "conditions": [{"type": "Suspended", "status": "True"}]}


def suspended(job: Json, status: Json = None) -> Json:
    return {**job, "spec": {**job["spec"], **SUSPENDED}} | ({"status": status} if status else {})


def written(workers: int = 4) -> Json:
    """Returns a suspended job with something of its own in the lists that rules add to."""
    own = {"initContainers": [{"name": "mine", "image": "example.invalid/mine"}]}
    return suspended(mpijob(workers, worker_spec=copy.deepcopy(OWN_LISTS), launcher_spec=own))


def created(job: Json) -> Json:
    outcome = evaluate(TABLE, requested(job))
    assert not outcome.denials
    return outcome.after


def update(table: Table, request: Request, stored: Json) -> Outcome | None:
    """Returns what is done to an update; None where instead it is said why nothing is."""
    result = updates.update(table, request, stored)
    return None if isinstance(result, str) or result.has_pods else result


def updated(stored: Json, new: Json) -> Outcome:
    outcome = update(TABLE, requested(new), stored)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("table", [TABLE, REQUIREMENTS], ids=["packaged", "several requirements"])
def test_what_an_applied_file_takes_out_is_put_back(table: Table) -> None:
    stored = evaluate(table, requested(written())).after
    taken = applied(stored, written())
    assert not same(taken, stored)
    outcome = update(table, requested(taken), stored)
    assert outcome is not None
    assert same(outcome.after, stored)
    assert outcome.warnings == ()


@examples(25)
@given(jobs(), st.sampled_from([TABLE, REQUIREMENTS]))
def test_a_file_that_is_applied_again_changes_nothing_for_any_content(job: Any, table: Table) -> None:
    stored = evaluate(table, requested(suspended(job))).after
    outcome = update(table, requested(applied(stored, suspended(job))), stored)
    if outcome is not None:
        assert same(without_void(outcome.after), without_void(stored))


KUEUES = {
    "labels": {"kueue.x-k8s.io/podset": "worker"},
    "annotations": {"kueue.x-k8s.io/workload": "mpijob-train", "a": "b"},
}


@examples(25)
@given(
    jobs(),
    st.fixed_dictionaries({key: st.just(value) | st.just({}) for key, value in KUEUES.items()}),
    st.dictionaries(st.sampled_from(["flavor", "zone"]), st.just("x")),
    st.lists(st.sampled_from([{"key": "spot"}, {"operator": "Exists"}]), max_size=2),
    st.booleans(),
)
def test_an_update_that_takes_nothing_out_comes_out_without_a_patch(
    job: Any, marks: Any, selector: Any, tolerations: Any, suspend: Any
) -> None:
    stored = new = evaluate(TABLE, requested(suspended(job))).after
    for path in TEMPLATES:
        template = get(stored, path)
        for kind, more in marks.items():
            old = get(template, ("metadata", kind)) or {}
            new = put(new, (*path, "metadata", kind), {**more, **old})
        old = get(template, ("spec", "nodeSelector")) or {}
        new = put(new, (*path, "spec", "nodeSelector"), {**selector, **old})
        old = get(template, ("spec", "tolerations")) or []
        new = put(new, (*path, "spec", "tolerations"), [*old, *tolerations])
        gates = get(template, ("spec", "schedulingGates")) or []
        new = put(new, (*path, "spec", "schedulingGates"), [*gates, {"name": "kueue.x-k8s.io/topology"}])
    new = put(new, ("spec", "runPolicy", "suspend"), suspend)
    outcome = update(TABLE, requested(new), stored)
    assert outcome is None or (outcome.operations, outcome.warnings) == ((), ())
    back = update(TABLE, requested(stored), put(new, ("spec", "runPolicy"), {"suspend": True}))
    assert back is None or back.operations == ()


@examples(25)
@given(jobs() | mpijobs() | JSON, jobs() | mpijobs() | JSON, JSON, st.integers(0, 9))
def test_the_patch_of_any_update_applies_and_a_second_one_has_nothing_to_do(
    before: Any, new: Any, status: Any, workers: int
) -> None:
    if isinstance(before, dict) and isinstance(before.get("spec"), dict):
        before = suspended(before, status)
    stored = evaluate(TABLE, requested(before)).after
    if isinstance(new, dict) and isinstance(new.get("spec"), dict):
        with suppress(WrongTypeError):
            new = put(new, REPLICAS, workers) if workers else new
    remaining = copy.deepcopy((stored, new))
    outcome = update(TABLE, requested(new), stored)
    assert same(list(remaining), [stored, new])
    if outcome is None or outcome.denials:
        return
    received, sent = (json.loads(json.dumps(part)) for part in (new, outcome.operations))
    assert same(jsonpatch.apply_patch(received, sent), outcome.after)
    again = update(TABLE, requested(outcome.after, uid="another"), stored)
    assert again is not None
    assert again.operations == ()


CLAIMED = [("annotations", key) for key in (keys.JOB, keys.PLACE, keys.OPENED)]


def test_a_gate_that_creation_did_not_add_is_not_taken_over_later() -> None:
    stored, mine = created(written()), {"name": "example.com/mine"}
    path = (*WORKER, "spec", "schedulingGates")
    after = updated(stored, put(stored, path, [{"name": keys.GATE}, mine])).after
    assert get(after, path) == [mine]
    gated = put(stored, path, [{"name": keys.GATE}])
    assert get(updated(gated, put(gated, path, [mine, {"name": keys.GATE}])).after, path)[1:] == [
        {"name": keys.GATE}
    ]


@pytest.mark.parametrize("lost", ["wait-hostfilename", "ultraserver-init-container"])
def test_init_containers_come_back_in_the_order_they_run_in(lost: str) -> None:
    stored = created(written())
    path = (*LAUNCHER, "spec", "initContainers")
    left = [item for item in get(stored, path) if item["name"] != lost]
    assert same(updated(stored, put(stored, path, left)).after, stored)


@pytest.mark.parametrize(
    "change", [{"image": "fixed:2"}, {"securityContext": {"runAsNonRoot": True}}, {"resources": {}}]
)
def test_a_change_of_fields_that_added_containers_copied_gets_a_warning(change: Json) -> None:
    stored = created(written())
    path = (*LAUNCHER, "spec", "containers", 0)
    outcome = updated(stored, put(stored, path, get(stored, path) | change))
    kept = [warning for warning in outcome.warnings if warning.code == "copies-kept"]
    assert len(kept) == (change != {"resources": {}})
    assert outcome.operations == ()


def test_a_users_change_stays() -> None:
    stored = created(written())
    own = (*WORKER, "spec", "nodeSelector", "node.kubernetes.io/instance-type")
    init = (*LAUNCHER, "spec", "initContainers", 1, "image")
    new = put(put(stored, own, "trn2.48xlarge"), init, "example.invalid/other")
    assert updated(stored, new).operations == ()
    assert updated(new, new).operations == ()


def test_a_term_of_a_persons_own_gets_the_requirement_that_was_in_the_others() -> None:
    stored = created(written())
    path = (*WORKER, *NODE_TERMS)
    other = {"key": "pool", "operator": "Exists"}
    new = put(stored, path, [{"matchExpressions": [other]}])
    ours = get(stored, path)[0]["matchExpressions"][-2:]
    after = get(updated(stored, new).after, path)
    assert after == [{"matchExpressions": [other, *ours]}]


@pytest.mark.parametrize("lost", [("annotations", keys.ADDED), ("labels", keys.JOB), *CLAIMED])
def test_record_and_claims_are_as_they_were(lost: tuple[str, str]) -> None:
    stored = created(written())
    assert same(updated(stored, drop(stored, (*WORKER, "metadata", *lost))).after, stored)
    forged = put(stored, (*WORKER, "metadata", *lost), "team-b.victim")
    assert same(updated(stored, forged).after, stored)


def test_a_job_label_that_creation_did_not_take_over_is_not_taken_over_later() -> None:
    job = put(written(), (*LAUNCHER, "metadata", "labels"), {keys.JOB: "team-b.victim"})
    stored = created(job)
    assert same(updated(stored, applied(stored, job)).after, stored)


def test_the_present_table_does_not_matter() -> None:
    stored = created(written())
    other = load_text(EXTENDS + "rules: [{name: ultraserver-nodes, mode: off}]\n", "t")
    outcome = update(other, requested(written()), stored)
    assert outcome is not None
    assert same(outcome.after, stored)


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_a_table_that_is_not_enforced_puts_nothing_back(mode: str) -> None:
    assert (
        update(load_text(f"{EXTENDS}mode: {mode}\n", "t"), requested(written()), created(written())) is None
    )


RUNNING = {
    "a job that has started": {"status": STARTED},
    "a job that is being suspended": {**SUSPENDED, "status": STARTED},
    "one that was resumed": {
        **SUSPENDED,
        "status": {**STARTED, "conditions": [{"type": "Suspended", "status": "False"}]},
    },
    "one whose pods still run": {
        **SUSPENDED,
        "status": {**EVICTED, "replicaStatuses": {"Worker": {"active": 1}}},
    },
    "one whose pods came before its start was written": {
        **SUSPENDED,
        "status": {"replicaStatuses": {"Worker": {"active": 1}}},
    },
}
WAITING = {
    "suspended, not seen by the operator": {**SUSPENDED, "status": {}},
    "suspended and never started": {
        **SUSPENDED,
        "status": {
            "conditions": [{"type": "Suspended", "status": "True"}],
            "replicaStatuses": {"Worker": {}},
        },
    },
    "suspended again": {**SUSPENDED, "status": EVICTED},
    "not suspended, not seen by the operator": {"status": {}},
}


def in_state(job: Json, state: Json) -> Json:
    spec = {key: value for key, value in job["spec"].items() if key != "runPolicy"}
    more = {key: value for key, value in state.items() if key != "status"}
    return {**job, "spec": {**spec, **more}, "status": state["status"]}


@pytest.mark.parametrize("state", RUNNING.values(), ids=RUNNING.keys())
@pytest.mark.parametrize("workers", [4, 8])
def test_a_job_that_may_have_pods_is_left_alone(state: Json, workers: int) -> None:
    stored = in_state(created(written()), state)
    assert update(TABLE, requested(in_state(written(workers), state)), stored) is None


@pytest.mark.parametrize("state", WAITING.values(), ids=WAITING.keys())
def test_a_job_whose_pods_are_still_to_come_keeps_what_was_added(state: Json) -> None:
    stored = in_state(created(written()), state)
    assert same(updated(stored, in_state(written(), state)).after, stored)


def test_a_job_that_opts_out_or_is_being_deleted_is_left_alone() -> None:
    stored, new = created(written()), written()
    for key, value in (
        ("annotations", {keys.INJECT: "false"}),
        ("deletionTimestamp", "2026-01-01T00:00:00Z"),
    ):
        assert update(TABLE, requested({**new, "metadata": {**new["metadata"], key: value}}), stored) is None


def test_a_job_that_nothing_was_added_to_is_left_alone() -> None:
    assert update(TABLE, requested(written(8)), written()) is None


@pytest.mark.parametrize(("before", "now"), [(4, 8), (4, 2), (8, 1), (1, 16), (2, 3)])
def test_a_suspended_job_of_a_new_size_is_as_if_it_were_created_so(before: int, now: int) -> None:
    stored = suspended(created(written(before)), EVICTED)
    outcome = updated(stored, applied(stored, written(now)))
    fresh = evaluate(TABLE, requested(written(now)))
    assert same({**outcome.after, "status": None}, {**fresh.after, "status": None})
    assert set(fresh.warnings) < set(outcome.warnings)
    assert "kubectl delete job train-launcher" in outcome.warnings[-1]
    assert outcome.reason == f"its size changed while it was suspended; {fresh.reason}"
    assert outcome.facts == fresh.facts
    assert same(jsonpatch.apply_patch(applied(stored, written(now)), outcome.operations), outcome.after)


def test_a_new_size_that_comes_without_the_record_has_none_of_the_terms_of_the_old_one() -> None:
    resized = put(created(written(4)), REPLICAS, 8)
    bare = drop(resized, (*WORKER, "metadata", "annotations", keys.ADDED))
    assert same(updated(created(written(4)), bare).after, created(written(8)))


def test_a_size_that_cannot_be_is_refused_as_at_creation() -> None:
    job = suspended(mpijob(4, annotations={keys.NODE_CONFIG: "4"}))
    stored = created(job)
    resized = put(stored, REPLICAS, 6)
    assert "6 workers do not fit node config 4 of " in updated(stored, resized).denials[0]


def test_a_job_that_is_not_suspended_keeps_the_terms_of_its_size() -> None:
    stored = created(mpijob(4))
    assert updated(stored, put(stored, REPLICAS, 8)).operations == ()


def test_a_job_with_a_generated_name_keeps_its_terms_with_a_warning() -> None:
    stored = created(suspended(mpijob(4, generate_name="gen-")))
    stored = put(stored, ("metadata", "name"), "gen-x7k2p")
    outcome = updated(stored, put(stored, REPLICAS, 8))
    assert outcome.operations == ()
    assert "generateName" in outcome.warnings[0]


def test_a_job_without_workers_for_a_while_keeps_what_was_added() -> None:
    stored = created(written())
    none = put(stored, REPLICAS, 0)
    assert updated(stored, none).operations == ()
    assert same(updated(none, created(written(8))).after, created(written(8)))


def test_a_job_of_many_node_selector_terms_gets_its_requirement_back_in_each() -> None:
    job = written()
    terms = [{"matchExpressions": [{**ZONE, "values": [f"zone-{number}"]}]} for number in range(300)]
    path = (*WORKER, *NODE_TERMS)
    job = put(job, path, terms)
    stored = created(job)
    assert same(updated(stored, applied(stored, job)).after, stored)


def test_a_record_that_is_expensive_to_put_back_is_ignored() -> None:
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(3000)]
    forged = record.Record("", "", {"/spec/tolerations": [digest(item) for item in many]})
    stored = created(written())
    template = put(get(stored, WORKER), ("spec", "tolerations"), many)
    stored = put(stored, WORKER, record.write(template, forged))
    assert update(TABLE, requested(written()), stored) is None


def test_a_launcher_that_is_to_run_ranks_is_a_new_size() -> None:
    job = written(3)
    stored, more = created(job), {"runLauncherAsWorker": True}
    fresh = evaluate(TABLE, requested({**job, "spec": {**job["spec"], **more}}))
    assert fresh.facts["nodes"] == "4"
    assert same(updated(stored, {**stored, "spec": {**stored["spec"], **more}}).after, fresh.after)


def pod_template() -> Json:
    container = {"name": "x", "image": "i", "resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    return {"spec": {"containers": [container], **copy.deepcopy(OWN_LISTS)}}


def other(kind: str, spec: Json) -> Json:
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}


def jobset(*names: str) -> Json:
    pods = {"parallelism": 2, "template": pod_template()}
    jobs = [{"name": name, "replicas": 2, "template": {"spec": copy.deepcopy(pods)}} for name in names]
    return other("jobset.x-k8s.io/v1alpha2/JobSet", {"replicatedJobs": jobs})


def pytorchjob(workers: int, *, master: bool = True) -> Json:
    roles = {"Worker": {"replicas": workers, "template": pod_template()}}
    more = {"Master": {"template": pod_template()}} if master else {}
    return other("kubeflow.org/v1/PyTorchJob", {**SUSPENDED, "pytorchReplicaSpecs": {**roles, **more}})


WHENEVER = {
    "a Job": other("batch/v1/Job", {"parallelism": 4, "template": pod_template()}),
    "a JobSet": jobset("workers"),
    "a LeaderWorkerSet": other(
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": 4, "workerTemplate": pod_template()}},
    ),
}


@pytest.mark.parametrize("job", WHENEVER.values(), ids=WHENEVER.keys())
@pytest.mark.parametrize("status", [{}, {"startTime": "2026-01-01T00:00:00Z", "active": 4}])
def test_an_update_of_an_immutable_or_recreated_template_gets_the_additions_back(
    job: Json, status: Json
) -> None:
    stored = {**created(job), "status": status}
    assert same(updated(stored, {**job, "status": status}).after, stored)


def test_terms_that_kubernetes_makes_immutable_are_not_computed_again() -> None:
    stored = created({**WHENEVER["a Job"], "spec": {**WHENEVER["a Job"]["spec"], "suspend": True}})
    assert updated(stored, put(stored, ("spec", "parallelism"), 8)).operations == ()


def test_a_template_is_known_by_its_name_and_not_by_its_place() -> None:
    stored = created(jobset("launcher", "workers"))
    launcher, workers = stored["spec"]["replicatedJobs"]
    turned = put(stored, ("spec", "replicatedJobs"), [workers, launcher])
    assert updated(stored, turned).operations == ()


@pytest.mark.parametrize(("before", "now"), [((3, True), (7, True)), ((4, False), (4, True))])
def test_a_suspended_pytorchjob_of_a_new_size_is_as_if_it_were_created_so(
    before: tuple[int, bool], now: tuple[int, bool]
) -> None:
    stored = created(pytorchjob(before[0], master=before[1]))
    job = pytorchjob(now[0], master=now[1])
    outcome = updated(stored, applied(stored, job))
    fresh = evaluate(TABLE, requested(job))
    assert same(outcome.after, fresh.after)
    assert outcome.warnings == fresh.warnings


def test_a_kind_whose_row_has_no_states_of_updates_is_left_alone() -> None:
    job = t9k_mpijob(SHAPES[0])
    assert update(TABLE, requested(job), created(job)) is None
