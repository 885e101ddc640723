"""The conditions of ``match``, as classes."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints

from webhook.rows.conditions import Condition, OfJob, OfObject, OfTemplate
from webhook.rows.table import Match
from webhook.rules.schema import bundled


def conditions(of: type[Any] = Condition) -> set[type[Any]]:
    """Returns the classes that check something: a base has no type of what is written."""
    below = {each for one in of.__subclasses__() for each in {one, *conditions(one)}}
    return {each for each in below if each.written}


def test_every_condition_is_a_key_of_match_and_described_in_the_schema() -> None:
    """Protects from a class without a field, which no table can use, and from a key without words."""
    hints = get_type_hints(Match)
    keys = {of: each.name for each in fields(Match) for of in get_args(hints[each.name])}
    assert conditions() <= keys.keys()
    described = bundled()["$defs"]["Match"]["properties"]
    assert all("description" in described[key] for key in described)


def test_every_condition_is_looked_at_in_one_scope() -> None:
    """Protects from a class that derives from the base alone, and so from a condition that no one checks."""
    scopes = [conditions(of) for of in (OfJob, OfTemplate, OfObject)]
    assert set.union(*scopes) == conditions()
    assert sum(map(len, scopes)) == len(conditions())
