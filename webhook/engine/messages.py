"""Defines the messages of an evaluation. A message has a text for people and a code for programs.

If the text comes from a row of the table, the code is the name of the row. `TEXTS` has all other codes.
docs/reference.md lists all codes. Reasons and parts of messages have no code: they are constants, or
functions (the ``format`` of a text).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

from common.texts import cut
from contract.keys import INJECT
from contract.placement import MOST_WORKERS

MOST_MESSAGES: Final = 40
"""Maximum number of messages in each field of an outcome, such as `warnings`."""

TEXTS: Final[Mapping[str, str]] = {
    "invalid-job": "{}",
    "value-kept": "kept your value: {}",
    "value-replaced": "replaced your value: {}",
    "value-refused": "{}; remove your value, or opt out",
    "not-added": "{}",
    "too-many-terms": "{}",
    "own-key": "{} your value: {} is {}, and only the webhook may set it: remove it",
    "record-ignored": (
        "annotation {} is ignored, because it lists fields that the webhook never adds: remove it"
    ),
    "size-kept": (
        "a job with generateName keeps the affinity terms of its first size; "
        "delete it, and create it with the new size"
    ),
    "copies-kept": (
        "containers added to {} keep values copied when the job was created: to change them, recreate the job"
    ),
    "launcher-kept": (
        "{0} was created for the old size: kubectl delete job {0}, and its operator recreates it"
    ),
    "not-mutated": (
        "the object was {} without the changes of ultraserver-webhook: {} again when the webhook runs ({})"
    ),
    "other-table": "the object was mutated by rule table {}, but this replica has {}",
    "invalid-table": "{}",
    "invalid-field": "{}",
    "more": "and {} more",
}
"""The text by code, for messages whose text does not come from a row.

If the text is `{}`, the function that finds the problem creates the whole text.
"""


class Message(str):
    """A text with a code.

    Attributes:
        code: A key of `TEXTS`, or the name of the row from which the text comes.
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Self:
        """Creates a message."""
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        """Returns the arguments with which pickle creates a copy, for another process."""
        return self.code, str(self)


def message(code: str, *values: object) -> Message:
    """Returns the message with a code of `TEXTS`, and with the values in its text."""
    return Message(code, TEXTS[code].format(*values))


def messages_of(code: str, values: Iterable[str]) -> Iterator[Message]:
    """Yields one message with the code for each value."""
    return (message(code, value) for value in values)


def limit_messages(messages: Collection[Message]) -> tuple[Message, ...]:
    """Returns distinct messages, limited in length and number. The last message counts omitted messages."""
    if not messages:
        return ()
    unique_messages = tuple(dict.fromkeys(Message(message.code, cut(message)) for message in messages))
    if len(unique_messages) <= MOST_MESSAGES:
        return unique_messages
    omitted_count = len(unique_messages) - MOST_MESSAGES + 1
    return (*unique_messages[: MOST_MESSAGES - 1], message("more", omitted_count))


# ---- What an evaluation or an update did with an object ----------------------------------------------------

no_workload: Final = "no workload of the rule table matches kind {}".format
other_row: Final = "row {} requires another {} than {}".format
no_row: Final = f"no row for its kind matches: {{}}; {INJECT} has no effect on it".format
TABLE_OFF: Final = "the whole rule table is switched off"
table_reports: Final = "the whole rule table only reports{}; {}".format
by_policy: Final = " for it, by the policy: {}".format
OPTED_IN: Final = f"opted in by {INJECT}"
OPTED_OUT: Final = f"opted out by {INJECT}"
NOT_ENFORCED: Final = "updates are admitted unchanged: the rule table is not enforced"
other_kind: Final = "the stored object is a {}".format
DELETED: Final = "it is being deleted"
admitted_unchanged: Final = "it is admitted unchanged: {}".format
no_updates: Final = "the rule table has no `updates` for a {}".format
HAS_PODS: Final = "its pods were already created from the stored templates"
NOTHING_ADDED: Final = "nothing was added to the stored object, so there is nothing to put back"
PUT_BACK: Final = "put back what the update removed"
NOTHING_REMOVED: Final = "the update removes nothing that the webhook added"
resized: Final = "its size changed while it was suspended; {}".format

# ---- Whether a job is a candidate --------------------------------------------------------------------------

