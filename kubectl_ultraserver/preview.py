"""The command ``preview``: the installation's preview of objects, a dry run, and free units."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property
from http import HTTPStatus
from urllib.parse import quote

from common.output import style
from common.texts import folded, printable
from kube.api import ForbiddenError, Object
from kube.rest import loaded
from kubectl_ultraserver import messages, service
from kubectl_ultraserver.dryrun import DryRun, explain
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.fit import Fit, fit
from kubectl_ultraserver.listing import HOOKS, Lister
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import maps, name_of, number, text
from kubectl_ultraserver.terminal import listed
from placement.observe.inventory import API
from placement.observe.model import Pod

Preview = tuple[DryRun, list[Finding], Fit | None]
"""The results for an object: of service and API server, why these differ, and placement's decision."""


class UnreadableError(Exception):
    """The service cannot read a file; the message says where and why."""


class Previewer(Lister):
    """Previews objects that are not created yet."""

    _earlier: tuple[Pod, ...] = ()
    """Pods of the jobs that were previewed before; they take their nodes first."""

    def preview(self, source: str, data: bytes, namespace: str, *, fits: bool) -> tuple[str, list[Preview]]:
        """Previews the objects of a file, in the namespace if given; with ``fits`` jobs take nodes in turn.

        Returns:
            The service's text, for people; and the results for each object.

        Raises:
            UnreadableError: The file has no objects, or cannot be read.
            OffError: The service does not answer.
            ApiError: The API server does not answer, or refuses to list objects.
        """
        parameters = {"default_namespace": self.namespace, **({"namespace": namespace} if namespace else {})}
        try:
            answers = maps(loaded(service.ask(self.api, data, format="json", **parameters)), "items")
            preview = service.ask(self.api, data, format="diff", **parameters).decode()
        except service.RefusedError as error:
            raise UnreadableError(f"{source}: {error}".replace(": request:", ":", 1)) from error
        for answer in answers:
            answer["source"]["file"] = source
            # The notes are about a default installation; here the actual one is examined.
            for note in answer["notes"]:
                preview = preview.replace(f"{folded(printable(note), '  note     ')}\n", "")
        preview = re.sub(r"(?m)^(--- )?request(?=:\d)", lambda at: (at[1] or "") + printable(source), preview)
        return preview, [self._preview(answer, fits=fits) for answer in answers]

    def _preview(self, answer: Object, *, fits: bool) -> Preview:
        dry = self._create(DryRun(answer, registrations=self._registrations))
        fit = self._fit(dry) if fits and dry.stored else None
        self._earlier += fit.pods if fit else ()
        return dry, explain(dry), fit

    @cached_property
    def _registrations(self) -> list[Object] | None:
        """All MutatingWebhookConfigurations; None if the user may not read them."""
        try:
            return list(self.items(HOOKS))
        except ForbiddenError:
            return None

    def _create(self, dry: DryRun) -> DryRun:
        """Creates an object as a dry run, and returns the result."""
        obj, there = dry.received, quote(dry.namespace, safe="")
        version, kind = text(obj, "apiVersion"), text(obj, "kind")
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        served = self.api.get(root) if version in {"v1", *self.served} else None
        kinds = (each for each in maps(served, "resources") if "/" not in text(each, "name"))
        resource = next((each for each in kinds if each.get("kind") == kind), None)
        if resource is None:
            return replace(dry, refusal=messages.not_served(kind, version))
        plural = text(resource, "name")
        path = f"{root}/namespaces/{there}/{plural}" if resource.get("namespaced") else f"{root}/{plural}"
        status, answer = self.api.try_create(path, obj)
        return replace(
            dry,
            resource=(version.rpartition("/")[0], plural),
            stored=answer if status < HTTPStatus.BAD_REQUEST else None,
            refusal=text(answer, "message"),
            space=self._get(f"/api/v1/namespaces/{there}") or {},
        )

    def _fit(self, dry: DryRun) -> Fit | None:
        job = dry.stored or {}
        name = name_of(job) or text(job, "metadata", "generateName")
        called = JobName(text(job, "kind").lower(), name)
        case = Case(called, dry.namespace, job, (), self.fleet, lease=self.lease)
        try:
            answer = service.item(self.api, job, pods="true", namespace=dry.namespace)
        except service.OffError as error:
            return Fit(fits=False, units=(), text=messages.fit_unknown(error))
        return fit(case, answer["pods"], self._earlier, self._priorities, self._templates(dry.namespace))

    def _templates(self, namespace: str) -> dict[str, Object]:
        """Returns the ResourceClaimTemplates of a namespace by name, none if the user may not read them."""
        path = f"{API}/namespaces/{quote(namespace, safe='')}/resourceclaimtemplates"
        return {name_of(one): one for one in (self._readable(path) if self.has_claims else ())}

    @cached_property
    def _priorities(self) -> dict[str, int]:
        """Values of priority classes by name; the default one has an empty name as well."""
        classes = self._readable("/apis/scheduling.k8s.io/v1/priorityclasses")
        named = [(name_of(one), number(one, "value"), one.get("globalDefault")) for one in classes]
        return {key: value for name, value, default in named for key in (name, *([""] if default else []))}


def lines(dry: DryRun, findings: list[Finding], fit: Fit | None, *, among: int) -> Iterator[str]:
    """Yields lines for people: the table's revision, the API server's answer, and the job's fit."""
    if among > 1:
        title = "{file}:{line}".format(**dry.answer["source"])
        kind, name = text(dry.received, "kind"), name_of(dry.received) or "*"
        yield style(f"{title}: {kind} {dry.namespace}/{name}", bold=True)
    yield f"  table    the rule table, revision {dry.answer['table']}"
    answer = "would store something else:" if findings else "would store that"
    refusal = "would not store it:" if findings else "refuses it, as the table does"
    yield f"  server   {answer if dry.stored else refusal}"
    yield from (f"  {line}" for line in listed(findings))
    if fit:
        yield style(f"  fit      {printable(fit.text)}", fg="green" if fit.fits else "yellow")
        yield from (f"    {printable(line)}" for line in fit.details)


def report(dry: DryRun, findings: list[Finding], fit: Fit | None) -> dict[str, object]:
    """Returns the results for programs, with the output of ``ultraserver-webhook preview -o json``."""
    return {
        "preview": {key: value for key, value in dry.answer.items() if key != "received"},
        "server": {"stores": bool(dry.stored), "findings": [asdict(one) for one in findings]},
        "fit": fit and {key: value for key, value in fit._asdict().items() if key != "pods"},
    }
