"""Defines modes, and the policies that set modes for some objects.

The table has a mode, and each rule has a mode. The weaker of the two applies to the rule: shadow is weaker
than enforce, and off is the weakest. A policy replaces modes for some objects (docs/rule-table.md, Policies).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BeforeValidator, Strict
from pydantic import Field as Limits

from webhook.objects.templates import is_glob, matches
from webhook.objects.tree import Json, get_map, text_of
from webhook.rows import messages
from webhook.rows.written import Maybe, Row, SomePatterns, one_or_more, or_bare_off, read_as


class Mode(StrEnum):
    """Whether a rule is applied, only reported, or skipped."""

    ENFORCE = "enforce"
    SHADOW = "shadow"
    OFF = "off"


WrittenMode = Annotated[Mode, or_bare_off(Literal["enforce", "shadow", "off", False])]
"""A mode as it is written in the table."""


def _check_text(value: Any) -> Any:  # noqa: ANN401 - any value in a table
    """Returns a text unchanged. Refuses other values: pydantic would read a number as a Unix time."""
    if not isinstance(value, str):
        raise ValueError(messages.not_a_time(value))  # noqa: TRY004 - pydantic reports a ValueError
    return value


def _to_unix_time(moment: Any) -> float:  # noqa: ANN401 - a datetime, but rows must not import it
    if moment.year < FIRST_YEAR:
        raise ValueError(messages.too_early(moment.isoformat(), FIRST_YEAR))
    return float(moment.timestamp())


FIRST_YEAR: Final = 2000
"""The first year in which a policy may end."""

_NAMESPACE: Final = r"^!?[a-z0-9*?\[\]!-]+$"
"""Matches a glob for names of namespaces (DNS labels, RFC 1123), or ``!`` and a glob."""


@dataclass(frozen=True, kw_only=True)
class Guarantee(Row):
    """Whole units that whole-job admission keeps free for the jobs of a team.

    Attributes:
        namespaces: The team's namespaces; globs. E.g. vision-*
        unit: The node label of the units. E.g. neuron.amazonaws.com/ultraserver-server-id-4
        count: The number of guaranteed units; 0 for a row that only permits preemption. E.g. 2
        preempts: ``lower``: jobs of the team may preempt jobs of lower priority that whole-job admission
            placed. Default: no preemption. E.g. lower
    """

    namespaces: Annotated[tuple[str, ...], one_or_more(Annotated[str, Limits(pattern=r"^[a-z0-9*?-]+$")])]
    unit: Annotated[str, Limits(min_length=1)]
    count: Annotated[int, Strict(), Limits(ge=0, le=100_000)]
    preempts: Maybe[Literal["lower"]] = None


@dataclass(frozen=True, kw_only=True)
class Policy(Row):
    """Modes for some namespaces or labels. The first policy that matches an object applies.

    Attributes:
        namespaces: Names of namespaces; globs. Default: all. E.g. research-*
        labels: Values of the object's labels; globs. A label that a rule sets is not valid here. Default:
            any. E.g. {team: vision}
        mode: A mode in place of the mode of the table. E.g. shadow
        rules: Modes in place of the modes of the rules, by name or glob. An exact name takes precedence over
            globs, and a longer glob over a shorter glob. E.g. {"apart-*": shadow}
        reason: Why the policy exists. The log, audit annotations and previews show it. E.g. A first test.
        until: The time at which the policy ends, with a time zone. Default: no end. E.g.
            2026-12-31T18:00:00Z
    """

    reason: Annotated[str, Limits(pattern=r"\S")]
    namespaces: Annotated[tuple[str, ...], one_or_more(Annotated[str, Limits(pattern=_NAMESPACE)])] = ()
    labels: SomePatterns = field(default_factory=dict)
    mode: Annotated[Mode | None, read_as(WrittenMode)] = None
    rules: Annotated[Mapping[str, WrittenMode], Limits(min_length=1)] = field(default_factory=dict)
    until: Annotated[
        float | None,
        read_as(
            Annotated[AwareDatetime, BeforeValidator(_check_text, json_schema_input_type=AwareDatetime)],
            _to_unix_time,
        ),
    ] = None

    def has_ended(self, now: float) -> bool:
        """Returns whether the policy has ended, and so applies to no object."""
        return self.until is not None and self.until <= now

    def matches_labels(self, obj: Json) -> bool:
        """Returns whether an object's labels match the policy. The namespace is not checked."""
        labels = get_map(obj, ("metadata", "labels")) if self.labels else {}
        return all(matches(text_of(labels.get(key, "")), allowed) for key, allowed in self.labels.items())

    def mode_of(self, rule: str) -> Mode | None:
        """Returns the mode that the policy sets for a rule; None if the policy sets no mode for the rule."""
        patterns = [pattern for pattern in self.rules if matches(rule, (pattern,))]
        return self.rules.get(rule) or (self.rules[max(patterns, key=len)] if patterns else None)


