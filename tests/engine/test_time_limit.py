"""Tests of the fault of a job whose time limit has no effect."""

import pytest

from contract import keys
from testbed.mpijob import mpijob
from tests.helpers import request_for
from webhook.engine import evaluate
from webhook.engine.outcome import Fault
from webhook.objects.tree import put
from webhook.rules.load import load_default

TABLE = load_default()
TIME_LIMIT_PATH = ("metadata", "annotations", keys.TIME_LIMIT)


@pytest.mark.parametrize("limit", ["4hours", "0h", "10000d", "10y", "1h\n", 4])
def test_an_invalid_time_limit_is_a_fault(limit: object) -> None:
    faults = evaluate(TABLE, request_for(put(mpijob(4), TIME_LIMIT_PATH, limit))).faults
    assert faults["timeLimit"] == (Fault(f"metadata.annotations[{keys.TIME_LIMIT}]", str(limit)),)


@pytest.mark.parametrize("limit", ["30m", "4h", "1d12h30m5s", None])
def test_a_valid_time_limit_is_not_a_fault(limit: object) -> None:
    assert "timeLimit" not in evaluate(TABLE, request_for(put(mpijob(4), TIME_LIMIT_PATH, limit))).faults
