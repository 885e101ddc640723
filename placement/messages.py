"""The texts that placement shows to people, and the codes for programs.

A text with values is a function, mostly the ``format`` of a template. `Reason` has the codes of the reasons
for which a job waits, `EventReason` has the reasons of Events, and `FAULTS` has the codes of the reasons for
which a Pod cannot be placed. docs/reference.md lists the codes of `Reason` and `EventReason`.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final

from common.texts import join_names
from contract.keys import GATE, INJECT, PLACEMENT
from placement import limits


class Reason(StrEnum):
    """The codes of the reasons for which a job waits."""

    PODS = "pods"  # it has too few Pods, or its Pods prevent its admission
    BACKOFF = "backoff"  # it waits for a time after a failed admission, a refused write or a deletion of Pods
    UNITS = "units"  # too few of the units that it needs are free
    GUARANTEE = "guarantee"  # enough units are free, but guarantees keep them for other teams
    RESERVED = "reserved"  # enough units are free, but reserved for an earlier job
    NODES = "nodes"  # it needs more units than can ever become free
    BUG = "bug"  # because of a bug, the program cannot decide about it


# A job that waits for one of these reasons has no position in the queue: it cannot be admitted at present.
STUCK: Final = (Reason.PODS, Reason.NODES, Reason.BUG)

WITHOUT_NAMES: Final[Mapping[Reason, str]] = {
    Reason.BACKOFF: "admissions of jobs of its namespace failed, and the program waits",
    Reason.GUARANTEE: "such units are free, but guaranteed to other teams",
    Reason.RESERVED: "such units are free, but reserved for an earlier job",
    Reason.NODES: "other teams are guaranteed too many of the units that can be used",
    Reason.BUG: "a bug keeps the program from deciding on it",
}
"""The texts of reasons for users who may not list the Pods of other users. These texts name no object."""


class EventReason(StrEnum):
    """The reasons of Events."""

    WAITING = "Waiting"  # the job waits
    ADMITTED = "Admitted"  # the job was admitted
    EVICTED = "Evicted"  # some workers got no node in time: the workers that have not started are deleted
    MOVED = "Moved"  # blocks on failed nodes move to other units
    RESTARTED = "Restarted"  # the whole job leaves a failed node and waits again
    PREEMPTED = "Preempted"  # the job is preempted and waits again
    PREEMPTS = "Preempts"  # the job preempts a job of lower priority


about: Final = "{}: {}".format

# ---- Pods that cannot be placed even if all units were free ------------------------------------------------

FAULTS: Final[Mapping[object, str]] = {
    # The fields of the Pod cannot be read, or cost too much to compare.
    "placement": "{}",
    "gates": f"it has {{}} scheduling gates: at most {limits.MOST_GATES} are supported",
    "conditions": (
        "its node selector, node affinity and tolerations have {} parts of {} characters: "
        f"at most {limits.MOST_CONDITIONS} parts of {limits.MOST_TEXT} characters are compared"
    ),
    "annotations": f"its annotations have {{}} bytes: at most {limits.MOST_ANNOTATIONS} are supported",
    "labels": f"its labels have {{}} characters: at most {limits.MOST_TEXT} are supported",
    "claims": f"it has {{}} resourceClaims: at most {limits.MOST_CLAIMS} are supported",
    # The device claims of the Pod cannot be read, or cost too much to compare.
    "stale": "device claims cannot be watched: {}",
    "shared": "claim {} is shared by its pods: use a resourceClaimTemplateName, so that each pod has its own",
    "uncreated": "no claim was created from {} yet: see the pod's Events",
    "nested": "{}: {}",
    "class": "{}: there is no DeviceClass {}",
    "mode": "{} has ultraserverMode {}, and the job has node config {}: use one number in both",
    "many": "its claims have {} requests for devices: at most {} are compared; use the field count",
    "requests": f"it has {{}} requests and comparisons: at most {limits.MOST_COMPARED} are supported",
    "choices": "its request {} has the field firstAvailable: use the field exactly",
    "selector": (
        "its selector {!r} is not supported: use only comparisons with ==, joined by &&, "
        f"up to {limits.MOST_COMPARED}"
    ),
    # The placement annotation of the Pod is not trusted.
    "units": f"annotation {PLACEMENT} names units of {{}} nodes with label {{!r}}: the rule table has none",
    "devices": f"it requests no {{}}: remove annotation {PLACEMENT}",
    "unlabelled": "it is on node {}, which has no label {} and so is in no unit",
}
"""The text of each code. A `Fault` has a code and the values for its text."""
NO_INDEX: Final = f"annotation {PLACEMENT} has no index: placement needs the number of each pod"
ALL_CLAIMS: Final = "its claims"
template: Final = "ResourceClaimTemplate {}".format
device_class: Final = "DeviceClass {}".format


def fault(code: object, *values: object) -> str:
    return FAULTS[code].format(*(fault(*value) if isinstance(value, tuple) else value for value in values))


# ---- Jobs that cannot be admitted even to free units -------------------------------------------------------

no_job_label: Final = f"{{}} has the gate {GATE} but no job label: recreate the pod".format
other_placer: Final = f"{{}} has the gate {GATE}, but its annotation has {{}}: remove the gate".format
other_gate: Final = "{} waits for another gate as well: {}".format
no_devices: Final = f"{{}} claims no Neuron devices: create the job with {INJECT}: false".format
NO_WORKERS: Final = "none of its workers exists yet"
missing: Final = "{} of {} workers exist".format
high_number: Final = f"{{}} has number {{}}, but annotation {PLACEMENT} has {{}} workers".format
same_number: Final = "{} and {} have the same number {}".format
partial_unit: Final = "{} workers do not fill units of {} nodes".format
many_terms: Final = "its workers have {} anti-affinity terms: at most {} are supported".format
repels_itself: Final = "its workers' required anti-affinity on {} selects these workers: remove it".format
many_demands: Final = "its workers need {} different kinds of node: at most {} are supported".format
many_conditions: Final = (
    "waiting jobs of {} have {} conditions on nodes, and this job has {} more: at most {} are compared at a "
    "time; use fewer, or wait until earlier jobs start"
).format
several_pins: Final = "block {} is pinned to several units: {}".format
same_pin: Final = "blocks {} and {} are both pinned to {}".format
crowded: Final = "{} needs a node in {}, where its block is: {}".format
too_few_nodes: Final = "only {} nodes of the unit are left".format


def unlike(sizes: Sequence[tuple[int, int]]) -> str:
    counts = " and ".join(f"{count} workers of node config {size}" for count, size in sizes)
    return f"its workers have different placement annotations: {counts}; delete the workers of other jobs"


def by_hand(pod: str, node: str) -> str:
    where = f"is on node {node}, which is in no unit" if node else "has no node yet"
    return f"{pod} was admitted by hand and {where}"


# ---- Why a job gets no units, or leaves its units ----------------------------------------------------------

_UNIT_NAMES: Final = {1: "free node{s}", 2: "free pair{s} of nodes", 4: "whole UltraServer{s}"}
next_attempt: Final = "{}; next attempt at {:%H:%M:%S} UTC".format
refused: Final = "the API server refused to change its pods: {}".format
failed: Final = "admitted {} times without getting its nodes".format
waits_for: Final = "an admission in its namespace failed: waits until {} has its nodes".format
cannot_decide: Final = "a bug keeps the program from deciding on it; see the program's log: {!r}".format
cannot_explain: Final = "the program cannot give the reason; see the program's log: {!r}".format
NOT_EVERY_NODE: Final = "not every worker got a node"
MOST_NOT_READY: Final = "most nodes are not ready, so nothing is deleted"
MOST_WERE_NOT_READY: Final = "most nodes were not ready just now, so nothing is deleted yet"
left_often: Final = "has left failed nodes {} times".format
cannot_move: Final = "{}; cannot move yet: {}".format
ENDING: Final = "its deleted pods have not ended yet"
LAUNCHER_FIRST: Final = "its launcher is deleted first"
launcher_again: Final = (
    f"its launcher was deleted {{}} times, and was recreated without the gate {GATE}"
).format
preempted_by: Final = "preempted by {}, which has a higher priority".format
preempts: Final = "preempts {}, which has a lower priority".format


def units(count: int, size: int, *, parts: bool = False) -> str:
    """Returns, for example, ``2 whole UltraServers``.

    With ``parts``, a job takes ``size`` nodes of a unit, which may have more: ``2 free units of 4 nodes``.
    """
    name = _UNIT_NAMES.get(0 if parts and size > 1 else size, f"free unit{{s}} of {size} nodes")
    return f"{count} {name.format(s='' if count == 1 else 's')}"


def needs(count: int, size: int, *, parts: bool = False) -> str:
    return f"needs {units(count, size, parts=parts)}"


def free(count: int, withheld: int = 0, reasons: Sequence[str] = ()) -> str:
    """Returns, for example, ``2 free, 1 of them reserved for team/train``."""
    part = "" if withheld == count else f"{withheld} of them "
    return f"{count} free" + (f", {part}{' or '.join(reasons)}" if withheld else "")


def shortage(
    needs: str, free: str, victims: Sequence[str] = (), possible: int | None = None, *, reserved: bool = False
) -> str:
    preemption = f"preempts {join_names(victims, 2)} of lower priority" if victims else ""
    outlook = "what becomes free is reserved for it" if reserved else ""
    if possible is not None:
        outlook = f"at most {possible} can become free"
    return "; ".join(filter(None, (needs, preemption, free, outlook)))


def guaranteed_to_others(needs: str, teams: str, kept: int, total: int) -> str:
    others = f"{kept} of them {'is' if kept == 1 else 'are'} guaranteed to {teams}"
    return f"{needs}; {total} can be used, and {others}: use fewer workers, or lower a guarantee"


def not_whole(bound: timedelta, why: str) -> str:
    return f"admitted, but without all its nodes after {int(bound.total_seconds())} s: {why}"


def leaves(moves: Sequence[tuple[str | None, str]], why: str) -> str:
    texts = [f"moves from unit {old} to {new}" for old, new in moves] or ["waits again, with all workers"]
    return f"{', '.join(texts)}: {why}"


# ---- Why a node or a unit cannot be used -------------------------------------------------------------------

NOT_READY: Final = "not ready"
CORDONED: Final = "cordoned"
node_is: Final = "node {} is {}".format
GONE: Final = "gone"
node_of_unit_gone: Final = "a node of {} is gone".format
not_selected: Final = "node {} does not have the label {}={}".format
not_in_affinity: Final = "node {} does not match the pods' node affinity".format
tainted: Final = "node {} has the taint {}".format
too_few_devices: Final = "node {} offers too few devices for {}".format
requested_by: Final = "of what {} requests".format
full: Final = "node {} does not have enough {}".format
filled_by: Final = "{}, and among the pods without devices, {} uses the most of it".format
held_by: Final = "held by {}".format
node_held_by: Final = "node {} is held by {}".format
repelled: Final = "kept off by anti-affinity with {}: wait until it ends, or remove the term".format
reserved_for: Final = "reserved for {}".format
guaranteed_to: Final = "guaranteed to {}".format
incomplete: Final = "{} of {} nodes present".format
mixed: Final = "node {} has no devices of the Neuron DRA driver, and other nodes of the unit have some".format


def crowded_unit(free: int, jobs: Sequence[str]) -> str:
    why = held_by(", ".join(jobs)) if jobs else "held or too full"
    return f"only {free} nodes are free, the others are {why}"


# ---- Events and log lines ----------------------------------------------------------------------------------

BUG: Final = "a bug in this program"
STOPPED: Final = "stopped"
WITHOUT_CLAIMS: Final = "jobs are placed by their requests, as before Kubernetes 1.34"


def admitted(units: Sequence[str]) -> str:
    return f"admitted to {' '.join(units)}" if units else "admitted: its workers have their nodes"


def no_event(error: Exception, pause: timedelta | None = None) -> str:
    until = f", and none is written for {pause}" if pause else ""
    return f"an Event was not written{until}: {error}"


# ---- Answers to the preview service ------------------------------------------------------------------------

CANNOT_ANSWER: Final = "a question about a job could not be answered"
NOT_DECIDED: Final = "there is no answer because of an error: see the placement program's log"
NOT_LEADER: Final = "this replica does not decide"
BUSY: Final = "this replica answers another question: try again"
NOT_WHOLE_JOB: Final = "whole-job admission does not place it"
CLAIMS_DEVICES: Final = "it claims devices: ask with kubectl ultraserver preview --fit"
EMPTY: Final = "the job has no workers"
size_of_question: Final = "a question has 1 to {} bytes".format
outdated: Final = "the last decision was made at {:%H:%M:%S} UTC".format
answered_just_now: Final = "this replica answered a question just now: try again in {:.1f} s".format
slow_question: Final = "the question has not arrived within {:g} s".format
many_workers: Final = "the job has more than {} workers".format
long_name: Final = "a name has at most {} characters".format

# ---- The commands `admit` and `replay` ---------------------------------------------------------------------

ONE_OR_ALL: Final = "name one job as namespace/name, or use --all"
INCOMPLETE_SNAPSHOT: Final = "note: the snapshot lacks pods or claims that its creator could not list"
_RETAKE: Final = "take a snapshot with `kubectl ultraserver snapshot`, and do not change it"
not_admitted: Final = "{} pods were not admitted".format
large_snapshot: Final = f"{{}}: has more than {{}} MiB: {_RETAKE}".format
no_decision: Final = "{}: no decision is possible, because of a bug or a changed file: {}".format
other_release: Final = "note: the snapshot was taken with release {}".format


def admitted_by_hand(pod: str, job: str, why: str) -> str:
    name = f"pod {pod} of job {job}"
    return f"{name}: {why}" if why else f"admitted {name}"


def none_waits(job: str | None) -> str:
    return f"no pod of {job} waits" if job else "no pod waits"


def invalid_snapshot(path: object, field: str, value: str, error: str, more: int) -> str:
    where = f"{field} is {value}: " if field else ""
    also = f", and {more} more errors" if more else ""
    return f"{path}: {where}{error}{also}: {_RETAKE}"


def replayed(admitted: int, waiting: int, evicted: int) -> str:
    also = f", and {evicted} evicted" if evicted else ""
    return f"{admitted} of {admitted + waiting} waiting jobs would be admitted now{also}"


def to_units(units: Sequence[str]) -> str:
    return f"to {' '.join(units) or 'its nodes'}"


def reserved_from(units: Sequence[str], begin: str) -> str:
    return f"{' '.join(units)} from {begin}"


# ---- The rule table ----------------------------------------------------------------------------------------

UNITS_OF_TABLE: Final = "the units of the rule table"
not_texts: Final = "namespaces {!r} and unit {!r} of a guarantee must be texts".format
invalid_count: Final = "count {!r} of a guarantee must be a number from 0 to {}".format
invalid_row: Final = "a row of the rule table is invalid: {}: {}".format