@dataclass(frozen=True)
class ModeSet:
    """The modes for an object.

    Attributes:
        table: The mode of the table as a whole.
        rules: The mode of each rule, by its name.
    """

    table: Mode
    rules: Mapping[str, Mode]

    def replaced_by(self, policy: Policy) -> "ModeSet":
        """Returns these modes after a policy has replaced some of them."""
        rules = {name: policy.mode_of(name) or mode for name, mode in self.rules.items()}
        return ModeSet(policy.mode or self.table, rules)

    @cached_property
    def has_shadow(self) -> bool:
        """Whether the table or a rule is in shadow."""
        return Mode.SHADOW in (self.table, *self.rules.values())

    @cached_property
    def unapplied_rules(self) -> frozenset[str] | None:
        """The rules that are off or in shadow; None if the whole table is off or in shadow."""
        return self._rules_in(Mode.OFF, Mode.SHADOW)

    @cached_property
    def off_rules(self) -> frozenset[str] | None:
        """The rules that are off; None if the whole table is off."""
        return self._rules_in(Mode.OFF)

    def _rules_in(self, *modes: Mode) -> frozenset[str] | None:
        names = (name for name, mode in self.rules.items() if mode in modes)
        return None if self.table in modes else frozenset(names)


@dataclass(frozen=True)
class Ruling:
    """A policy of a table, with the modes of the table.

    Attributes:
        table_modes: The modes without the policy.
    """

    policy: Policy
    table_modes: ModeSet

    @cached_property
    def modes(self) -> ModeSet:
        """The modes under the policy."""
        return self.table_modes.replaced_by(self.policy)


class PolicyIndex:
    """Finds the policy for an object in a namespace. An index by label skips policies for other labels."""

    def __init__(self, rulings: Sequence[Ruling], namespace: str) -> None:
        """Stores the policies for a namespace, in the order of the table."""
        pairs = ((ruling, ruling.policy.namespaces) for ruling in rulings)
        self._rulings = [ruling for ruling, globs in pairs if not globs or matches(namespace, globs)]
        self._by_label: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._unindexed: list[int] = []
        for index, ruling in enumerate(self._rulings):
            key, values = next(iter(ruling.policy.labels.items()), ("", ("*",)))
            if any(value == "" or value[0] == "!" or is_glob(value) for value in values):
                self._unindexed.append(index)
            else:
                for value in values:
                    self._by_label[key, value].append(index)

    def find(self, obj: Json, now: float) -> Ruling | None:
        """Returns the first policy for an object at a Unix time, as a ruling; None if there is none."""
        indices = list(self._unindexed)
        if self._by_label:
            for key, value in get_map(obj, ("metadata", "labels")).items():
                indices += self._by_label.get((key, text_of(value)), ())
        for ruling in (self._rulings[index] for index in sorted(indices)):
            if not ruling.policy.has_ended(now) and ruling.policy.matches_labels(obj):
                return ruling
        return None
