"""Adds the text of the init script to a launcher's Pod. The job does not contain the text.

The evaluation of the job added init containers that run the script. Without the text, they fail. So the Pod
gets the text even if the table, a policy or an opt-out has changed after that evaluation.
"""

from typing import Final

from contract import keys
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import Json, Path, get_map, get_maps, put

VARIABLE: Final = "ULTRASERVER_SCRIPT"
"""The variable by which containers get the script. The table sets it from annotation `keys.INIT_SCRIPT`."""


def add_script(pod: Json, templates: dict[Path, Json], text: str) -> dict[Path, Json]:
    """Returns the templates of a Pod; adds the script's text if the Pod runs the script and lacks the text.

    Raises:
        WrongTypeError: The annotations of the Pod are not a map.
    """
    pod = templates.get((), pod)
    containers = get_maps(pod, ("spec", "initContainers"))
    variables = (item.get("name") for container in containers for item in get_maps(container, ("env",)))
    if VARIABLE not in variables or get_map(pod, ANNOTATIONS).get(keys.INIT_SCRIPT):
        return templates
    return {(): put(pod, (*ANNOTATIONS, keys.INIT_SCRIPT), text)}
