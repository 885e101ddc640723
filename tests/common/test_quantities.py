"""Amounts of resources as Kubernetes writes them."""

import pytest

from common.quantities import thousandths


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 1000),
        ("0.5", 500),
        ("100m", 100),
        ("1k", 1_000_000),
        ("1Ki", 1_024_000),
        ("5128Mi", 5128 * 2**20 * 1000),
        ("2Ei", 2 * 2**60 * 1000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1E", 10**18 * 1000),
        ("1n", 1),
        (".5", 500),
        ("+2", 2000),
        ("", 0),
        ("much", 0),
        ("1KiB", 0),
        ("9" * 100, 0),
    ],
)
def test_quantities(text: str, amount: int) -> None:
    assert thousandths(text) == amount
