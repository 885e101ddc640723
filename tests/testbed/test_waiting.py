"""Tests of waits, and of the words of ``kubectl get`` that tests wait with."""

import socket
from pathlib import Path

import pytest

from kube.api import ApiError
from testbed.plane.api import Client, Selection
from testbed.plane.credentials import issue
from testbed.waiting import NotYetError, limit_waits, until


def test_a_wait_returns_the_first_true_value() -> None:
    answers = iter([None, [], "here"])
    assert until(lambda: next(answers), "an answer", every=0) == "here"


def test_a_failed_wait_reports_its_subject_its_time_and_the_last_value() -> None:
    with pytest.raises(NotYetError, match=r"^waited 0 s for three workers; last seen: \[\]$"):
        until(list, "three workers", seconds=0, every=0)


def test_a_call_without_an_answer_ends_at_the_limit_of_the_test(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, limit_waits(0.2):
        server = f"https://127.0.0.1:{silent.getsockname()[1]}"
        api = Client(issue(tmp_path).kubeconfig("admin", server))
        with pytest.raises(ApiError, match="timed out"):
            api.get(Selection.of("pods"), None)


@pytest.mark.parametrize(
    ("words", "selection"),
    [
        ("pods", Selection(("pods",))),
        ("pod x", Selection(("pod",), "x")),
        ("pod/x --show-managed-fields", Selection(("pod",), "x", managed_fields=True)),
        ("pods -l a=b", Selection(("pods",), query=(("labelSelector", "a=b"),))),
        (
            "pods,jobs -A --field-selector=spec.nodeName=",
            Selection(("pods", "jobs"), query=(("fieldSelector", "spec.nodeName="),), all_namespaces=True),
        ),
    ],
)
def test_the_words_of_kubectl_get_give_a_selection(words: str, selection: Selection) -> None:
    assert Selection.of(*words.split()) == selection


def test_an_unsupported_option_of_kubectl_get_is_refused() -> None:
    with pytest.raises(ValueError, match="--chunk-size=5 is not supported here"):
        Selection.of("pods", "--chunk-size=5")
