"""Which pods are a job's, of any kind: by its operator's labels, its owner, or the webhook's label."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contract import place as contract
from contract.keys import TRAINING
from kubectl_ultraserver.objects import labels, maps, metadata, text
from placement.cluster import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.api import Object

MPIJOB: Final = "mpijob"
NAME_LABELS: Final = (
    TRAINING + "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "batch.kubernetes.io/job-name",
)
"""Labels by which operators say which job a pod is of."""

NEAR: Final = 0.5
"""How alike names must be to be offered in place of one that does not exist (`difflib.get_close_matches`)."""


@dataclass(frozen=True, slots=True)
class JobName:
    """What a person calls a job.

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
        raise ValueError(f"{given!r} is no job: write NAME or KIND/NAME, for example train or mpijob/train")
    return JobName(singular, name)


def names_of(pod: Object) -> Iterator[JobName]:
    """What the job of a pod may be called."""
    owned = [owner for owner in maps(metadata(pod).get("ownerReferences")) if owner.get("controller")]
    owners = {text(owner.get("name")): text(owner.get("kind")).lower() for owner in owned}
    marks = labels(pod)
    for key in NAME_LABELS:
        if name := marks.get(key):
            operator = marks.get(TRAINING + "operator-name", "")
            yield JobName(owners.get(name) or ({"mpi-operator": MPIJOB}.get(operator, "")), name)
    for name, kind in owners.items():
        yield JobName(kind, name)
    if found := contract.job(metadata(pod)):
        namespace = text(metadata(pod).get("namespace"))
        yield JobName("", named((namespace, found)).partition("/")[2])


def belongs(pod: Object, wanted: JobName) -> bool:
    """Whether a pod is of a job."""
    kinds = {found.kind for found in names_of(pod) if found.name == wanted.name}
    if not kinds or not wanted.kind:
        return bool(kinds)
    return wanted.kind in kinds or kinds == {""}


def job_of(pod: Object) -> str:
    """The name of a pod's job, for people; empty where it is of none."""
    return next((found.name for found in names_of(pod)), "")


def unknown(called: JobName, namespace: str, names: set[tuple[str, str]]) -> str:
    """That there is no such job, where jobs of the name are, and which names are like it."""
    said = [f"there is no job {called} in namespace {namespace}"]
    elsewhere = sorted(there for there, name in names if name == called.name and there != namespace)
    if elsewhere:
        said.append(f"one of that name is in namespace {', '.join(elsewhere[:5])}: give it with -n")
    here = sorted({name for there, name in names if there == namespace} - {called.name})
    alike = difflib.get_close_matches(called.name, here, n=3, cutoff=NEAR)
    if alike:
        said.append(f"did you mean {' or '.join(alike)}?")
    return "; ".join(said)
