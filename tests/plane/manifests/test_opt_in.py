"""The component ``opt-in``: whom it leaves to be asked about, alone and with others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from contract import keys
from tests.plane.manifests.conftest import Build, Object
from tests.plane.manifests.objects import selects, webhooks

WITH = ["failclosed", "kinds", "opt-in", "opt-in-kinds"]
"""Every component that it can be combined with, in the order of the document."""


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
        # What the base is asked about for its claims alone, this is, too.
        (base,) = webhooks(built("base"))["mpijobs.ultraserver-webhook.io"]["matchConditions"]
        of_base, of_this = (" ".join(row["expression"].split()) for row in (base, asks))
        assert of_base.partition("||")[2] in of_this


def test_with_others_it_fails_as_they_do_and_narrows_the_other_kinds(
    built: Callable[[str], Build], combined: Callable[..., str]
) -> None:
    hooks = webhooks(built(combined(*WITH)))
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
    built: Callable[[str], Build], combined: Callable[..., str], components: list[str], place: str
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        built(combined(*components))
    assert place in refused.value.stderr
