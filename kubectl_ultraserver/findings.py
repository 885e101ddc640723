"""What a job waits for, as people and programs read it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from kube.api import Object
from kubectl_ultraserver.objects import at, maps, metadata, text
from kubectl_ultraserver.seen import Work

ENDS: Final = ("Succeeded", "Complete", "Completed", "Failed")
"""Conditions of the kinds of job that have ended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing that a job waits for, or that is wrong with it.

    Attributes:
        kind: Of what is named: ``node``, ``pod``, ``queue``, ``job``, ``ultraserver``, ``webhook``,
            ``operator``, ``scheduler`` or ``program``.
        name: Its name.
        text: What is the matter with it.
        details: More, for example what keeps each UltraServer from being used.
        remedy: What to do; empty where that follows from the text.
    """

    kind: str
    name: str
    text: str
    details: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class Case:
    """A job, and what else was looked up to explain it.

    Attributes:
        work: The job and its pods.
        now: The time.
        namespace: The job's Namespace object; empty where it may not be read.
        events: Events about the job and its pods.
        registration: The MutatingWebhookConfiguration that jobs of its kind are sent by; None where there is
            none, empty where it may not be read.
        rules: The ConfigMap with the rule table; None where there is none, empty where it may not be read.
        lease: The Lease of the placement program; None where there is none.
        workloads: Kueue's Workloads in the namespace.
        kueue: Whether Kueue's API is there.
    """

    work: Work
    now: datetime
    namespace: Object = field(default_factory=dict)
    events: tuple[Object, ...] = ()
    registration: Object | None = field(default_factory=dict)
    rules: Object | None = None
    lease: Object | None = None
    workloads: tuple[Object, ...] = ()
    kueue: bool = False

    @property
    def job(self) -> Object:
        """The object; empty where it was not read."""
        return self.work.job or {}

    @property
    def suspended(self) -> bool:
        """Whether the job's pods are not to be made now."""
        return True in (at(self.job, "spec", "suspend"), at(self.job, "spec", "runPolicy", "suspend"))

    def told(self, names: Iterable[str], *, component: str = "") -> Iterator[Object]:
        """The last Event of each reason about some objects: warnings, or all of a component."""
        wanted = set(names)
        last: dict[tuple[str, str], Object] = {}
        for event in sorted(self.events, key=_when):
            name = text(event, "involvedObject", "name")
            if name in wanted and (
                reporter(event) == component if component else event.get("type") == "Warning"
            ):
                last[name, text(event, "reason")] = event
        yield from last.values()

    def ended(self) -> str:
        """How the job ended, with its reason; empty while it goes on."""
        for item in maps(self.job, "status", "conditions"):
            if item.get("type") in ENDS and item.get("status") == "True":
                return f"{item['type']}: {text(item.get('message')) or text(item.get('reason'))}".strip(": ")
        return ""


def reporter(event: Object) -> str:
    """Which program wrote an Event."""
    return text(event, "reportingComponent") or text(event, "source", "component")


def _when(event: Object) -> str:
    """Its time; the API server writes them so that they sort as texts."""
    times = (event.get("eventTime"), event.get("lastTimestamp"), metadata(event).get("creationTimestamp"))
    return next((time for time in times if isinstance(time, str) and time), "")
