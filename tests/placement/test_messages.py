"""Tests of the complete texts of `placement.messages`. Other tests compare only parts of the texts."""

from datetime import timedelta
from typing import Any

import pytest

from contract.keys import PLACEMENT
from placement import messages
from placement.messages import FAULTS, WITHOUT_NAMES, EventReason, Reason
from tests import texts
from tests.docs.tables import meanings

ERROR = ValueError("e")
RETAKE = "take a snapshot with `kubectl ultraserver snapshot`, and do not change it"
DISAGREE = "its workers have different placement annotations"
DELETE = "delete the workers of other jobs"
COMPARED = "at most 1000 are compared at a time; use fewer, or wait until earlier jobs start"
FEWER = "use fewer workers, or lower a guarantee"
PARTS = "at most 200 parts of 4096 characters are compared"

TEXTS: dict[str, list[tuple[tuple[Any, ...], str]]] = {
    "unlike": [
        (
            ([(4, 4), (8, 2)],),
            f"{DISAGREE}: 4 workers of node config 4 and 8 workers of node config 2; {DELETE}",
        )
    ],
    "by_hand": [
        (("p", "n"), "p was admitted by hand and is on node n, which is in no unit"),
        (("p", ""), "p was admitted by hand and has no node yet"),
    ],
    "units": [
        ((1, 4), "1 whole UltraServer"),
        ((2, 4), "2 whole UltraServers"),
        ((1, 2), "1 free pair of nodes"),
        ((3, 2), "3 free pairs of nodes"),
        ((1, 1), "1 free node"),
        ((5, 1), "5 free nodes"),
        ((1, 8), "1 free unit of 8 nodes"),
        ((2, 8), "2 free units of 8 nodes"),
    ],
    "needs": [((2, 4), "needs 2 whole UltraServers")],
    "free": [
        ((2,), "2 free"),
        ((1, 1, ["reserved for j"]), "1 free, reserved for j"),
        (
            (2, 1, ["reserved for j", "guaranteed to t"]),
            "2 free, 1 of them reserved for j or guaranteed to t",
        ),
    ],
    "shortage": [
        (("needs 2", "1 free"), "needs 2; 1 free"),
        (("needs 2", "1 free", ["j"]), "needs 2; preempts j of lower priority; 1 free"),
        (
            ("needs 2", "1 free", ["j", "k", "l"]),
            "needs 2; preempts j, k and 1 more of lower priority; 1 free",
        ),
        (("needs 2", "1 free", [], 1), "needs 2; 1 free; at most 1 can become free"),
    ],
    "guaranteed_to_others": [
        (
            ("needs 2", "t", 3, 4),
            f"needs 2; 4 can be used, and 3 of them are guaranteed to t: {FEWER}",
        ),
        (
            ("needs 2", "t", 1, 2),
            f"needs 2; 2 can be used, and 1 of them is guaranteed to t: {FEWER}",
        ),
    ],
    "not_whole": [((timedelta(minutes=2), "why"), "admitted, but without all its nodes after 120 s: why")],
    "leaves": [
        (([("a", "b"), ("c", "d")], "why"), "moves from unit a to b, moves from unit c to d: why"),
        (([], "why"), "waits again, with all workers: why"),
    ],
    "crowded_unit": [
        ((2, ["j", "k"]), "only 2 nodes are free, the others are held by j, k"),
        ((0, []), "only 0 nodes are free, the others are held or too full"),
    ],
    "admitted": [
        ((("a", "b"),), "admitted to a b"),
        (((),), "admitted: its workers have their nodes"),
    ],
    "no_event": [
        ((ERROR,), "an Event was not written: e"),
        ((ERROR, timedelta(minutes=1)), "an Event was not written, and none is written for 0:01:00: e"),
    ],
    "admitted_by_hand": [
        (("p", "j", ""), "admitted pod p of job j"),
        (("p", "j", "why"), "pod p of job j: why"),
    ],
    "none_waits": [((None,), "no pod waits"), (("j",), "no pod of j waits")],
    "invalid_snapshot": [
        (
            ("f", "nodes", "1", "a list is needed", 2),
            f"f: nodes is 1: a list is needed, and 2 more errors: {RETAKE}",
        ),
        (("f", "", "1", "an object is needed", 0), f"f: an object is needed: {RETAKE}"),
    ],
    "replayed": [
        ((1, 2, 0), "1 of 3 waiting jobs would be admitted now"),
        ((1, 2, 1), "1 of 3 waiting jobs would be admitted now, and 1 evicted"),
    ],
    "to_units": [((("a", "b"),), "to a b"), (((),), "to its nodes")],
    "reserved_from": [((("a", "b"), "noon"), "a b from noon")],
}
"""For each function: its arguments, and the text that it returns."""

