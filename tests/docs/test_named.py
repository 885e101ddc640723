"""Documents name tests that are there, and every overlay."""

import re

import pytest

from tests.docs.blocks import REPOSITORY, text_of

TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
GOOD_PRACTICES = REPOSITORY / "tests/plane/manifests/test_good_practices.py"


@pytest.mark.parametrize("document", ["docs/threat-model.md", "CONTRIBUTING.md"])
def test_every_test_that_a_document_names_is_there(document: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", text_of(document)))
    assert len(named) > 15
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in TEST.findall(source)}
    assert named <= there, named - there


def test_every_test_of_the_good_practices_is_named() -> None:
    tests = TEST.findall(GOOD_PRACTICES.read_text(encoding="utf-8"))
    assert {*tests} <= set(re.findall(r"`(test_\w+)`", text_of("CONTRIBUTING.md")))


@pytest.mark.parametrize(
    "overlay",
    [
        "cert-manager",
        "bring-your-own-certificate",
        "hyperpod",
        "monitoring",
        "guard-warn",
        "without-placement",
        "kinds",
        "neuron-scheduler",
        "opt-in",
        "failclosed",
    ],
)
def test_the_document_says_what_an_overlay_is_for(overlay: str) -> None:
    assert f"| `{overlay}` |" in text_of("docs/install.md")
