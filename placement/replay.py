"""Repeats a decision from a snapshot (`placement.snapshot`), and describes the decision."""

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from common.files import content
from common.pointers import field_name
from common.texts import printable
from common.times import stamp
from placement import messages
from placement.decide.cluster import display_name
from placement.decide.decide import Scene
from placement.decide.plan import Decision, Tuning
from placement.decide.topology import Topology
from placement.observe.inventory import Inventory
from placement.observe.model import EndedWorker, JobKey, Pod, intern
from placement.observe.read import apart_of
from placement.snapshot import Snapshot

MOST_MIB: Final = 128
"""Maximum size of a snapshot, in MiB: a snapshot of 10,000 nodes and 12,000 pods has 18 MiB."""
_SNAPSHOT: Final = TypeAdapter(Snapshot)


def read(path: Path) -> Snapshot:
    """Returns the snapshot in a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a snapshot, or is too large.
    """
    data = content(path, path, MOST_MIB * 2**20 + 1)
    if len(data) > MOST_MIB * 2**20:
        raise ValueError(messages.large_snapshot(path, MOST_MIB))
    try:
        snapshot = _SNAPSHOT.validate_json(data, strict=True)
    except ValidationError as error:
        first_error, *other_errors = error.errors(include_url=False)
        value = printable(repr(first_error["input"])[:60], 50)
        field = field_name(first_error["loc"]) if first_error["loc"] else ""
        text = messages.invalid_snapshot(path, field, value, first_error["msg"], len(other_errors))
        raise ValueError(text) from error
    return replace(snapshot, pods=tuple(map(_shared, snapshot.pods)))


def _shared(pod: Pod) -> Pod:
    """Returns the pod with shared demand and term objects: decisions compare them by identity."""
    apart = tuple(apart_of(term.key, term.labels, term.namespaces, term.spaces) for term in pod.apart)
    return replace(pod, demand=intern(pod.demand), apart=apart)


def decision_for(snapshot: Snapshot) -> Decision:
    """Returns the decision for a snapshot, without a memory, and with default settings except the units."""
    inventory = Inventory({}, dict(snapshot.classes), dict(snapshot.claims))
    pods: tuple[Pod | EndedWorker, ...] = (*snapshot.pods, *snapshot.ended)
    tuning = Tuning(units=snapshot.units)
    return Scene(Topology(snapshot.nodes), pods, snapshot.taken, tuning, inventory=inventory).decision()


def describe(decision: Decision) -> dict[str, Any]:
    """Returns a decision as JSON: a sentence, and the jobs that are admitted, evicted, and so on."""
    admissions, waiting_jobs, deletions = decision.admissions, decision.waiting, decision.deletions
    return {
        "text": messages.replayed(len(admissions), len(waiting_jobs), len(deletions)),
        "admit": [_entry(admission.job.key, messages.to_units(admission.units)) for admission in admissions],
        "evict": [_entry(deletion.job.key, deletion.why) for deletion in deletions],
        "wait": [_entry(waiting.job.key, waiting.why, reason=waiting.reason) for waiting in waiting_jobs],
        "reserve": [
            _entry(reservation.job, messages.reserved_from(reservation.units, stamp(reservation.begin)))
            for reservation in decision.cluster.reservations
        ],
        "doubt": [_entry(untrusted.job.key, untrusted.why) for untrusted in decision.untrusted],
        "bug": [
            _entry(job.key, "".join(traceback.format_exception(error))) for job, error in decision.errors
        ],
    }


def _entry(job: JobKey, text: str, **fields: str) -> dict[str, str]:
    return {"job": display_name(job), "text": text, **fields}


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields the result of `describe` as lines for people."""
    yield f"{result['text']}."
    for kind in list(result)[1:]:
        for entry in result[kind]:
            text = entry["text"] if kind == "bug" else printable(entry["text"])  # a traceback has many lines
            yield f"  {kind:7} {printable(entry['job'])}: {text}"
