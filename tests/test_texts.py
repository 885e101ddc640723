"""Tests of the calls of message templates, in all packages."""

from importlib import import_module

import pytest

from tests import texts
from tests.docs.blocks import REPOSITORY

MODULES = sorted(
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    for package in ("certs", "common", "contract", "kube", "kubectl_ultraserver", "placement", "webhook")
    for path in (REPOSITORY / package).rglob("messages.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_every_call_of_a_template_has_the_right_number_of_values(name: str) -> None:
    assert not [*texts.wrong_calls(import_module(name))]
