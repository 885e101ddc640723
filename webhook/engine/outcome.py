"""Defines the input and the result of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from webhook.engine.messages import Message
from webhook.objects.patch import Operation
from webhook.objects.tree import Json, Path


class Response(StrEnum):
    """The answer about an object: allowed, allowed with warnings, or denied."""

    ALLOWED = "allowed"
    WARNED = "allowed with warnings"
    DENIED = "denied"


class RuleState(StrEnum):
    """What an evaluation did with a rule."""

    FIRED = "fired"
    SKIPPED = "skipped"
    SHADOWED = "shadowed"


class OutcomeKind(StrEnum):
    """What an evaluation did with an object."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    NO_CANDIDATE = "no-candidate"
    OPTED_OUT = "opted-out"
    NO_WORKLOAD = "no-workload"


class JobError(ValueError):
    """A job is invalid. The message names the field, the value and what to do."""


@dataclass(frozen=True)
class Request:
    """The input of an evaluation.

    Attributes:
        object: The object as received. It is never changed.
        namespace: The namespace of the object.
        uid: The uid of the review. It identifies a job that has no name yet.
        username: The user who sends the object.
        now: The Unix time, which decides whether a policy has ended. Default: after the end of every policy.
        explain: Whether the outcome names the rule that set each field. Reviews do not need this.
    """

    object: Json
    namespace: str = "default"
    uid: str = ""
    username: str = ""
    now: float = inf
    explain: bool = False


class Change(NamedTuple):
    """A field that was changed.

    Attributes:
        path: The JSON pointer to the field in the new object; for a removed field, in the received object.
        before: The received value; None if the field was added.
        after: The new value; None if the field was removed.
        rule: The name of the rule that set the field. None for the record, a launcher's script, the removal
            of earlier additions, and values that an update puts back, because no rule sets them.
    """

    path: str
    before: Json
    after: Json
    rule: str | None


class RuleOutcome(NamedTuple):
    """The outcome of one rule.

    Attributes:
        why: For a rule that fired or would fire without shadow mode, its reason and the warnings about values
            that it kept, replaced or could not add. For a skipped rule, why it was skipped.
    """

    name: str
    state: RuleState
    why: str


class Summary(NamedTuple):
    """The part of an outcome that metrics need.

    Attributes:
        response: The response; empty without an outcome.
        rules: The names of the rules that fired.
        refusing: The names of the rules and shapes that refuse the object.
    """

    response: str = ""
    rules: tuple[str, ...] = ()
    refusing: tuple[str, ...] = ()


NO_SUMMARY: Final = Summary()


class Fault(NamedTuple):
    """A wrong field of a job, its value, and in ``meant`` the likely or possible value; empty if unknown."""

    field: str
    value: str
    meant: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of evaluating a table against an object.

    Attributes:
        revision: The table's revision.
        reason: Why the table does or does not apply to the object, in one line.
        after: The object after the operations; the received object if there are none.
        operations: The RFC 6902 operations on the received object, in order.
        warnings: Messages for the user who applied the object.
        denials: The reasons for which the job is refused; empty if it is not refused.
        facts: The workload, and the policy if there is one. For a job with a shape, also its devices, placer
            and `evaluate.FACTS`.
        refusing: The names of the rules and shapes that refuse the job.
        unplaced: Reasons why no node can take the job's workers; empty if no rule finds such a reason.
        enforced: The outcome without shadow mode; None if neither the table nor a rule is in shadow.
        kind_if_unchanged: The kind if there are no operations and no denials; ``UNCHANGED`` for a candidate.
        has_pods: Whether an update changes nothing because the Pods already exist.
        rules_by_path: The name of the last rule that set each value, as in `Progress`; None if not requested.
        faults: The faults of the job, by kind.
    """

    revision: str
    reason: str
    after: Json
    operations: tuple[Operation, ...] = ()
    rules: tuple[RuleOutcome, ...] = ()
    warnings: tuple[Message, ...] = ()
    denials: tuple[Message, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    refusing: tuple[str, ...] = ()
    unplaced: tuple[Message, ...] = ()
    enforced: "Outcome | None" = None
    kind_if_unchanged: OutcomeKind = OutcomeKind.UNCHANGED
    has_pods: bool = False
    rules_by_path: Mapping[Path, str] | None = None
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)

    @property
    def kind(self) -> OutcomeKind:
        """The kind of the outcome: a refusal, a change, or why nothing is changed."""
        if self.denials:
            return OutcomeKind.REFUSED
        if self.operations:
            return OutcomeKind.CHANGED
        return self.kind_if_unchanged

    @property
    def response(self) -> Response:
        """The response to the review: denied if there is a denial, or else warned if there is a warning."""
        if self.denials:
            return Response.DENIED
        return Response.WARNED if self.warnings else Response.ALLOWED

    def fired(self, state: RuleState = RuleState.FIRED) -> tuple[str, ...]:
        """Returns the names of the rules in a state, in the table's order."""
        return tuple(rule.name for rule in self.rules if rule.state is state)

    @property
    def summary(self) -> Summary:
        """The summary of the outcome."""
        return Summary(str(self.response), self.fired(), self.refusing)

    @property
    def shadow(self) -> Summary | None:
        """The summary of the rules and denials that shadow mode prevented.

        None if shadow mode prevented nothing, or if the object is refused.
        """
        rules, enforced = self.fired(RuleState.SHADOWED), self.enforced
        if not enforced or self.denials or not (rules or enforced.denials):
            return None
        return Summary(str(enforced.response), rules, enforced.refusing)
