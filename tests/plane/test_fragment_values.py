"""The lint of rules refuses the parts of pod templates that a real API server refuses, and no others."""

import json
from typing import Any

from testbed.plane.kubectl import Kubectl
from tests.rules.fragments import QUOTING, REFUSED, TAKEN, whole


def refused(kubectl: Kubectl, fragment: Any) -> bool:
    """Returns whether the API server refuses a pod template with a fragment in it."""
    made = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": whole(fragment)}
    requests = ("create", "--dry-run=server", "--validate=false", "-f", "-")
    done = kubectl.run(*requests, stdin=json.dumps(made), check=False)
    assert done.returncode == 0 or "is invalid" in done.stderr or "cannot be handled" in done.stderr
    return done.returncode != 0


def test_the_api_server_refuses_what_the_lint_refuses_and_takes_the_rest(plain_namespace: Kubectl) -> None:
    """Protects tables from problems that are none, and jobs from those that the lint would not know."""
    wrong = [name for name, (fragment, _) in REFUSED.items() if not refused(plain_namespace, fragment)]
    wrong += [name for name in TAKEN.keys() - QUOTING if refused(plain_namespace, TAKEN[name])]
    assert wrong == []
