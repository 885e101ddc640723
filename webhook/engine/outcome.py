"""What goes into an evaluation and what comes out of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from common.texts import cut
from webhook.objects.patch import Operation
from webhook.objects.tree import Json, Path

MOST_MESSAGES: Final = 40
"""Warnings, or denials, of one evaluation."""


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
    """The outcome of an object, in a word."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    NO_CANDIDATE = "no-candidate"
    OPTED_OUT = "opted-out"
    NO_WORKLOAD = "no-workload"


class JobError(ValueError):
    """An invalid job; the message names the field, the value and the fix."""


@dataclass(frozen=True)
class Request:
    """What an evaluation may know.

    Attributes:
        object: the object as received. Never changed.
        namespace: where it is being created.
        uid: of the review; it stands for the name of a job that has none yet.
        username: who creates it.
        now: when, as Unix time; policies end.
        explain: whether the outcome is to say who set each field, which no review needs.
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
        path: pointer to it in the object afterwards; to what was removed, in the object received.
        before: what was received there; None where there was nothing.
        after: what is there now; None where it was removed.
        rule: that set it. None for what no rule sets: the record of what was added, a launcher's script, and
            what is removed because an earlier admission had added it.
    """

    path: str
    before: Json
    after: Json
    rule: str | None


class RuleOutcome(NamedTuple):
    """The outcome of one rule.

    Attributes:
        why: for a fired rule its reason; for a skipped one the condition that failed.
    """

    name: str
    state: State
    why: str


class Summary(NamedTuple):
    """An outcome in short, as metrics count it.

    Attributes:
        verdict: empty where there is none.
        rules: names of those that fired, or that would.
        refusing: names of the rules and shapes that refuse the object, or that would.
    """

    verdict: str = ""
    rules: tuple[str, ...] = ()
    refusing: tuple[str, ...] = ()


NOTHING: Final = Summary()


class Fault(NamedTuple):
    """Where something is wrong with a job, what is there, and what was probably meant, or can be."""

    field: str
    value: str
    meant: str = ""


@dataclass(frozen=True)
class Outcome:
    """What evaluating a table against an object gave.

    Attributes:
        revision: of the table.
        reason: why the object was or was not a matter for the table, in one line.
        after: the object as the operations make it; the received one where there are none.
        operations: RFC 6902, against the received object, in order.
        warnings: one a line, for the person who applied it.
        denials: why the job is refused; none where it is not.
        facts: what the webhook found out about the job (workload, shape, node config, workers, id,
            devices, placer).
        refusing: names of the rules and shapes that refuse it.
        unplaced: why no node takes its workers; none where nodes can.
        would: what it would be if what is in shadow were enforced; None where nothing is in shadow.
        untouched: its kind where nothing is done to it; ``UNCHANGED`` says that it is a candidate.
        setters: where the request asks to explain, the rule that set what is at a path, for `changes`.
        faults: what is wrong with the job, by its sort.
    """

    revision: str
    reason: str
    after: Json
    operations: tuple[Operation, ...] = ()
    rules: tuple[RuleOutcome, ...] = ()
    warnings: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    refusing: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    would: "Outcome | None" = None
    untouched: Kind = Kind.UNCHANGED
    setters: Mapping[Path, str] | None = None
    faults: Mapping[str, Fault] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """The outcome in a word: what was done to the object goes before what the object is."""
        if self.denials:
            return Kind.REFUSED
        if self.operations:
            return Kind.CHANGED
        return self.untouched

    @property
    def verdict(self) -> Verdict:
        """Denied if anything denies, warned if anything warns."""
        if self.denials:
            return Verdict.DENIED
        return Verdict.WARNED if self.warnings else Verdict.ALLOWED

    def fired(self, state: State = State.FIRED) -> tuple[str, ...]:
        """Names of the rules that fired, or are in another state, in the order of the table."""
        return tuple(rule.name for rule in self.rules if rule.state is state)

    @property
    def summary(self) -> Summary:
        """What was done."""
        return Summary(str(self.verdict), self.fired(), self.refusing)

    @property
    def shadow(self) -> Summary | None:
        """What was not done because it is in shadow; None where that is nothing, or it is refused anyway."""
        rules, would = self.fired(State.SHADOWED), self.would
        if not would or self.denials or not (rules or would.denials):
            return None
        return Summary(str(would.verdict), rules, would.refusing)


def bounded(messages: Iterable[str]) -> tuple[str, ...]:
    """Messages, each once and of bounded length and number, the rest counted in the last one."""
    found = tuple(dict.fromkeys(map(cut, messages)))
    if len(found) <= MOST_MESSAGES:
        return found
    return (*found[: MOST_MESSAGES - 1], f"and {len(found) - MOST_MESSAGES + 1} more")
