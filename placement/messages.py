"""The texts that placement shows to people, each as a function of its values, and the codes for programs.

`Reason` has the codes of the reasons for which a job waits, `EventReason` those of Events, and `FAULTS` those
of Pods that cannot be placed. docs/reference.md lists the first two.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from common.texts import counted, few
from contract.keys import GATE, INJECT, PLACE
from placement.limits import (
    MOST_ANNOTATIONS,
    MOST_CLAIMS,
    MOST_COMPARED,
    MOST_CONDITIONS,
    MOST_GATES,
    MOST_TEXT,
)


class Reason(StrEnum):
    """The kinds of reason for which a job waits."""

    PODS = "pods"  # it has too few Pods, or they prevent its admission
    BACKOFF = "backoff"  # its admission, or that of another job of its namespace, failed before
    UNITS = "units"  # too few of the units that it needs are free
    GUARANTEE = "guarantee"  # enough of them are free, but kept for other teams by guarantees
    RESERVED = "reserved"  # enough of them are free, but reserved for an earlier job
    NODES = "nodes"  # it needs more units than can become free
    BUG = "bug"  # a bug keeps this program from deciding on it


# Reasons for which a job has no position in the queue: something must change before it can be admitted.
STUCK: Final = (Reason.PODS, Reason.NODES, Reason.BUG)

WITHOUT_NAMES: Final[Mapping[Reason, str]] = {
    Reason.BACKOFF: "admissions of jobs of its namespace failed, and the program waits",
    Reason.GUARANTEE: "they are kept for other teams",
    Reason.RESERVED: "they are reserved for an earlier job",
    Reason.NODES: "other teams are guaranteed too many of the units that can be used",
    Reason.BUG: "a bug keeps the program from deciding on it",
}
"""Why a job waits, for users who may not list the Pods of others."""


class EventReason(StrEnum):
    """The reasons of Events."""

    WAITING = "Waiting"  # the job waits
    ADMITTED = "Admitted"  # the job has its units
    RECREATED = "Recreated"  # not all workers got a node in time: those without one are deleted
    MOVED = "Moved"  # workers leave a failed node for another unit
    RESTARTED = "Restarted"  # the job leaves a failed node and waits again
    PREEMPTED = "Preempted"  # the job is preempted and waits again
    PREEMPTS = "Preempts"  # it preempts a job of lower priority


def about(name: str, text: object) -> str:
    return f"{name}: {text}"


# ---- Pods that cannot be placed even if all units were free ------------------------------------------------

FAULTS: Final[Mapping[str, str]] = {
    # Their own fields cannot be read, or cost too much to compare.
    "place": "{}",
    "gates": f"it has {{}} scheduling gates: at most {MOST_GATES} are supported",
    "conditions": (
        "its node selector, node affinity and tolerations have {} parts of {} characters: "
        f"at most {MOST_CONDITIONS} parts of {MOST_TEXT} characters are compared"
    ),
    "annotations": f"its annotations have {{}} bytes: at most {MOST_ANNOTATIONS}, so that its unit has room",
    "labels": f"its labels have {{}} characters: at most {MOST_TEXT} are supported",
    "claims": f"it has {{}} resourceClaims: at most {MOST_CLAIMS} are supported",
    # Their claims cannot be read, or cost too much to compare.
    "lost": "claims cannot be followed: {}",
    "shared": (
        "claim {} is one for all pods that name it: use a resourceClaimTemplateName, so that each has its own"
    ),
    "unmade": "no claim was created from {} yet: see the pod's Events",
    "of": "{}: {}",
    "class": "{}: there is no DeviceClass {}",
    "mode": "{} has ultraserverMode {}, and the job has node config {}: use one number in both",
    "asks": "its claims have {} requests for devices: at most {} are compared; use counts",
    "requests": f"it has {{}} requests and comparisons: at most {MOST_COMPARED} are supported",
    "choices": "its request {} has firstAvailable: use exactly",
    "selector": (
        "its selector {!r} is not supported: use only comparisons with ==, joined by &&, "
        f"up to {MOST_COMPARED}"
    ),
    # Their placement annotations are not believed.
    "units": f"annotation {PLACE} names units of {{}} nodes with the label {{!r}}: the rule table has none",
    "devices": f"it requests no {{}}: remove annotation {PLACE}",
    "unlabelled": "it is on node {}, which has no label {} and so is in no unit",
}
"""The text by code; a `Fault` has the code and the values."""


def fault(code: str, *values: object) -> str:
    return FAULTS[code].format(*(fault(*value) if isinstance(value, tuple) else value for value in values))


NO_INDEX: Final = f"annotation {PLACE} has no index: placement needs the number of each pod"
ALL_CLAIMS: Final = "its claims"


def template(name: str) -> str:
    return f"ResourceClaimTemplate {name}"


def device_class(name: str) -> str:
    return f"DeviceClass {name}"


# ---- Jobs that cannot be admitted even to free units -------------------------------------------------------


def no_job_label(pod: str) -> str:
    return f"{pod} has the gate {GATE} but no job label: delete it, so that it is recreated"


def other_placer(pod: str, placer: str) -> str:
    return f"{pod} has the gate {GATE}, but its annotation has {placer}: remove the gate"


def other_gate(pod: str, gate: str) -> str:
    return f"{pod} waits for another gate as well: {gate}"


def no_devices(pod: str, resource: str) -> str:
    return f"{pod} requests no {resource}: create the job with {INJECT}: false"


NO_WORKERS: Final = "none of its workers exists yet"


def missing(count: int, total: int) -> str:
    return f"{count} of {total} workers exist"


def unlike(sizes: Sequence[tuple[int, int]]) -> str:
    both = " and ".join(f"{count} workers of node config {size}" for count, size in sizes)
    return f"its workers have different placement annotations: {both}; delete those of other jobs"


def high_number(pod: str, number: int, total: int) -> str:
    return f"{pod} has number {number}, but the job was admitted with {total} workers"


def same_number(first: str, second: str, number: int) -> str:
    return f"{first} and {second} have the same number {number}"


def partial_unit(workers: int, size: int) -> str:
    return f"{workers} workers do not fill units of {size} nodes"


def many_terms(count: int, most: int) -> str:
    return f"its workers have {count} anti-affinity terms: at most {most} are supported"


def repels_itself(label: str) -> str:
    return f"its workers' required anti-affinity on {label} selects these workers: remove it"


def many_demands(count: int, most: int) -> str:
    return f"its workers need {count} different kinds of node: at most {most} are supported"


def many_conditions(namespace: str, before: int, count: int, most: int) -> str:
    return (
        f"waiting jobs of {namespace} have {before} conditions on nodes, and it has {count} more: at most "
        f"{most} are compared at a time; use fewer, or wait until earlier jobs start"
    )


def several_pins(block: int, units: Sequence[str]) -> str:
    return f"block {block} is pinned to several units: {', '.join(units)}"


def same_pin(first: int, second: int, unit: str) -> str:
    return f"blocks {first} and {second} are both pinned to {unit}"


def by_hand(pod: str, node: str) -> str:
    where = f"is on node {node}, which is in no unit" if node else "has no node yet"
    return f"{pod} was admitted by hand and {where}"


def crowded(pod: str, unit: str, why: str) -> str:
    return f"{pod} needs a node in {unit}, where its block is: {why}"


def too_few_nodes(count: int) -> str:
    return f"only {count} of its nodes are not used by the block"


# ---- Why a job gets no units, or leaves those that it has --------------------------------------------------

_UNITS: Final = {1: "free node{s}", 2: "free pair{s} of nodes", 4: "whole UltraServer{s}"}


def units(count: int, size: int, *, parts: bool = False) -> str:
    """``2 whole UltraServers``; with ``parts`` of larger units."""
    name = _UNITS.get(0 if parts and size > 1 else size, f"free unit{{s}} of {size} nodes")
    return f"{count} {name.format(s='' if count == 1 else 's')}"


def needs(count: int, size: int, *, parts: bool = False) -> str:
    return f"needs {units(count, size, parts=parts)}"


def free(count: int) -> str:
    return f"{count} free"


def shortage(
    needs: str, free: str, victims: Sequence[str] = (), most: int | None = None, *, reserved: bool = False
) -> str:
    ending = f"preempts {few(victims, 2)} of lower priority" if victims else ""
    later = "what becomes free is reserved for it" if reserved else ""
    if most is not None:
        later = f"at most {most} can become free"
    return "; ".join(filter(None, (needs, ending, free, later)))


def guaranteed_to_others(needed: int, label: str, teams: str, kept: int, total: int) -> str:
    return (
        f"needs {counted(needed, 'unit')} of {label}, and {teams} are guaranteed {kept} of the "
        f"{total} that can be used: use fewer workers, or lower a guarantee"
    )


def tried_again(why: str, at: datetime) -> str:
    return f"{why}; tried again at {at:%H:%M:%S} UTC"


def refused(error: str) -> str:
    return f"the API server refused to change its pods: {error}"


def failed(count: int) -> str:
    return f"admitted {count} times without getting its nodes"


def waits_for(job: str) -> str:
    return f"an admission in its namespace failed: waits until {job} has its nodes"


def cannot_decide(error: Exception) -> str:
    return f"a bug keeps the program from deciding on it; see its log: {error!r}"


def cannot_explain(error: Exception) -> str:
    return f"the program cannot give the reason, see its log: {error!r}"


NOT_EVERY_NODE: Final = "not every worker got a node"


def not_whole(bound: timedelta, why: str) -> str:
    return f"admitted, but not whole within {int(bound.total_seconds())} s: {why}"


MOST_NOT_READY: Final = "most nodes are not ready, so nothing is deleted"
MOST_WERE_NOT_READY: Final = "most nodes were not ready just now, so nothing is deleted yet"


def left_often(count: int) -> str:
    return f"has left failed nodes {count} times"


def cannot_move(leaves: str, why: str) -> str:
    return f"{leaves}; cannot move yet: {why}"


ENDING: Final = "its deleted pods have not ended yet"
LAUNCHER_FIRST: Final = "its launcher is deleted first"


def launcher_again(count: int) -> str:
    return f"its launcher was deleted {count} times, and is there again without the gate {GATE}"


def leaves(moves: Sequence[tuple[str | None, str]], why: str) -> str:
    ways = [f"moves from unit {old} to {new}" for old, new in moves] or ["waits again, with all workers"]
    return f"{', '.join(ways)}: {why}"


def preempted_by(job: str) -> str:
    return f"preempted by {job}, which has a higher priority"


def preempts(job: str) -> str:
    return f"preempts {job}, which has a lower priority"


# ---- Why a node or a unit cannot be used -------------------------------------------------------------------

NOT_READY: Final = "not ready"
CORDONED: Final = "cordoned"


def node_is(node: str, state: str) -> str:
    return f"node {node} is {state}"


GONE: Final = "gone"


def node_of_unit_gone(unit: str | None) -> str:
    return f"a node of {unit} is gone"


def not_selected(node: str, key: str, value: str) -> str:
    return f"node {node} does not have the label {key}={value}"


def not_in_affinity(node: str) -> str:
    return f"node {node} does not match the pods' node affinity"


def tainted(node: str, taint: str) -> str:
    return f"node {node} has the taint {taint}"


def too_few_devices(node: str, request: str) -> str:
    return f"node {node} offers too few devices for {request}"


def requested_by(request: str) -> str:
    return f"of what {request} requests"


def full(node: str, resource: str) -> str:
    return f"node {node} does not have enough {resource}"


def filled_by(detail: str, pod: str) -> str:
    return f"{detail}, and pod {pod} uses most of it"


def held_by(job: str) -> str:
    return f"held by {job}"


def node_held_by(node: str, job: str) -> str:
    return f"node {node} is held by {job}"


def crowded_unit(free: int, jobs: Sequence[str]) -> str:
    why = held_by(", ".join(jobs)) if jobs else "held or too full"
    return f"{free} nodes free, {why}"


def repelled(job: str) -> str:
    return f"kept off by anti-affinity with {job}: wait until it ends, or remove the term"


def reserved_for(job: str) -> str:
    return f"reserved for {job}, which is next"


def kept_for(teams: str) -> str:
    return f"kept for {teams} by a guarantee"


def kept_free_for(teams: str) -> str:
    return f"kept free for {teams} by a guarantee"


def incomplete(count: int, most: int) -> str:
    return f"{count} of {most} nodes present"


def mixed(node: str) -> str:
    return f"node {node} has no devices of the Neuron DRA driver, and other nodes of the unit have some"


# ---- Events and log lines ----------------------------------------------------------------------------------


def admitted(units: Sequence[str]) -> str:
    return f"admitted to {' '.join(units)}" if units else "admitted: its workers have their nodes"


BUG: Final = "a bug in this program"
STOPPED: Final = "stopped"
WITHOUT_CLAIMS: Final = "jobs are placed by their requests, as before Kubernetes 1.34"


def no_event(error: Exception, pause: timedelta | None = None) -> str:
    until = f", and none is written for {pause}" if pause else ""
    return f"an Event was not written{until}: {error}"


# ---- Answers to the preview service ------------------------------------------------------------------------

CANNOT_ANSWER: Final = "a question about a job could not be answered"
NOT_DECIDED: Final = "it cannot be decided, see the program's log"
NOT_LEADER: Final = "this replica does not decide"
BUSY: Final = "it answers another question: try again"
NOT_WHOLE_JOB: Final = "whole-job admission does not place it"
CLAIMS_DEVICES: Final = "it claims devices: ask with kubectl ultraserver preview --fit"
EMPTY: Final = "the job has no workers"


def size_of_question(most: int) -> str:
    return f"a question has 1 to {most} bytes"


def outdated(at: datetime) -> str:
    return f"the last decision was made at {at:%H:%M:%S} UTC"


def answered_just_now(wait: float) -> str:
    return f"it answered a question just now: try again in {wait:.1f} s"


def slow_question(seconds: float) -> str:
    return f"the question has not arrived within {seconds:g} s"


def many_workers(most: int) -> str:
    return f"the job has more than {most} workers"


def long_name(most: int) -> str:
    return f"a name has at most {most} characters"


# ---- The commands `open` and `replay` ----------------------------------------------------------------------

ONE_OR_ALL: Final = "name one job as namespace/name, or use --all"
INCOMPLETE_SNAPSHOT: Final = "note: the snapshot lacks pods or claims that its user could not list"
_RETAKE: Final = "take a snapshot with `kubectl ultraserver snapshot`, and do not change it"


def opened(pod: str, job: str, why: str) -> str:
    name = f"pod {pod} of job {job}"
    return f"{name}: {why}" if why else f"admitted {name}"


def not_opened(count: int) -> str:
    return f"{count} pods were not admitted"


def none_waits(job: str | None) -> str:
    return f"no pod waits for {job}" if job else "no pod waits"


def large_snapshot(path: object, most: int) -> str:
    return f"{path}: has more than {most} MiB: {_RETAKE}"


def invalid_snapshot(path: object, field: str, value: str, error: str, more: int) -> str:
    where = f"{field} is {value}: " if field else ""
    also = f", and {more} more errors" if more else ""
    return f"{path}: {where}{error}{also}: {_RETAKE}"


def no_decision(path: object, error: Exception) -> str:
    return f"{path}: no decision: a bug, or the file was changed: {error}"


def other_release(release: str) -> str:
    return f"note: the snapshot was taken with release {release}"


def replayed(admitted: int, waiting: int, evicted: int) -> str:
    also = f", and {evicted} evicted" if evicted else ""
    return f"{admitted} of {admitted + waiting} waiting jobs would be admitted now{also}"


def to_units(units: Sequence[str]) -> str:
    return f"to {' '.join(units) or 'its nodes'}"


def reserved_from(units: Sequence[str], begin: str) -> str:
    return f"{' '.join(units)} from {begin}"


# ---- The rule table ----------------------------------------------------------------------------------------

UNITS_OF_TABLE: Final = "the units of the rule table"


def invalid_row(error: Exception) -> str:
    return f"a row of the rule table is invalid: {type(error).__name__}: {error}"


def not_texts(namespaces: Collection[object], unit: object) -> str:
    return f"namespaces {namespaces!r} and unit {unit!r} of a guarantee must be texts"


def invalid_count(count: object, most: int) -> str:
    return f"count {count!r} of a guarantee must be a number from 0 to {most}"
