"""The value ``optIn``: whom it leaves to be asked about, alone and with others."""

from collections.abc import Callable

from contract import keys
from tests.plane.manifests.conftest import Build, Object
from tests.plane.manifests.objects import selects, webhooks


def namespaces(hook: Object) -> set[str]:
    """Returns which of the namespaces with these labels a webhook is called for."""
    result = {"kubernetes.io/metadata.name": "team"}
    values = {"": result, **{value: {**result, keys.INJECT: value} for value in (*keys.ON, *keys.OFF)}}
    return {value for value, labels in values.items() if selects(hook["namespaceSelector"], labels)}


def test_every_namespace_belongs_to_at_most_one_webhook(built: Callable[..., Build]) -> None:
    hooks = webhooks(built(optIn=True))
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
        (base,) = webhooks(built())["mpijobs.ultraserver-webhook.io"]["matchConditions"]
        of_base, of_this = (" ".join(row["expression"].split()) for row in (base, asks))
        assert of_base.partition("||")[2] in of_this


def test_with_others_it_fails_as_they_do_and_narrows_the_other_kinds(built: Callable[..., Build]) -> None:
    hooks = webhooks(built(failurePolicy="Fail", kinds=["all"], optIn=True, optInKinds=True))
    by_name = {name.partition(".")[0]: hook for name, hook in hooks.items()}
    for name in ("mpijobs", "asked", "verify", "verify-asked"):
        assert by_name[name]["failurePolicy"] == "Fail"
    assert by_name["verify-asked"]["clientConfig"]["service"]["path"] == "/require"
    for name in ("kinds", "kinds-jobs"):
        assert namespaces(by_name[name]) == set(keys.ON)
        assert by_name[name]["clientConfig"]["service"]["path"] == "/mutate"
