"""Tests of the exact texts of previews. Other tests compare only the facts in a text."""

from typing import Any

import pytest

from contract.keys import HOSTNAME
from contract.placement import Placement, Placer
from tests import texts
from webhook.preview import messages
from webhook.rows.families import Unit

LABEL = "example.com/rack"
RACK = Unit(label=LABEL, nodes=4, names=("rack", "racks"))
ALONE = "shared with no other job"


def placement(workers: int, size: int, unit: str = LABEL, **fields: Any) -> Placement:
    return Placement(**{"placer": Placer.WHOLE_JOB, "workers": workers, "size": size, "unit": unit} | fields)


def answer(**fields: Any) -> dict[str, Any]:
    """Returns an answer of the placement program about a job that waits."""
    defaults = {"fits": False, "position": 1, "start": "2026-11-21T14:00:00Z", "now": "2026-11-21T12:00:00Z"}
    return defaults | {"exact": True} | fields


TEXTS: dict[str, list[tuple[tuple[Any, ...], dict[str, bool], str]]] = {
    "waits_for_nodes": [
        ((1,), {"is_group": False}, "the job waits until a node is free"),
        ((2,), {"is_group": False}, "the job waits until both nodes are free"),
        ((3,), {"is_group": True}, "the group waits until all 3 nodes are free"),
    ],
    "workers_on_nodes": [
        ((placement(1, 1), RACK, "worker"), {}, "1 worker on one node"),
        ((placement(3, 1), RACK, "Pod"), {}, "3 Pods on 3 nodes"),
        ((placement(3, 1, HOSTNAME), None, "worker"), {}, "3 workers on any 3 nodes"),
        ((placement(3, 1), RACK, "worker"), {"is_apart": True}, f"3 workers on 3 nodes, {ALONE}"),
        (
            (placement(1, 1), RACK, "worker"),
            {"is_apart": True},
            f"1 worker on one rack, {ALONE}, which leaves 3 of its 4 nodes empty",
        ),
        ((placement(4, 4), RACK, "worker"), {"is_apart": True}, f"4 workers on one rack, {ALONE}"),
        ((placement(2, 2), RACK, "worker"), {}, "2 workers on one rack, which other jobs may use too"),
        (
            (placement(4, 2), RACK, "worker"),
            {},
            "4 workers in 2 equal blocks of 2, each on one rack, which other jobs may use too",
        ),
        (
            (placement(8, 4, placer=Placer.SCHEDULER), RACK, "worker"),
            {},
            "8 workers in blocks of 4, on whole units where the scheduler finds them",
        ),
        ((placement(8, 4), RACK, "worker"), {}, "8 workers in blocks of 4 on 2 racks"),
        ((placement(8, 4), None, "worker"), {}, f"8 workers in blocks of 4 on 2 units of {LABEL}"),
        ((placement(4, 4, group="g"), None, "worker"), {}, f"each group: 4 workers on one unit of {LABEL}"),
        (
            (placement(4, 4, group="g"), RACK, "worker"),
            {"is_empty": True},
            "each group, of which there is none now: 4 workers on one rack",
        ),
    ],
    "others_wait": [
        ((0,), {}, "no other job waits"),
        ((1,), {}, "1 other job waits"),
        ((2,), {}, "2 other jobs wait"),
    ],
    "fits_or_waits": [
        (({"fits": True, "units": ["a", "b"]},), {}, "fits now on a, b"),
        ((answer(position=None, why="why"),), {}, "cannot start: why"),
        ((answer(),), {}, "would be first in the queue, and may start in 2 h, at 14:00 UTC"),
        (
            (answer(position=6, exact=False),),
            {},
            "would be number 6 in the queue, and may start in 2 h, at 14:00 UTC (an estimate)",
        ),
        ((answer(start=None),), {}, "would be first in the queue; when it may start is not known"),
    ],
}
"""For each function, cases with arguments, options and the text."""

OPTIONS = {"workers_on_nodes": {"is_apart": False, "is_empty": False}}
"""The default options of a function in the cases of `TEXTS`."""

