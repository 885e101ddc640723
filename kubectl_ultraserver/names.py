"""The pods of a job of any kind: by their operator's labels, their owner, or the webhook's label."""

from dataclasses import dataclass

from kube.api import Object
from kubectl_ultraserver.objects import metadata, text
from placement.observe.names import names_of


@dataclass(frozen=True, slots=True)
class JobName:
    """A job as a command names it.

    Attributes:
        kind: The kind in lower case, singular, without group; empty for any.
        name: The job's name.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.kind else self.name

    def means(self, name: object, kind: object) -> bool:
        """Returns whether this is the owner of this name and kind."""
        return name == self.name and self.kind in ("", text(kind).lower())


def parse(argument: str) -> JobName:
    """Returns the job of an argument such as ``train``, ``mpijob/train``, ``mpijobs.kubeflow.org/train``.

    Raises:
        ValueError: The argument has another form.
    """
    kind, slash, name = argument.rpartition("/")
    singular = kind.partition(".")[0].lower().removesuffix("s")
    if not name or (slash and not singular) or "/" in kind:
        raise ValueError(
            f"{argument!r} is not a job: write NAME or KIND/NAME, for example train or mpijob/train"
        )
    return JobName(singular, name)


def belongs(pod: Object, wanted: JobName) -> bool:
    """Returns whether a pod belongs to a job."""
    kinds = {kind for kind, name in names_of(metadata(pod)) if name == wanted.name}
    if not kinds or not wanted.kind:
        return bool(kinds)
    return wanted.kind in kinds or kinds == {""}


def job_of(pod: Object) -> str:
    """Returns the name of a pod's job, for people; empty if it belongs to none."""
    return next((name for _, name in names_of(metadata(pod))), "")
