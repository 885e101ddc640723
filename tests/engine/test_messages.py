"""The codes of messages."""

import ast
import pickle
from collections.abc import Iterator

import pytest

from testbed.mpijob import mpijob
from tests.docs.blocks import REPOSITORY
from tests.docs.tables import meanings, row_messages
from tests.helpers import requested
from webhook.engine import evaluate
from webhook.engine.messages import TEXTS, Message, limit_messages, message
from webhook.objects.tree import put
from webhook.rules.load import load_default


def written() -> Iterator[str]:
    """Yields each code that the product writes, as a text at the place where a message is created."""
    for path in sorted((REPOSITORY / "webhook").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Name("message" | "messages_of"), [ast.Constant(code), *_]):
                    yield code


def test_the_reference_has_every_code_and_no_other() -> None:
    """Protects programs that look a code up."""
    of_conflicts = {"value-kept", "value-replaced", "value-refused"}
    assert set(TEXTS) == {*written()} | of_conflicts
    assert set(meanings()["engine"]) == set(TEXTS)
    assert set(meanings()["rows"]) == {name for name, *_ in row_messages(load_default())}


def test_a_message_of_a_row_has_the_rows_name_and_others_a_code() -> None:
    """Protects programs from texts, which a release may change."""
    table, config = load_default(), {"ultraserver-webhook.io/node-config": "3"}
    refused = evaluate(table, requested(put(mpijob(4), ("metadata", "annotations"), config)))
    assert [message.code for message in refused.denials] == ["invalid-job"]
    late = evaluate(table, requested(put(mpijob(4), ("spec", "runPolicy"), {"activeDeadlineSeconds": 5})))
    assert [message.code for message in late.warnings] == ["deadline-while-waiting"]


def test_a_message_keeps_its_code_where_it_is_cut_or_copied() -> None:
    """Protects the answers of long reviews, which another process sends."""
    (one,) = limit_messages([Message("own-key", "x" * 5000), Message("own-key", "x" * 5000)])
    assert (one.code, pickle.loads(pickle.dumps(one)).code) == ("own-key", "own-key")  # noqa: S301 - our own


WITHOUT = "without the changes of ultraserver-webhook: apply it again when the webhook runs (why)"


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
        ("not-mutated", ["sent", "apply it", "why"], f"the object was sent {WITHOUT}"),
        ("other-table", ["a", "b"], "the object was mutated by rule table a, but this replica has b"),
        ("more", [3], "and 3 more"),
        ("invalid-job", ["{braces}"], "{braces}"),
    ],
)
def test_the_text_of_a_code(code: str, values: list[object], text: str) -> None:
    assert message(code, *values) == text
    assert message(code, *values).code == code
