"""The calls of the templates in all modules with texts."""

from importlib import import_module

import pytest

from tests import texts
from tests.docs.blocks import REPOSITORY

MODULES = sorted(
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    for package in ("certs", "kubectl_ultraserver", "placement", "webhook")
    for path in (REPOSITORY / package).rglob("messages.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_every_template_gets_its_values(name: str) -> None:
    assert not [*texts.miscounted(import_module(name))]
