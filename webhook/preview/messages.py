"""The texts of previews. A text with values is a function, mostly a template's ``format``."""

from collections.abc import Mapping
from typing import Any, Final

from common.texts import count_text
from common.times import clock_text, length_text, time_of
from contract.keys import HOSTNAME
from contract.placement import Placement, Placer
from webhook import limits
from webhook.rows.families import Unit

ENDED: Final = "the job has ended"
NAMES_NODE: Final = "its workers name their node themselves, so no scheduler places them"
NO_DEVICES: Final = {"none": "{}", "some": "some of {}", "unknown": "{} of their own"}
"""Why a job is not placed, by how its workers get devices. ``{}`` stands for `explain_no_device`."""
if_shadow_ended: Final = "{}. If shadow mode ended: {}".format
refused_if_shadow_ended: Final = "{}. If shadow mode ended, refused: {}".format
PLACE_KEPT: Final = "the update does not change the placement"
recreate_for: Final = f"{PLACE_KEPT}: for {{}} nodes, delete and recreate the job".format
STARTS: Final = {
    Placer.KUEUE: "Kueue chooses the nodes and starts the job",
    Placer.GANG: "the PodGroup that the job names places the Pods",
    Placer.SCHEDULER: "the scheduler places the Pods one by one",
}


def waits_for_nodes(workers: int, *, is_group: bool) -> str:
    nodes = {1: "a node is", 2: "both nodes are"}.get(workers, f"all {workers} nodes are")
    return f"the {'group' if is_group else 'job'} waits until {nodes} free"


def workers_on_nodes(
    placement: Placement, unit: Unit | None, noun: str, *, is_apart: bool, is_empty: bool
) -> str:
    no_group = ", of which there is none now" if is_empty else ""
    per_group = f"each group{no_group}: " if placement.group else ""
    workers = f"{per_group}{count_text(placement.workers, noun)}"
    sharing = ", shared with no other job" if is_apart else ""
    blocks = placement.workers // placement.size
    name, plural = (unit and unit.names) or (f"unit of {placement.unit}", f"units of {placement.unit}")
    empty_nodes = unit.nodes - placement.size if unit and is_apart else 0
    if placement.size == 1 and not (empty_nodes and placement.workers == 1):
        number = f"any {placement.workers}" if placement.unit == HOSTNAME else placement.workers
        return f"{workers} on {'one node' if placement.workers == 1 else f'{number} nodes'}{sharing}"
    if unit and empty_nodes:
        sharing += f", which leaves {empty_nodes} of its {unit.nodes} nodes empty"
    if unit and placement.size < unit.nodes:
        sharing = sharing or ", which other jobs may use too"
        if blocks > 1:
            return f"{workers} in {blocks} equal blocks of {placement.size}, each on one {name}{sharing}"
    if blocks == 1:
        return f"{workers} on one {name}{sharing}"
    if placement.placer is Placer.SCHEDULER:
        return (
            f"{workers} in blocks of {placement.size}, on whole units where the scheduler finds them{sharing}"
        )
    return f"{workers} in blocks of {placement.size} on {blocks} {plural}{sharing}"


# ---- Whether a job would start now -------------------------------------------------------------------------

FIT_IS_OFF: Final = "this installation does not answer what fits: install the chart with the value fit: true"
NO_OLD: Final = "the form has the part old, but a new job has no stored object: remove old"
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")


def fits_or_waits(answer: Mapping[str, Any]) -> str:
    if answer["fits"]:
        return f"fits now on {', '.join(answer['units'])}"
    if (number := answer["position"]) is None:
        return f"cannot start: {answer['why']}"
    position = _ORDINALS[number - 1] if number <= len(_ORDINALS) else f"number {number}"
    start, now = time_of(answer["start"]), time_of(answer["now"])
    if not (start and now):
        return f"would be {position} in the queue; when it may start is not known"
    estimate = "" if answer["exact"] else " (an estimate)"
    when = f"in {length_text(start - now)}, at {clock_text(start, now)} UTC{estimate}"
    return f"would be {position} in the queue, and may start {when}"


# ---- Hints, notes, and errors of requests and documents ----------------------------------------------------

unknown_kind: Final = "no workload of the rule table has kind {!r}; did you mean {!r}?".format
unknown_field: Final = "unknown field {}; did you mean {!r}?".format
refused_field: Final = "the API server refuses {}: {}".format
not_text: Final = "{} is not text; quote it, as in {}".format
pods_unknown: Final = "its Pods are not known: {}".format
first_group: Final = "these are the Pods of the first {0}; each {0} has equal Pods".format
NOT_ALL_AT_ONCE: Final = "its Pods do not all exist at once: their numbers may differ from these"
NO_OBJECTS: Final = "there are no objects"
MANY_PODS: Final = (
    "this job and the jobs before it have too many Pods: preview fewer jobs, or do not preview their Pods"
)
other_namespace: Final = 'this object is for namespace "{0}", not "{1}": use --namespace={0}'.format
TOO_LONG: Final = f"the documents have more than {limits.PREVIEW} bytes, the maximum: split the documents"
NO_LINE_ENDS: Final = "; curl -d removes the line ends of a file: send the file with --data-binary @FILE"
other_types: Final = "cannot answer as {}; possible types are {}".format
unknown_parameter: Final = "unknown parameter {!r}; the allowed ones are {}".format
repeated_parameter: Final = "parameter {} is given {} times: give it once".format
invalid_parameter: Final = "parameter {} is {!r}; it must be {}".format
no_pods_in: Final = "parameter pods is 'true', but format {} has no Pods: use format json".format
