"""The warning of a time limit without effect."""

import pytest

from contract import keys
from testbed.mpijob import mpijob
from tests.helpers import requested
from webhook.engine import evaluate
from webhook.engine.outcome import Fault
from webhook.objects.tree import put
from webhook.rules.load import load_default

TABLE = load_default()
AT = ("metadata", "annotations", keys.TIME_LIMIT)


@pytest.mark.parametrize("limit", ["4hours", "0h", "10000d", "10y", "1h\n", 4])
def test_a_time_limit_that_placement_ignores_is_a_fault_of_the_job(limit: object) -> None:
    faults = evaluate(TABLE, requested(put(mpijob(4), AT, limit))).faults
    assert faults["timeLimit"] == (Fault(f"metadata.annotations[{keys.TIME_LIMIT}]", str(limit)),)


@pytest.mark.parametrize("limit", ["30m", "4h", "1d12h30m5s", None])
def test_a_time_limit_with_an_effect_is_none(limit: object) -> None:
    assert "timeLimit" not in evaluate(TABLE, requested(put(mpijob(4), AT, limit))).faults
