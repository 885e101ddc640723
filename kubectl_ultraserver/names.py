"""Which pods are a job's, of any kind: by its operator's labels, its owner, or the webhook's label."""

from dataclasses import dataclass

from kube.api import Object
from kubectl_ultraserver.objects import metadata, text
from placement.observe.names import names_of


@dataclass(frozen=True, slots=True)
class JobName:
    """A job as a command names it.

    Attributes:
        kind: In lower case, singular, without group; empty for any.
        name: Its name.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.kind else self.name

    def means(self, name: object, kind: object) -> bool:
        """Whether an owner of this name and kind is meant."""
        return name == self.name and self.kind in ("", text(kind).lower())


def parse(given: str) -> JobName:
    """``train``, ``mpijob/train``, ``mpijobs.kubeflow.org/train``.

    Raises:
        ValueError: It is none of these.
    """
    kind, slash, name = given.rpartition("/")
    singular = kind.partition(".")[0].lower().removesuffix("s")
    if not name or (slash and not singular) or "/" in kind:
        raise ValueError(
            f"{given!r} is not a job: write NAME or KIND/NAME, for example train or mpijob/train"
        )
    return JobName(singular, name)


def belongs(pod: Object, wanted: JobName) -> bool:
    """Whether a pod is of a job."""
    kinds = {kind for kind, name in names_of(metadata(pod)) if name == wanted.name}
    if not kinds or not wanted.kind:
        return bool(kinds)
    return wanted.kind in kinds or kinds == {""}


def job_of(pod: Object) -> str:
    """The name of a pod's job, for people; empty where it is of none."""
    return next((name for _, name in names_of(metadata(pod))), "")