FAULT_TEXTS: dict[str, tuple[tuple[object, ...], str]] = {
    "placement": (("why",), "why"),
    "gates": ((17,), "it has 17 scheduling gates: at most 16 are supported"),
    "conditions": (
        (201, 9),
        f"its node selector, node affinity and tolerations have 201 parts of 9 characters: {PARTS}",
    ),
    "annotations": (
        (240_001,),
        "its annotations have 240001 bytes: at most 240000 are supported",
    ),
    "labels": ((5000,), "its labels have 5000 characters: at most 4096 are supported"),
    "claims": ((9,), "it has 9 resourceClaims: at most 8 are supported"),
    "stale": (("why",), "device claims cannot be watched: why"),
    "shared": (
        ("c",),
        "claim c is shared by its pods: use a resourceClaimTemplateName, so that each pod has its own",
    ),
    "uncreated": (("t",), "no claim was created from t yet: see the pod's Events"),
    "nested": (("t", ("requests", 40)), "t: it has 40 requests and comparisons: at most 32 are supported"),
    "class": (("t", "c"), "t: there is no DeviceClass c"),
    "mode": (
        ("t", 2, 4),
        "t has ultraserverMode 2, and the job has node config 4: use one number in both",
    ),
    "many": (
        (9, 8),
        "its claims have 9 requests for devices: at most 8 are compared; use the field count",
    ),
    "requests": ((40,), "it has 40 requests and comparisons: at most 32 are supported"),
    "choices": (("r",), "its request r has the field firstAvailable: use the field exactly"),
    "selector": (
        ("true",),
        "its selector 'true' is not supported: use only comparisons with ==, joined by &&, up to 32",
    ),
    "units": (
        (4, "l"),
        f"annotation {PLACEMENT} names units of 4 nodes with label 'l': the rule table has none",
    ),
    "devices": (("r",), f"it requests no r: remove annotation {PLACEMENT}"),
    "unlabelled": (("n", "l"), "it is on node n, which has no label l and so is in no unit"),
}


