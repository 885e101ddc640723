"""The component ``opt-in``: whom it leaves to be asked about, alone and with others."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.manifests.objects import selects, webhooks
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.manifests.conftest import Build, Object

WITH = ["failclosed", "kinds", "opt-in", "opt-in-kinds"]
"""Every component that it can be combined with, in the order of the document."""


def combined(kubectl: Path, tree: Path, name: str, components: list[str]) -> subprocess.CompletedProcess[str]:
    own = tree / "overlays" / name
    own.mkdir()
    listed = ", ".join(f"../../components/{component}" for component in components)
    (own / "kustomization.yaml").write_text(
        f"resources: [../../base]\ncomponents: [{listed}]\n", encoding="utf-8"
    )
    return subprocess.run([str(kubectl), "kustomize", str(own)], check=False, capture_output=True, text=True)


def namespaces(hook: Object) -> set[str]:
    """Which of the namespaces with these labels a webhook is called for."""
    found = {"kubernetes.io/metadata.name": "team"}
    values = {"": found, **{value: {**found, keys.INJECT: value} for value in (*keys.ON, *keys.OFF)}}
    return {value for value, labels in values.items() if selects(hook["namespaceSelector"], labels)}


def test_every_namespace_is_one_webhooks_or_nobodys(built: Callable[[str], Build]) -> None:
    hooks = webhooks(built("overlays/opt-in"))
    for asking, elsewhere in (("mpijobs", "asked"), ("verify", "verify-asked")):
        first, second = (hooks[f"{name}.ultraserver-webhook.io"] for name in (asking, elsewhere))
        assert namespaces(first) == set(keys.ON)
        assert namespaces(second) == {""}
        for key in ("rules", "failurePolicy", "clientConfig", "timeoutSeconds", "sideEffects", "matchPolicy"):
            assert first[key] == second[key]
        (asks,) = [row for row in second["matchConditions"] if row["name"] == "asks-or-was-added-to"]
        assert "in ['enabled', 'true']" in asks["expression"]
        assert set(keys.ON) == {"enabled", "true"}


def test_with_others_it_fails_as_they_do_and_narrows_the_other_kinds(kubectl: Path, tree: Path) -> None:
    hooks = webhooks(yaml.safe_load_all(combined(kubectl, tree, "opt-in-with-all", WITH).stdout))
    by_name = {name.partition(".")[0]: hook for name, hook in hooks.items()}
    for name in ("mpijobs", "asked", "verify", "verify-asked"):
        assert by_name[name]["failurePolicy"] == "Fail"
    assert by_name["verify-asked"]["clientConfig"]["service"]["path"] == "/require"
    for name in ("kinds", "kinds-jobs"):
        assert namespaces(by_name[name]) == set(keys.ON)
        assert by_name[name]["clientConfig"]["service"]["path"] == "/mutate"


SELECTOR = "/webhooks/0/namespaceSelector/matchExpressions/1/operator"


@pytest.mark.parametrize(
    ("components", "place"),
    [
        (["missed-jobs", "opt-in"], "/webhooks/1/matchConditions/1/name"),
        (["opt-in", "missed-jobs"], SELECTOR),
        (["opt-in", "failclosed"], SELECTOR),
        (["kinds", "opt-in-kinds"], SELECTOR),
        (["opt-in", "opt-in-kinds", "kinds"], "[name=kinds.ultraserver-webhook.io]"),
        (["opt-in", "opt-in-kinds"], "[name=kinds.ultraserver-webhook.io]"),
    ],
)
def test_what_does_not_go_together_or_in_this_order_is_not_built(
    kubectl: Path, tree: Path, components: list[str], place: str
) -> None:
    done = combined(kubectl, tree, "-".join(components), components)
    assert done.returncode
    assert place in done.stderr
