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
"""Why a job is not placed, by how its workers get devices. ``{}`` is the text of `explain_no_device`."""
if_shadow_ended: Final = "{}. If shadow mode ended: {}".format
refused_if_shadow_ended: Final = "{}. If shadow mode ended, refused: {}".format
no_node: Final = "no node can take its workers: {}".format
no_job_label: Final = "{}, but no rule of the table gives its workers a job label".format
misspelt_resource: Final = "Line {} requests {}; did you mean {}?".format
if_chart_has: Final = "if the chart has the value {}, ".format
with_pods: Final = "with the {} of its job".format
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
    units = f" on {blocks} {plural}"
    if placement.placer is Placer.SCHEDULER:
        units = ", on whole units where the scheduler finds them"
    return f"{workers} in blocks of {placement.size}{units}{sharing}"


# ---- Whether a job would start now -------------------------------------------------------------------------

FIT_IS_OFF: Final = "this installation does not answer what fits: install the chart with the value fit: true"
NO_OLD: Final = "the form has the part old, but a new job has no stored object: remove old"
several_objects: Final = "the text has {} objects: send one job".format
no_address: Final = "the host {} has no address: {}".format
does_not_answer: Final = "{} does not answer: {}".format
no_answer_now: Final = "the placement program does not answer now: {}".format
would_not_start: Final = "would not start: {}".format
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


def others_wait(count: int) -> str:
    return f"{count_text(count, 'other job')} wait{'s' * (count == 1)}" if count else "no other job waits"


# ---- Hints, notes, and errors of requests and documents ----------------------------------------------------

unknown_kind: Final = "no workload of the rule table has kind {!r}; did you mean {!r}?".format
unknown_field: Final = "unknown field {}; did you mean {!r}?".format
refused_field: Final = "the API server refuses {}: {}".format
not_text: Final = "{} is not text; quote it, as in {}".format
at_field: Final = "{}: {} is {}".format
not_called: Final = "the webhook is not called for namespace {}".format
excluded: Final = "no installation sends objects of namespace {} to the webhook: use another namespace".format
not_sent: Final = "the default installation does not send {} to the webhook: set the chart's value {}".format
may_create: Final = "{} is not a workload, but the Jobs or Pods that it creates may be: preview these".format
pods_unknown: Final = "its Pods are not known: {}".format
first_group: Final = "these are the Pods of the first group ({0}); each group has equal Pods".format
NOT_ALL_AT_ONCE: Final = "its Pods do not all exist at once: their numbers may differ from these"
more_pods: Final = "the job has more than {0} Pods, and only the first {0} are shown".format
pods_evaluated: Final = "{}: {} Pods evaluated".format
NO_OBJECTS: Final = "there are no objects"
MANY_PODS: Final = (
    "this job and the jobs before it have too many Pods: preview fewer jobs, or do not preview their Pods"
)
several_stored: Final = "it would update {}, but --old has it at {}: keep one".format
not_stored: Final = "it would update {}, but --old does not have this object: preview it without --old".format
other_namespace: Final = 'this object is for namespace "{0}", not "{1}": use --namespace={0}'.format
TOO_LONG: Final = f"the documents have more than {limits.PREVIEW} bytes, the maximum: split the documents"
NO_LINE_ENDS: Final = "; curl -d removes the line ends of a file: send the file with --data-binary @FILE"
other_types: Final = "cannot answer as {}; possible types are {}".format
unknown_parameter: Final = "unknown parameter {!r}; the allowed ones are {}".format
repeated_parameter: Final = "parameter {} is given {} times: give it once".format
invalid_parameter: Final = "parameter {} is {!r}; it must be {}".format
no_pods_in: Final = "parameter pods is 'true', but format {} has no Pods: use format json".format
UNNAMED_PART: Final = "a part without a name"
_PARTS: Final = "it must have object once and, for an update, old once"
wrong_parts: Final = f"the form has {{}}; {_PARTS}: send it as curl -F does".format
HOST_NOT_ALLOWED: Final = "this host name is not allowed; --allowed-host NAME allows it"
FOREIGN_PAGE: Final = "a page of another site must not request a preview"

# ---- Rules, fields and Pods of a report --------------------------------------------------------------------

not_a_candidate: Final = "not a candidate: {}".format
would_be_refused: Final = "would be refused: {}".format
other_fault: Final = "it is for a fault that this job does not have: {}".format
other_role: Final = "it is for {}role {}; this is a {}".format
RULE_ORDER: Final = "applied in the order below"
AS_IN_TEMPLATE: Final = "as in the job's template"
_OTHER_FIELDS: Final = "the record, a launcher's init script, and what the webhook removes or restores"
NO_RULE: Final = f"these fields belong to no rule: {_OTHER_FIELDS}"
SHADOW_ENDED: Final = "if shadow mode ended"
similar_pods: Final = "{}: {}like {}, with {}".format
not_compared: Final = "{} lines are not compared, as {} is the maximum: -o yaml shows them".format
more_lines: Final = "... {} more lines ({}), -o yaml shows them".format
