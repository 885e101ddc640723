"""How many devices a container may ask for on an instance type, as the Neuron scheduler extension says."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from common.quantities import thousandths
from webhook.engine.jobs import OpenJob
from webhook.objects.templates import named_types, quantities
from webhook.objects.tree import Json, Path, as_list, get, pointer
from webhook.rows.table import Table


@dataclass(frozen=True)
class Unsupported:
    """A container's request that no instance type which its pod may get accepts.

    Attributes:
        place: of the request, in the template.
        types: all instance types that the pod may get; the table knows them all.
        asked: number of devices.
        accepted: what one of the types accepts, ascending.
    """

    place: Path
    types: tuple[str, ...]
    asked: int
    accepted: tuple[int, ...]

    def texts(self, template: Path) -> Mapping[str, str]:
        """What placeholders of a rule about it stand for; ``template`` is the path of the template."""
        return {
            "devices.instanceType": " or ".join(self.types),
            "devices.asked": str(self.asked),
            "devices.accepted": ranges(self.accepted),
            "devices.place": pointer((*template, *self.place)),
        }


def unsupported(table: Table, job: OpenJob, path: Path, resources: tuple[str, ...]) -> Unsupported | None:
    """The first request of a template that cannot be met; None where all can, or nobody knows."""
    types = named_types(job.selections[path], table.candidates.instance_type_label, table.device_counts)
    accepted = sorted({count for name in types for count in table.device_counts[name]})
    for place, asked in _requests(get(job.object, path), resources) if types else ():
        if asked not in accepted:
            return Unsupported(place, types, asked, tuple(accepted))
    return None


def _requests(template: Json, resources: tuple[str, ...]) -> Iterator[tuple[Path, int]]:
    """Place and number of every request for one of the resources; a fraction is none."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(as_list(get(template, ("spec", kind)), ("spec", kind))):
            for name in resources:
                for part, text in zip(("limits", "requests"), quantities(container, name), strict=True):
                    asked, rest = divmod(thousandths(text), 1000)
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
