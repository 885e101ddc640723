"""Reads names of jobs, and finds a job's pods by labels of its operator or of the webhook, or by owner."""

from dataclasses import dataclass

from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.objects import metadata, text_at
from placement.observe.names import names_of


@dataclass(frozen=True, slots=True)
class JobReference:
    """A job as the argument of a command names it."""

    kind: str  # the kind in lower case, in the singular, without a group; empty for any kind
    name: str  # the job's name

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.kind else self.name

    def is_owner(self, name: object, kind: object) -> bool:
        """Returns whether an owner of this name and kind is the job."""
        return name == self.name and self.kind in ("", text_at(kind).lower())


def parse_reference(argument: str) -> JobReference:
    """Returns the job that an argument names, such as ``train`` or ``mpijobs.kubeflow.org/train``.

    Raises:
        ValueError: The argument is not NAME or KIND/NAME.
    """
    kind, slash, name = argument.rpartition("/")
    singular = kind.partition(".")[0].lower().removesuffix("s")
    if not name or (slash and not singular) or "/" in kind:
        raise ValueError(messages.not_a_job(argument))
    return JobReference(singular, name)


def is_pod_of(pod: Object, reference: JobReference) -> bool:
    """Returns whether a pod belongs to a job."""
    kinds = {kind for kind, name in names_of(metadata(pod)) if name == reference.name}
    if not kinds or not reference.kind:
        return bool(kinds)
    return reference.kind in kinds or kinds == {""}


def job_of(pod: Object) -> str:
    """Returns the name of a pod's job, for people; empty if the pod belongs to no job."""
    return next((name for _, name in names_of(metadata(pod))), "")
