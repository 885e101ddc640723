"""A launcher that mounts nothing else where the host file would be gets it, and hears nothing of it."""

from typing import Any

import pytest

from contract import keys
from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import requested
from webhook.engine import evaluate
from webhook.objects.tree import get
from webhook.rules.load import load_default

TABLE = load_default()
PLACE = "/root/ultraserver_init"
OURS = {"mountPath": PLACE, "name": "ultraserver-init"}


def job(mounts: list[Any]) -> Any:
    return mpijob(4, launcher_spec={"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]})


@pytest.mark.parametrize("mounts", [[], [OURS], [{"mountPath": "/data", "name": "data"}], ["odd", None]])
def test_a_job_that_leaves_the_field_free_gets_no_warning(mounts: list[Any]) -> None:
    outcome = evaluate(TABLE, requested(job(mounts)))
    assert outcome.warnings == ()
    assert get(outcome.after, (*LAUNCHER, "metadata", "annotations", f"{keys.PREFIX}hostfile"))
