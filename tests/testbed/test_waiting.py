"""How tests wait: for what has no event, and for what the API server has."""

from __future__ import annotations

import pytest

from testbed.plane.api import Wanted
from testbed.waiting import NotYetError, until


def test_what_the_condition_says_is_handed_on() -> None:
    answers = iter([None, [], "here"])
    assert until(lambda: next(answers), "an answer", every=0) == "here"


def test_who_waited_in_vain_is_told_for_what_how_long_and_what_was_there() -> None:
    with pytest.raises(NotYetError, match=r"^waited 0 s for three workers; last seen: \[\]$"):
        until(list, "three workers", seconds=0, every=0)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("pods", Wanted(("pods",))),
        ("pod x", Wanted(("pod",), "x")),
        ("pod/x --show-managed-fields", Wanted(("pod",), "x", managed_fields=True)),
        ("pods -l a=b", Wanted(("pods",), query=(("labelSelector", "a=b"),))),
        (
            "pods,jobs -A --field-selector=spec.nodeName=",
            Wanted(("pods", "jobs"), query=(("fieldSelector", "spec.nodeName="),), everywhere=True),
        ),
    ],
)
def test_the_words_of_kubectl_get_are_understood(words: str, wanted: Wanted) -> None:
    assert Wanted.of(*words.split()) == wanted


def test_a_word_of_kubectl_get_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="--chunk-size=5 is not known here"):
        Wanted.of("pods", "--chunk-size=5")
