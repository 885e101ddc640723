"""Tests of how the init script reads the answers of workers, and of long output that bash splits slowly."""

import subprocess
from pathlib import Path

import pytest

import webhook.initscript

COMMON = Path(webhook.initscript.__file__).parent / "common.sh"
SCRIPT = """
source "$1"
mark=@7
read -r -d '' out || :
take_in "$out" 3 4 5
for i in 3 4 5; do ok $i && say "$i ok" || say "$i $(why $i)"; done
"""


def answers_of(printed: str) -> list[str]:
    """Returns the answers of workers 3 to 5. Worker 3, the leader of 4 and 5, printed the output."""
    result = subprocess.run(
        ["bash", "-c", SCRIPT, "bash", COMMON], check=True, input=printed, capture_output=True, text=True
    )
    return result.stdout.splitlines()


def test_a_leader_answers_for_itself_and_its_members() -> None:
    assert answers_of("hi\n@7 ok\n@7<4 @7 ok\n@7<5 x@7 ok\n@7<6 @7 ok\n") == ["3 ok", "4 ok", "5 ok"]


@pytest.mark.parametrize(
    "line", ["@7<4 @7<5 @7 ok", "x@7<5 @7 ok", "@7< @7 ok", "@7<6 @7 ok", "@7<4 5 @7< @7 ok"]
)
def test_a_relayed_line_is_the_answer_only_of_the_member_at_its_beginning(line: str) -> None:
    assert "5 ok" not in answers_of(line)
    assert "3 ok" not in answers_of(line)


@pytest.mark.parametrize("printed", ["x" * 99_999, "\r" * 99_999, "@7<4 " + "@7<" * 33_000])
def test_long_output_is_split_within_the_time_limit(printed: str) -> None:
    # If the script is slow, the time limit of each test fails this test.
    assert [line.split(" ")[0] for line in answers_of(f"{printed}\n@code=255 5")] == ["3", "4", "5"]


def test_only_the_end_of_a_long_answer_decides() -> None:
    assert answers_of("x" * 90_000 + "\n@7 ok\n")[0] == "3 ok"
    assert answers_of("x" * 90_000 + "\nssh: refused\n\n@code=255 5")[0] == "3 ssh: refused"
