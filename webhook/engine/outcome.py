"""The input and the result of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from webhook.engine.messages import Message
from webhook.objects.patch import Operation
from webhook.objects.tree import Json, Path


class Verdict(StrEnum):
    """Allowed, allowed with warnings, or denied."""

    ALLOWED = "allowed"
    WARNED = "allowed with warnings"
    DENIED = "denied"


class State(StrEnum):
    """The outcome of a rule."""

    FIRED = "fired"
    SKIPPED = "skipped"
    SHADOWED = "shadowed"


class Kind(StrEnum):
    """The outcome for an object in a word."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    NO_CANDIDATE = "no-candidate"
    OPTED_OUT = "opted-out"
    NO_WORKLOAD = "no-workload"


class JobError(ValueError):
    """An invalid job; the message names the field, the value and what to do."""


@dataclass(frozen=True)
class Request:
    """The input of an evaluation.

    Attributes:
        object: The object as received. Never changed.
        namespace: The namespace of its creation.
        uid: The uid of the review; in place of the name of a job that has none yet.
        username: The user who creates it.
        now: The time as Unix time, because policies end.
        explain: Whether the outcome should name who set each field, which no review needs.
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
        path: The pointer to it in the object afterwards; if it was removed, in the received object.
        before: The received value; None if there was none.
        after: The new value; None if it was removed.
        rule: The rule that set it. None if no rule set it: the record, a launcher's script, and the removal
            of earlier additions.
    """

    path: str
    before: Json
    after: Json
    rule: str | None


class RuleOutcome(NamedTuple):
    """The outcome of one rule.

    Attributes:
        why: The reason of a rule that fired, with what it kept or replaced of the user's; or the failed
            condition of a skipped one.
    """

    name: str
    state: State
    why: str


class Summary(NamedTuple):
    """An outcome in short, for metrics.

    Attributes:
        verdict: Empty if there is none.
        rules: Names of the rules that fired, or would.
        refusing: Names of the rules and shapes that refuse the object, or would.
    """

    verdict: str = ""
    rules: tuple[str, ...] = ()
    refusing: tuple[str, ...] = ()


NOTHING: Final = Summary()


class Fault(NamedTuple):
    """Where something is wrong with a job, the present value, and the probable or a possible one."""

    field: str
    value: str
    meant: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of evaluating a table against an object.

    Attributes:
        revision: The table's revision.
        reason: Why the table does or does not apply to the object, in one line.
        after: The object after the operations; the received one if there are none.
        operations: RFC 6902 operations on the received object, in order.
        warnings: Lines for the user who applied it.
        denials: Why the job is refused; empty if it is not.
        facts: Facts about the job (workload, shape, node config, workers, id, devices, placer).
        refusing: Names of the rules and shapes that refuse it.
        unplaced: Why no node can take its workers; empty if nodes can.
        would: The outcome if what is in shadow were enforced; None if nothing is in shadow.
        untouched: The outcome's kind if nothing is done; ``UNCHANGED`` for a candidate.
        made: Whether an update is left alone because the Pods were created from the stored templates.
        setters: If the request asks to explain, the rule that set the value at each path, for `changes`.
        faults: What is wrong with the job, by kind of fault.
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
    would: "Outcome | None" = None
    untouched: Kind = Kind.UNCHANGED
    made: bool = False
    setters: Mapping[Path, str] | None = None
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """The outcome in a word: a refusal, a change, or why nothing is done."""
        if self.denials:
            return Kind.REFUSED
        if self.operations:
            return Kind.CHANGED
        return self.untouched

    @property
    def verdict(self) -> Verdict:
        """Denied if there is a denial, warned if there is a warning."""
        if self.denials:
            return Verdict.DENIED
        return Verdict.WARNED if self.warnings else Verdict.ALLOWED

    def fired(self, state: State = State.FIRED) -> tuple[str, ...]:
        """Returns the rules that fired, or are in another state, in the table's order."""
        return tuple(rule.name for rule in self.rules if rule.state is state)

    @property
    def summary(self) -> Summary:
        """The outcome in short."""
        return Summary(str(self.verdict), self.fired(), self.refusing)

    @property
    def shadow(self) -> Summary | None:
        """What was not done because of shadow mode; None if nothing, or if the object is refused anyway."""
        rules, would = self.fired(State.SHADOWED), self.would
        if not would or self.denials or not (rules or would.denials):
            return None
        return Summary(str(would.verdict), rules, would.refusing)