CONSTANTS = {
    "ENDED": "the job has ended",
    "NAMES_NODE": "its workers name their node themselves, so no scheduler places them",
    "if_shadow_ended": "{}. If shadow mode ended: {}",
    "refused_if_shadow_ended": "{}. If shadow mode ended, refused: {}",
    "no_node": "no node can take its workers: {}",
    "no_job_label": "{}, but no rule of the table gives its workers a job label",
    "misspelt_resource": "Line {} requests {}; did you mean {}?",
    "if_chart_has": "if the chart has the value {}, ",
    "with_pods": "with the {} of its job",
    "PLACE_KEPT": "the update does not change the placement",
    "recreate_for": ("the update does not change the placement: for {} nodes, delete and recreate the job"),
    "FIT_IS_OFF": ("this installation does not answer what fits: install the chart with the value fit: true"),
    "NO_OLD": "the form has the part old, but a new job has no stored object: remove old",
    "several_objects": "the text has {} objects: send one job",
    "no_address": "the host {} has no address: {}",
    "does_not_answer": "{} does not answer: {}",
    "no_answer_now": "the placement program does not answer now: {}",
    "would_not_start": "would not start: {}",
    "unknown_kind": "no workload of the rule table has kind {!r}; did you mean {!r}?",
    "unknown_field": "unknown field {}; did you mean {!r}?",
    "refused_field": "the API server refuses {}: {}",
    "not_text": "{} is not text; quote it, as in {}",
    "at_field": "{}: {} is {}",
    "not_called": "the webhook is not called for namespace {}",
    "excluded": "no installation sends objects of namespace {} to the webhook: use another namespace",
    "not_sent": "the default installation does not send {} to the webhook: set the chart's value {}",
    "may_create": "{} is not a workload, but the Jobs or Pods that it creates may be: preview these",
    "pods_unknown": "its Pods are not known: {}",
    "first_group": "these are the Pods of the first group ({0}); each group has equal Pods",
    "NOT_ALL_AT_ONCE": "its Pods do not all exist at once: their numbers may differ from these",
    "more_pods": "the job has more than {0} Pods, and only the first {0} are shown",
    "pods_evaluated": "{}: {} Pods evaluated",
    "NO_OBJECTS": "there are no objects",
    "MANY_PODS": (
        "this job and the jobs before it have too many Pods: preview fewer jobs, or do not preview their Pods"
    ),
    "several_stored": "it would update {}, but --old has it at {}: keep one",
    "not_stored": "it would update {}, but --old does not have this object: preview it without --old",
    "other_namespace": 'this object is for namespace "{0}", not "{1}": use --namespace={0}',
    "TOO_LONG": "the documents have more than 1048576 bytes, the maximum: split the documents",
    "NO_LINE_ENDS": "; curl -d removes the line ends of a file: send the file with --data-binary @FILE",
    "other_types": "cannot answer as {}; possible types are {}",
    "unknown_parameter": "unknown parameter {!r}; the allowed ones are {}",
    "repeated_parameter": "parameter {} is given {} times: give it once",
    "invalid_parameter": "parameter {} is {!r}; it must be {}",
    "no_pods_in": "parameter pods is 'true', but format {} has no Pods: use format json",
    "UNNAMED_PART": "a part without a name",
    "wrong_parts": (
        "the form has {}; it must have object once and, for an update, old once: send it as curl -F does"
    ),
    "HOST_NOT_ALLOWED": "this host name is not allowed; --allowed-host NAME allows it",
    "FOREIGN_PAGE": "a page of another site must not request a preview",
    "not_a_candidate": "not a candidate: {}",
    "would_be_refused": "would be refused: {}",
    "other_fault": "it is for a fault that this job does not have: {}",
    "other_role": "it is for {}role {}; this is a {}",
    "RULE_ORDER": "applied in the order below",
    "AS_IN_TEMPLATE": "as in the job's template",
    "NO_RULE": (
        "these fields belong to no rule: the record, a launcher's init script, and what the "
        "webhook removes or restores"
    ),
    "SHADOW_ENDED": "if shadow mode ended",
    "similar_pods": "{}: {}like {}, with {}",
    "not_compared": "{} lines are not compared, as {} is the maximum: -o yaml shows them",
    "more_lines": "... {} more lines ({}), -o yaml shows them",
}
"""The texts without parameters, and the templates."""


def test_every_function_has_a_case() -> None:
    """Fails if a new function has no case in `TEXTS`."""
    assert texts.functions(messages) == set(TEXTS)


@pytest.mark.parametrize(
    ("name", "values", "options", "text"), [(name, *case) for name, cases in TEXTS.items() for case in cases]
)
def test_the_text_of_a_function(
    name: str, values: tuple[Any, ...], options: dict[str, bool], text: str
) -> None:
    assert getattr(messages, name)(*values, **OPTIONS.get(name, {}) | options) == text


def test_the_texts_about_placers_and_missing_devices() -> None:
    assert messages.STARTS == {
        "kueue": "Kueue chooses the nodes and starts the job",
        "gang": "the PodGroup that the job names places the Pods",
        "scheduler": "the scheduler places the Pods one by one",
    }
    assert messages.NO_DEVICES == {"none": "{}", "some": "some of {}", "unknown": "{} of their own"}


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS
