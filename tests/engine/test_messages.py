"""Tests of the codes and the texts of messages."""

import ast
import pickle
from collections.abc import Iterator

import pytest

from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from tests.docs.tables import meanings, row_messages
from tests.helpers import request_for
from webhook.engine import evaluate
from webhook.engine.messages import TEXTS, Message, limit_messages, message
from webhook.objects.tree import put
from webhook.rules.load import load_default


def codes_in_source() -> Iterator[str]:
    """Yields the code of each call in the webhook that creates a message."""
    for path in sorted((REPOSITORY / "webhook").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Name("message" | "messages_of"), [ast.Constant(code), *_]):
                    yield code


def test_the_reference_has_every_code_and_no_other() -> None:
    """Protects users who look up a code in the reference."""
    conflict_codes = {"value-kept", "value-replaced", "value-refused"}
    assert set(TEXTS) == {*codes_in_source()} | conflict_codes
    assert set(meanings()["engine"]) == set(TEXTS)
    assert set(meanings()["rows"]) == {name for name, *_ in row_messages(load_default())}


def test_the_code_of_a_message_is_a_known_code_or_the_name_of_the_rule() -> None:
    """Protects programs that compare codes, because a release may change texts."""
    table, config = load_default(), {"ultraserver-webhook.io/node-config": "3"}
    outcome = evaluate(table, request_for(put(mpijob(4), ("metadata", "annotations"), config)))
    assert [message.code for message in outcome.denials] == ["invalid-job"]
    outcome = evaluate(
        table, request_for(put(mpijob(4), ("spec", "runPolicy"), {"activeDeadlineSeconds": 5}))
    )
    assert [message.code for message in outcome.warnings] == ["deadline-while-waiting"]


def test_a_message_keeps_its_code_if_it_is_shortened_or_copied() -> None:
    """Protects answers about large reviews, whose messages come from another process."""
    (short_message,) = limit_messages([Message("own-key", "x" * 5000), Message("own-key", "x" * 5000)])
    copied_message = pickle.loads(pickle.dumps(short_message))  # noqa: S301 - pickled in this line
    assert (short_message.code, copied_message.code) == ("own-key", "own-key")


WITHOUT_CHANGES = "without the changes of ultraserver-webhook: apply it again when the webhook runs (why)"


@pytest.mark.parametrize(
    ("code", "values", "text"),
    [
        ("value-kept", ["a is 1, not 2"], "kept your value: a is 1, not 2"),
        ("value-replaced", ["a is 1, not 2"], "replaced your value: a is 1, not 2"),
        ("value-refused", ["a is 1, not 2"], "a is 1, not 2; remove your value, or opt out"),
        (
            "own-key",
            ["removed", "a", "1"],
            "removed your value: a is 1, and only the webhook may set it: remove it",
        ),
        ("not-mutated", ["sent", "apply it", "why"], f"the object was sent {WITHOUT_CHANGES}"),
        ("other-table", ["a", "b"], "the object was mutated by rule table a, but this replica has b"),
        ("more", [3], "and 3 more"),
        ("invalid-job", ["{braces}"], "{braces}"),
    ],
)
def test_the_text_of_a_code(code: str, values: list[object], text: str) -> None:
    assert message(code, *values) == text
    assert message(code, *values).code == code