not_a_job: Final = "a {0} is not a job: only rules for a {0} apply".format
OPTS_IN: Final = f"; {INJECT} opts it in"
in_template: Final = f"{{}} ({INJECT} has no effect in a template's metadata: write it in the job's)".format
no_node: Final = "no pod template at {} asks for a node's devices or selects a family's instance type".format
NO_WORKERS: Final = "the job has no workers"
no_workers: Final = f"{NO_WORKERS}: {{}} is missing or 0".format
_OWN: Final = "its own selection of nodes"
two_types: Final = f"{_OWN} asks for two instance types at once, which no node has: {{}}; take one out".format
leaves_out: Final = f"{_OWN} leaves out {{}}".format
all_labels: Final = "nodes that have all labels of family {} at once".format
created_by: Final = "a {} of {} created the job and chooses its nodes".format
_ELSEWHERE: Final = "which is for other nodes than UltraServers"
has_label: Final = f"its label {{}} is {{}}, {_ELSEWHERE}".format
tolerates: Final = f"its workers tolerate {{}}, {_ELSEWHERE}".format
asks_for: Final = "its workers ask for {}".format
_REQUEST: Final = f"request {{1}}, or opt the job in with {INJECT}"
wrong_amount: Final = asks_for(f"{{0}} than the {{1}} {{2}} that a node has: {_REQUEST}").format
selects_type: Final = "its workers select an instance type of family {}".format
claims_node: Final = "its workers claim a node by the ResourceClaimTemplate {}".format
claims_less: Final = "its workers claim less than a node by the ResourceClaimTemplate {}".format
_UNKNOWN: Final = "its workers claim devices by the ResourceClaimTemplate {}, which the table does not know"
_ADD: Final = "if it is for the family's devices, add it to the claims of {}"
claims_unknown: Final = f"{_UNKNOWN}: {_ADD}".format
_EACH: Final = "to give each Pod a node, use a resourceClaimTemplateName"
shares_claim: Final = f"its workers share the claim {{}}: {_EACH}".format
no_device: Final = "the workers request no {}".format
not_a_number: Final = "{}: {} is {}; write a number, such as 16".format

# ---- Why a rule is skipped, and parts of warnings ----------------------------------------------------------

SWITCHED_OFF: Final = "switched off"
fired_instead: Final = "{} fired instead".format
sets_placer: Final = "{} sets the placer".format
unmet_needs: Final = "needs {}: no such rule fired and set all its values".format
not_in_table: Final = "the table has no {}".format
IS_CANDIDATE: Final = {True: "it is a candidate", False: "it is not a candidate"}
no_template: Final = "the job has no {} template".format
no_worker_template: Final = f"{no_template('worker')}: there is none at {{}}".format
several_templates: Final = "the job has {} {} templates".format
no_value: Final = "the job has no value for $({})".format
no_volume: Final = "the {} has no volume {}".format
other_mount: Final = "the {} mounts another volume than {} at {}".format
mount_elsewhere: Final = "{}; mount your volume elsewhere".format
waits_forever: Final = "the job waits forever: {}".format
maps_differ: Final = "{} differs from the webhook's in {}".format
values_differ: Final = "{} is {}, not {}".format
meant_annotation: Final = "the annotation {}".format
meant_job: Final = "{} in the metadata of the job".format

# ---- Invalid jobs, and requirements that contradict the shape ----------------------------------------------

INVALID_JOB: Final = "invalid job"
invalid_count: Final = "the number of workers must be a whole number, 0 or more: {} is {}".format
invalid_opt_in: Final = 'use "true" to opt in, "false" to opt out, or remove it: {} is {}'.format
too_many_workers: Final = f"{{}} workers are more than the {MOST_WORKERS} that a job may have".format
invalid_config: Final = "the node config must be one of {}: {} is {}".format
two_configs: Final = "{} is for node config {}, and {} for {}: use one node config in both".format
_TAKES: Final = "it takes {} workers; change the number of workers, or use node config {}"
do_not_fit: Final = f"{{}} not fit node config {{}} of {{}}: {_TAKES}".format
no_shape: Final = "no shape of the rule table fits {}".format
no_blocks: Final = "{} form no equal blocks of {}".format
use_sizes: Final = "{}; use {}".format
add_shape: Final = "{}; family {} has {}: use one of these numbers, or add a shape".format
_LEAVE: Final = "its node selector, required affinity and shape leave"
no_value_left: Final = f"{_LEAVE} no value of label {{}}".format
few_values_left: Final = f"{_LEAVE} fewer than {{}} values of label {{}}".format
not_alone: Final = "because of {}, {} workers cannot have one {} to themselves".format
one_node: Final = "each of its workers needs a whole node, but because of {} they must share a node".format
