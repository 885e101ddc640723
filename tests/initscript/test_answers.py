"""Answers of workers: who can answer for whom, and output that bash would take seconds to cut."""

import subprocess
from pathlib import Path

import pytest

import webhook.initscript

COMMON = Path(webhook.initscript.__file__).parent / "common.sh"
TAKE = """
source "$1"
mark=@7
read -r -d '' out || :
take_in "$out" 3 4 5
for i in 3 4 5; do ok $i && say "$i ok" || say "$i $(why $i)"; done
"""


def taken(printed: str) -> list[str]:
    """Returns how 3, a leader, and its members 4 and 5 answered, if the session with 3 printed this."""
    done = subprocess.run(
        ["bash", "-c", TAKE, "bash", COMMON], check=True, input=printed, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def test_a_leader_answers_for_itself_and_its_members() -> None:
    assert taken("hi\n@7 ok\n@7<4 @7 ok\n@7<5 x@7 ok\n@7<6 @7 ok\n") == ["3 ok", "4 ok", "5 ok"]


@pytest.mark.parametrize(
    "line", ["@7<4 @7<5 @7 ok", "x@7<5 @7 ok", "@7< @7 ok", "@7<6 @7 ok", "@7<4 5 @7< @7 ok"]
)
def test_a_line_without_the_leaders_mark_is_no_answer(line: str) -> None:
    assert "5 ok" not in taken(line)
    assert "3 ok" not in taken(line)


@pytest.mark.parametrize("printed", ["x" * 99_999, "\r" * 99_999, "@7<4 " + "@7<" * 33_000])
def test_output_of_any_form_is_cut_soon(printed: str) -> None:
    # The limit of a test fails it otherwise.
    assert [line.split(" ")[0] for line in taken(f"{printed}\n@code=255 5")] == ["3", "4", "5"]


def test_the_end_of_a_long_answer_counts() -> None:
    assert taken("x" * 90_000 + "\n@7 ok\n")[0] == "3 ok"
    assert taken("x" * 90_000 + "\nssh: refused\n\n@code=255 5")[0] == "3 ssh: refused"