CONSTANTS = {
    "about": "{}: {}",
    "NO_INDEX": (
        "annotation ultraserver-webhook.io/place has no index: placement needs the number of each pod"
    ),
    "ALL_CLAIMS": "its claims",
    "template": "ResourceClaimTemplate {}",
    "device_class": "DeviceClass {}",
    "no_job_label": "{} has the gate ultraserver-webhook.io/whole-job but no job label: recreate the pod",
    "other_placer": (
        "{} has the gate ultraserver-webhook.io/whole-job, but its annotation has {}: remove the gate"
    ),
    "other_gate": "{} waits for another gate as well: {}",
    "no_devices": "{} claims no Neuron devices: create the job with ultraserver-webhook.io/inject: false",
    "NO_WORKERS": "none of its workers exists yet",
    "missing": "{} of {} workers exist",
    "high_number": f"{{}} has number {{}}, but annotation {PLACEMENT} has {{}} workers",
    "same_number": "{} and {} have the same number {}",
    "partial_unit": "{} workers do not fill units of {} nodes",
    "many_terms": "its workers have {} anti-affinity terms: at most {} are supported",
    "repels_itself": "its workers' required anti-affinity on {} selects these workers: remove it",
    "many_demands": "its workers need {} different kinds of node: at most {} are supported",
    "many_conditions": (
        "waiting jobs of {} have {} conditions on nodes, and this job has {} more: at most {} are compared at"
        " a time; use fewer, or wait until earlier jobs start"
    ),
    "several_pins": "block {} is pinned to several units: {}",
    "same_pin": "blocks {} and {} are both pinned to {}",
    "crowded": "{} needs a node in {}, where its block is: {}",
    "too_few_nodes": "only {} nodes of the unit are left",
    "next_attempt": "{}; next attempt at {:%H:%M:%S} UTC",
    "refused": "the API server refused to change its pods: {}",
    "failed": "admitted {} times without getting its nodes",
    "waits_for": "an admission in its namespace failed: waits until {} has its nodes",
    "cannot_decide": "a bug keeps the program from deciding on it; see the program's log: {!r}",
    "cannot_explain": "the program cannot give the reason; see the program's log: {!r}",
    "NOT_EVERY_NODE": "not every worker got a node",
    "MOST_NOT_READY": "most nodes are not ready, so nothing is deleted",
    "MOST_WERE_NOT_READY": "most nodes were not ready just now, so nothing is deleted yet",
    "left_often": "has left failed nodes {} times",
    "cannot_move": "{}; cannot move yet: {}",
    "ENDING": "its deleted pods have not ended yet",
    "LAUNCHER_FIRST": "its launcher is deleted first",
    "launcher_again": (
        "its launcher was deleted {} times, and was recreated without the gate ultraserver-"
        "webhook.io/whole-job"
    ),
    "preempted_by": "preempted by {}, which has a higher priority",
    "preempts": "preempts {}, which has a lower priority",
    "NOT_READY": "not ready",
    "CORDONED": "cordoned",
    "node_is": "node {} is {}",
    "GONE": "gone",
    "node_of_unit_gone": "a node of {} is gone",
    "not_selected": "node {} does not have the label {}={}",
    "not_in_affinity": "node {} does not match the pods' node affinity",
    "tainted": "node {} has the taint {}",
    "too_few_devices": "node {} offers too few devices for {}",
    "requested_by": "of what {} requests",
    "full": "node {} does not have enough {}",
    "filled_by": "{}, and among the pods without devices, {} uses the most of it",
    "held_by": "held by {}",
    "node_held_by": "node {} is held by {}",
    "repelled": "kept off by anti-affinity with {}: wait until it ends, or remove the term",
    "reserved_for": "reserved for {}",
    "guaranteed_to": "guaranteed to {}",
    "incomplete": "{} of {} nodes present",
    "mixed": "node {} has no devices of the Neuron DRA driver, and other nodes of the unit have some",
    "BUG": "a bug in this program",
    "STOPPED": "stopped",
    "WITHOUT_CLAIMS": "jobs are placed by their requests, as before Kubernetes 1.34",
    "CANNOT_ANSWER": "a question about a job could not be answered",
    "NOT_DECIDED": "there is no answer because of an error: see the placement program's log",
    "NOT_LEADER": "this replica does not decide",
    "BUSY": "this replica answers another question: try again",
    "NOT_WHOLE_JOB": "whole-job admission does not place it",
    "CLAIMS_DEVICES": "it claims devices: ask with kubectl ultraserver preview --fit",
    "EMPTY": "the job has no workers",
    "size_of_question": "a question has 1 to {} bytes",
    "outdated": "the last decision was made at {:%H:%M:%S} UTC",
    "answered_just_now": "this replica answered a question just now: try again in {:.1f} s",
    "slow_question": "the question has not arrived within {:g} s",
    "many_workers": "the job has more than {} workers",
    "long_name": "a name has at most {} characters",
    "ONE_OR_ALL": "name one job as namespace/name, or use --all",
    "INCOMPLETE_SNAPSHOT": "note: the snapshot lacks pods or claims that its creator could not list",
    "not_admitted": "{} pods were not admitted",
    "large_snapshot": (
        "{}: has more than {} MiB: take a snapshot with `kubectl ultraserver snapshot`, and do not change it"
    ),
    "no_decision": "{}: no decision is possible, because of a bug or a changed file: {}",
    "other_release": "note: the snapshot was taken with release {}",
    "UNITS_OF_TABLE": "the units of the rule table",
    "not_texts": "namespaces {!r} and unit {!r} of a guarantee must be texts",
    "invalid_row": "a row of the rule table is invalid: {}: {}",
    "invalid_count": "count {!r} of a guarantee must be a number from 0 to {}",
}
"""The constants and the templates."""


def test_all_functions_and_faults_have_expected_texts() -> None:
    """If a function is new, add its texts to `TEXTS`, or to `FAULT_TEXTS` for a fault."""
    assert texts.functions(messages) == {*TEXTS, "fault"}
    assert FAULTS.keys() == FAULT_TEXTS.keys()


@pytest.mark.parametrize(
    ("name", "values", "text"), [(name, *case) for name, cases in TEXTS.items() for case in cases]
)
def test_a_function_returns_its_text(name: str, values: tuple[Any, ...], text: str) -> None:
    assert getattr(messages, name)(*values) == text


def test_a_reservation_is_named_if_enough_can_become_free() -> None:
    text = "needs 2; 1 free; what becomes free is reserved for it"
    assert messages.shortage("needs 2", "1 free", reserved=True) == text
    too_few = "needs 2; 1 free; at most 1 can become free"
    assert messages.shortage("needs 2", "1 free", [], 1, reserved=True) == too_few


@pytest.mark.parametrize(("code", "values", "text"), [(code, *entry) for code, entry in FAULT_TEXTS.items()])
def test_a_fault_has_its_text(code: str, values: tuple[object, ...], text: str) -> None:
    assert messages.fault(code, *values) == text


def test_the_reference_lists_exactly_the_codes_of_reasons_and_events() -> None:
    """Protects users who look up a code in the reference."""
    assert set(meanings()["waiting"]) == set(Reason)
    assert set(meanings()["events"]) == set(EventReason)
    assert set(WITHOUT_NAMES) == set(Reason) - {Reason.PODS, Reason.UNITS}


def test_the_constants_and_templates_have_their_texts() -> None:
    assert texts.constants(messages) == CONSTANTS
