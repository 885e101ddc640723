"""Texts of users, as they are shown on terminals, in logs and in Events."""

import pytest

from common.texts import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größer, 統一", "plain, größer, 統一"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("title\x9b2Jgone", r"title\x9b2Jgone"),
        ("one\r\ntwo\ttabs", r"one\r\ntwo\ttabs"),
        ("left\u202eright", r"left\u202eright"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_what_would_command_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert shown.isprintable()


@pytest.mark.parametrize("sign", ["a", "\x1b", "\U000e0001"])
@pytest.mark.parametrize("count", [9, 10, 11, 100_000])
def test_a_text_is_never_longer_than_asked_for(sign: str, count: int) -> None:
    shown = printable(sign * count, 10)
    assert len(shown) <= 10
    assert shown.endswith("…") is (shown != printable(sign * min(count, 11)))
