"""How many devices a container may ask for on an instance type, as the Neuron scheduler extension says."""

from collections.abc import Iterator, Mapping

from common.pointers import pointer
from common.quantities import amounts
from webhook.engine.jobs import OpenJob
from webhook.objects.templates import admits, chosen_types
from webhook.objects.tree import Json, Path, as_list, get
from webhook.rows.table import Table


def unsupported(table: Table, job: OpenJob, path: Path, resources: tuple[str, ...]) -> Mapping[str, str]:
    """What placeholders say of the first request of a template that no instance type for it accepts.

    Nothing where all can be met, or where the table does not know all of the types.
    """
    labels, wanted = table.candidates.type_labels, job.selections[path]
    named = chosen_types(wanted, labels) if wanted.selector or wanted.terms else ()
    # Those that are known are few: looking at each of the others would cost.
    if not named or any(name not in table.device_counts for name in named):
        return {}
    types = [name for name in named if admits(wanted, dict.fromkeys(labels, (name,)))]
    accepted = sorted({count for name in types for count in table.device_counts[name]})
    for place, asked in _requests(get(job.object, path), resources) if types else ():
        if asked not in accepted:
            return {
                "devices.instanceType": " or ".join(types),
                "devices.asked": str(asked),
                "devices.accepted": ranges(tuple(accepted)),
                "devices.place": pointer((*path, *place)),
            }
    return {}


def _requests(template: Json, resources: tuple[str, ...]) -> Iterator[tuple[Path, int]]:
    """Place and number of every request for one of the resources; a fraction is none."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(as_list(get(template, ("spec", kind)), ("spec", kind))):
            for name in resources:
                for part in ("limits", "requests"):
                    asked, rest = divmod(amounts(get(container, ("resources", part))).get(name, 0), 1000)
                    if asked and not rest:
                        yield ("spec", kind, index, "resources", part, name), asked


def ranges(numbers: tuple[int, ...]) -> str:
    """Ascending numbers for a sentence: ``1, 4, 8 or 16``, and ``1 to 12`` for a run of them."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
