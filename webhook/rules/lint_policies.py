"""Problems of policies and guarantees, and notes: policies that ended, and rules that can never fire."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain
from math import inf

from common.texts import did_you_mean
from common.times import stamp
from webhook.objects.templates import is_glob
from webhook.rows.policies import Mode, Modes, Policy
from webhook.rows.table import Table
from webhook.rules.draft import Draft
from webhook.rules.problems import Found, Problem


def policy_problems(table: Table) -> Found:
    """Yields every problem of a table's policies."""
    names = [rule.name for rule in table.rules]
    for index, policy in enumerate(table.policies):
        at = ("policies", index)
        if policy.mode is None and not policy.rules:
            yield at, "does nothing: give it mode or rules"
        for pattern in policy.rules:
            if not any(fnmatchcase(name, pattern) for name in names):
                yield (*at, "rules", pattern), f"no rule is called {pattern!r}{did_you_mean(pattern, names)}"
        for key in policy.labels:
            if setter := next((rule.name for rule in table.rules if key in rule.labels), None):
                why = f"rule {setter} sets this label: ask for one that authors set"
                yield (*at, "labels", key), why
        hiding = next((number for number in range(index) if _hides(table.policies[number], policy)), None)
        if hiding is not None:
            why = f"an earlier policy for {_whom(table.policies[hiding])} applies to all of these"
            yield at, f"unreachable: {why} (/policies/{hiding}); put this one first"


def guarantee_problems(table: Table) -> Found:
    """Yields every problem of a table's guarantees."""
    by_family = [[unit.label for unit in family.units if unit.label] for family in table.on]
    labels = [*chain(*by_family)]
    for index, row in enumerate(table.guarantees):
        at = ("guarantees", index)
        if not (row.count or row.preempts):
            yield at, "does nothing: give it a count or preempts"
        if row.unit not in labels:
            why = f"no family that is on has units of {row.unit!r}{did_you_mean(row.unit, labels)}"
            yield (*at, "unit"), why
        inside = next((labels for labels in by_family if row.unit in labels), ())
        others = [first.unit for first in table.guarantees if first.unit in inside and first.unit != row.unit]
        if others:
            why = f"guarantees of one family must have one label, and another one has {others[0]!r}"
            yield (*at, "unit"), why
        before = [first for first in table.guarantees[:index] if first.unit == row.unit]
        globs = [glob for first in before for glob in first.namespaces]
        if all(any(_covers(glob, own) for glob in globs) for own in row.namespaces):
            yield at, "unreachable: earlier guarantees apply to all of its namespaces"


def notes(draft: Draft, table: Table, now: float) -> Iterator[Problem]:
    """Yields notes on policies that ended, and on rules that a mode makes idle."""
    always = _idle(table, table.modes)
    pairs = [(("rules", at), text) for at, text in always]
    for index, ruling in enumerate(table.rulings):
        path, policy = ("policies", index), ruling.policy
        if policy.until is not None and policy.ended(now):
            pairs.append((path, f"ended at {stamp(policy.until)} and has no effect: remove it"))
            continue
        if policy.labels:
            pairs.append(
                (path, "matches labels: a Pod is matched by its own, so pod templates need them, too")
            )
        pairs += [(path, text) for at, text in _idle(table, ruling.modes) if (at, text) not in always]
    return (draft.problem(path, text) for path, text in pairs)


def _idle(table: Table, under: Modes) -> list[tuple[int, str]]:
    """Returns rules that cannot fire because all that they need is in shadow or off, by position."""
    modes, idle = dict(under.rules), list[tuple[int, str]]()
    for index, rule in enumerate(table.rules if under.table is Mode.ENFORCE else ()):
        if (
            rule.needs
            and modes[rule.name] is Mode.ENFORCE
            and all(modes[name] is not Mode.ENFORCE for name in rule.needs)
        ):
            reasons = ", and ".join(f"{name}, which is {_in_words(modes[name])}" for name in rule.needs)
            written = [table.origin(name, "mode") for name in rule.needs]
            if not all(place and place.file.startswith("packaged ") for place in written):
                idle.append((index, f"rule {rule.name} does nothing: it needs {reasons}"))
            modes[rule.name] = Mode.OFF
    return idle


def _in_words(mode: Mode) -> str:
    return "in shadow" if mode is Mode.SHADOW else "off"


def _hides(first: Policy, later: Policy) -> bool:
    """Returns whether a policy applies to everything that a later one does, and lasts as long."""
    wide, narrow = first.namespaces, later.namespaces
    if any(text.startswith("!") for text in (*wide, *narrow)):
        covered = set(wide) in (set(), set(narrow))
    else:
        covered = not wide or (
            bool(narrow) and all(any(_covers(glob, name) for glob in wide) for name in narrow)
        )
    return (
        covered
        and (first.until or inf) >= (later.until or inf)
        and all(first.labels[key] == later.labels.get(key) for key in first.labels)
    )


def _covers(wide: str, narrow: str) -> bool:
    """Returns whether a glob matches all that another one does, as far as that is easy to see."""
    if wide in {narrow, "*"}:
        return True
    if not is_glob(narrow):
        return fnmatchcase(narrow, wide)
    beginning = wide.removesuffix("*")
    return wide != beginning and not is_glob(beginning) and narrow.startswith(beginning)


def _whom(policy: Policy) -> str:
    labels = [f"{key}={'|'.join(values)}" for key, values in policy.labels.items()]
    return " and ".join(["|".join(policy.namespaces) or "every namespace", *labels])
