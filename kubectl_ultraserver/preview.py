"""``preview``: what the rule table says of objects, what the API server does, and where there is room."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from http import HTTPStatus
from urllib.parse import quote

from common.exits import style
from common.texts import printable
from kube.api import ForbiddenError, Object
from kubectl_ultraserver.asked import Asked, explain
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.fit import Fit, fit
from kubectl_ultraserver.listing import HOOKS, LEASE, Lister
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import maps, name_of, number, text
from kubectl_ultraserver.seen import Fleet, table_of
from kubectl_ultraserver.terminal import listed
from placement.claims import API
from placement.model import Pod
from webhook.documents import Document
from webhook.preview.formats import as_diff
from webhook.preview.report import item_of
from webhook.preview.run import preview
from webhook.preview.terminal import coloured, summary

Seen = tuple[Asked, list[Finding], Fit | None]
"""A document: what the table and the API server say, why these differ, and what placement would decide."""


class Asker(Lister):
    """Previews objects that are not there yet."""

    def look(self, documents: Iterable[Document], asked_for: str | None, *, fits: bool) -> Iterator[Seen]:
        """Look at documents, of the namespace asked for; with ``fits`` jobs take their nodes in this order.

        Raises:
            DocumentError: One is not an object.
            ApiError: The API server cannot be reached, or does not say what there is.
        """
        table, *called = table_of(self._rules)
        fleet, earlier, sent = self.fleet() if fits else None, tuple[Pod, ...](), None
        with suppress(ForbiddenError):
            sent = list(self.items(HOOKS))
        for shown in preview(table, documents, asked_for, time.time(), context=self.namespace):
            # What this installation sends is found out, and no note on the default's is needed.
            asked = self._ask(Asked(replace(shown, notes=()), (called[0], called[1]), registrations=sent))
            found = self._fit(asked, fleet, earlier) if fleet and asked.stored else None
            earlier += found.pods if found else ()
            yield asked, explain(asked), found

    def _ask(self, asked: Asked) -> Asked:
        """Have an object created as a dry run."""
        obj, there = asked.shown.object, quote(asked.shown.namespace, safe="")
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
            namespace=self._get(f"/api/v1/namespaces/{there}") or {},
        )

    def _fit(self, asked: Asked, fleet: Fleet, earlier: tuple[Pod, ...]) -> Fit | None:
        job = asked.stored or {}
        name = name_of(job) or text(job, "metadata", "generateName")
        called = JobName(text(job, "kind").lower(), name)
        lease = self._get(LEASE)
        case = Case(called, asked.shown.namespace, job, (), fleet, lease=lease)
        return fit(case, earlier, self._priorities, self._templates(asked.shown.namespace))

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


def lines(asked: Asked, findings: list[Finding], fit: Fit | None) -> Iterator[str]:
    """For people: what is changed and why, by which table, what the server says, and what it would get."""
    shown, (whose, note) = asked.shown, asked.table
    yield coloured(as_diff([shown])).rstrip("\n")
    yield from summary(shown)
    yield f"  table    {whose}, revision {shown.outcome.revision}{note}"
    answer = "would store something else:" if findings else "would store that"
    refusal = "would not store it:" if findings else "refuses it, as the table says"
    yield f"  server   {answer if asked.stored else refusal}"
    yield from (f"  {line}" for line in listed(findings))
    if fit:
        yield style(f"  fit      {printable(fit.text)}", fg="green" if fit.fits else "yellow")
        yield from (f"    {printable(line)}" for line in fit.details)


def report(asked: Asked, findings: list[Finding], fit: Fit | None) -> dict[str, object]:
    """The same for programs: what ``ultraserver-webhook preview -o json`` has, and the rest beside it."""
    return {
        "preview": item_of(asked.shown),
        "table": "".join(asked.table),
        "server": {"stores": bool(asked.stored), "findings": [asdict(one) for one in findings]},
        "fit": fit and {key: value for key, value in fit._asdict().items() if key != "pods"},
    }
