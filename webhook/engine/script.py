"""The init script's text, which a launcher's Pod gets and its job does not have.

That the Pod's init containers run it was decided with the job. So the Pod gets it whatever table, policy or
opt-out say by now: without it the launcher could only fail.
"""

from dataclasses import replace
from typing import Final

from contract import keys
from webhook.engine.outcome import Outcome
from webhook.objects.patch import patched
from webhook.objects.tree import Json, get, map_at, maps_at, put
from webhook.undo.record import ANNOTATIONS

VARIABLE: Final = "ULTRASERVER_SCRIPT"
"""Of the containers that run it: the packaged table sets it from the annotation."""


def with_script(outcome: Outcome, text: str) -> Outcome:
    """What came of an object, with the text where it is a Pod that runs it and has none.

    Raises:
        WrongTypeError: if its annotations are not a map.
    """
    pod = outcome.after
    if outcome.denials or not _runs(pod) or map_at(pod, ANNOTATIONS).get(keys.INIT_SCRIPT):
        return outcome
    after, operations = patched(pod, {(): put(pod, (*ANNOTATIONS, keys.INIT_SCRIPT), text)})
    return replace(outcome, after=after, operations=(*outcome.operations, *operations))


def _runs(pod: Json) -> bool:
    if (get(pod, ("apiVersion",)), get(pod, ("kind",))) != ("v1", "Pod"):
        return False
    containers = maps_at(pod, ("spec", "initContainers"))
    return any(each.get("name") == VARIABLE for one in containers for each in maps_at(one, ("env",)))
