"""``preview``: what the installation says of objects, what the API server does, and where there is room."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property
from http import HTTPStatus
from urllib.parse import quote

from common.exits import style
from common.texts import folded, printable
from kube.api import ForbiddenError, Object
from kube.rest import loaded
from kubectl_ultraserver import service
from kubectl_ultraserver.asked import Asked, explain
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.fit import Fit, fit
from kubectl_ultraserver.listing import HOOKS, LEASE, Lister
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import maps, name_of, number, text
from kubectl_ultraserver.seen import Fleet
from kubectl_ultraserver.terminal import listed
from placement.observe.inventory import API
from placement.observe.model import Pod

Seen = tuple[Asked, list[Finding], Fit | None]
"""An object: what the service and the API server say, why these differ, and what placement would decide."""


class UnreadableError(Exception):
    """A file that the service cannot read; the message says where and why."""


class Asker(Lister):
    """Previews objects that are not there yet."""

    _earlier: tuple[Pod, ...] = ()
    """Of the jobs that were looked at before, which take their nodes first."""

    def look(self, source: str, data: bytes, asked_for: str, *, fits: bool) -> tuple[str, list[Seen]]:
        """Look at the objects of a file, of the namespace asked for; with ``fits`` jobs take nodes in turn.

        Returns:
            What the service says of them, for people; and all that is said of each.

        Raises:
            UnreadableError: It has no objects, or cannot be read.
            OffError: The service does not answer.
            ApiError: The API server cannot be reached, or does not say what there is.
        """
        how = {"default_namespace": self.namespace, **({"namespace": asked_for} if asked_for else {})}
        try:
            answers = maps(loaded(service.ask(self.api, data, format="json", **how)), "items")
            preview = service.ask(self.api, data, format="diff", **how).decode()
        except service.RefusedError as error:
            raise UnreadableError(f"{source}: {error}".replace(": request:", ":", 1)) from error
        for answer in answers:
            answer["source"]["file"] = source
            # What this installation sends is found out, and no note on the default's is needed.
            for note in answer["notes"]:
                preview = preview.replace(f"{folded(printable(note), '  note     ')}\n", "")
        preview = re.sub(r"(?m)^(--- )?request(?=:\d)", lambda at: (at[1] or "") + printable(source), preview)
        return preview, [self._seen(answer, fits=fits) for answer in answers]

    def _seen(self, answer: Object, *, fits: bool) -> Seen:
        asked = self._create(Asked(answer, registrations=self._sent))
        fit = self._fit(asked) if fits and asked.stored else None
        self._earlier += fit.pods if fit else ()
        return asked, explain(asked), fit

    @cached_property
    def _sent(self) -> list[Object] | None:
        """All that is sent to webhooks; None where that may not be read."""
        try:
            return list(self.items(HOOKS))
        except ForbiddenError:
            return None

    def _create(self, asked: Asked) -> Asked:
        """Have an object created as a dry run."""
        obj, there = asked.received, quote(asked.namespace, safe="")
        version, kind = text(obj, "apiVersion"), text(obj, "kind")
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        served = self.api.get(root) if version in {"v1", *self.served} else None
        kinds = (each for each in maps(served, "resources") if "/" not in text(each, "name"))
        resource = next((each for each in kinds if each.get("kind") == kind), None)
        if resource is None:
            return replace(asked, refusal=f"it serves no {kind} of {version}; is the CRD installed?")
        plural = text(resource, "name")
        path = f"{root}/namespaces/{there}/{plural}" if resource.get("namespaced") else f"{root}/{plural}"
        status, answer = self.api.try_create(path, obj)
        return replace(
            asked,
            resource=(version.rpartition("/")[0], plural),
            stored=answer if status < HTTPStatus.BAD_REQUEST else None,
            refusal=text(answer, "message"),
            space=self._get(f"/api/v1/namespaces/{there}") or {},
        )

    def _fit(self, asked: Asked) -> Fit | None:
        job = asked.stored or {}
        name = name_of(job) or text(job, "metadata", "generateName")
        called = JobName(text(job, "kind").lower(), name)
        case = Case(called, asked.namespace, job, (), self._fleet, lease=self._get(LEASE))
        try:
            answer = service.item(self.api, job, pods="true", namespace=asked.namespace)
        except service.OffError as error:
            return Fit(fits=False, units=(), text=f"is not known: {error}")
        return fit(case, answer["pods"], self._earlier, self._priorities, self._templates(asked.namespace))

    @cached_property
    def _fleet(self) -> Fleet:
        return self.fleet()

    def _templates(self, namespace: str) -> dict[str, Object]:
        """The ResourceClaimTemplates of a namespace by name, as far as they may be read."""
        path = f"{API}/namespaces/{quote(namespace, safe='')}/resourceclaimtemplates"
        return {name_of(one): one for one in (self._readable(path) if self.has_claims else ())}

    @cached_property
    def _priorities(self) -> dict[str, int]:
        """Values of priority classes by name, as far as they may be read; that of the default one by none."""
        found = self._readable("/apis/scheduling.k8s.io/v1/priorityclasses")
        named = [(name_of(one), number(one, "value"), one.get("globalDefault")) for one in found]
        return {key: value for name, value, default in named for key in (name, *([""] if default else []))}


def lines(asked: Asked, findings: list[Finding], fit: Fit | None, *, among: int) -> Iterator[str]:
    """For people: by which table it was looked at, what the server says, and what it would get."""
    if among > 1:
        title = "{file}:{line}".format(**asked.answer["source"])
        kind, name = text(asked.received, "kind"), name_of(asked.received) or "*"
        yield style(f"{title}: {kind} {asked.namespace}/{name}", bold=True)
    yield f"  table    the rule table, revision {asked.answer['table']}"
    answer = "would store something else:" if findings else "would store that"
    refusal = "would not store it:" if findings else "refuses it, as the table says"
    yield f"  server   {answer if asked.stored else refusal}"
    yield from (f"  {line}" for line in listed(findings))
    if fit:
        yield style(f"  fit      {printable(fit.text)}", fg="green" if fit.fits else "yellow")
        yield from (f"    {printable(line)}" for line in fit.details)


def report(asked: Asked, findings: list[Finding], fit: Fit | None) -> dict[str, object]:
    """The same for programs, with all that ``ultraserver-webhook preview -o json`` has."""
    return {
        "preview": {key: value for key, value in asked.answer.items() if key != "received"},
        "server": {"stores": bool(asked.stored), "findings": [asdict(one) for one in findings]},
        "fit": fit and {key: value for key, value in fit._asdict().items() if key != "pods"},
    }
