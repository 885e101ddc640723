"""Previews objects: what the preview service and a dry run show, and whether a job would start (`Fit`)."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property
from http import HTTPStatus
from urllib.parse import quote

from common.output import style
from common.texts import fold, printable
from kube.api import ApiError, ForbiddenError, Object
from kube.rest import parse_json
from kubectl_ultraserver import messages, service
from kubectl_ultraserver.dryrun import DryRun, explain
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.fit import Fit, fit
from kubectl_ultraserver.listing import HOOKS_PATH, Lister
from kubectl_ultraserver.names import JobReference
from kubectl_ultraserver.objects import maps_at, name_of, number_at, text_at
from kubectl_ultraserver.terminal import finding_lines
from placement.observe.inventory import API_PATH
from placement.observe.model import Pod

Preview = tuple[DryRun, list[Finding], Fit | None]
"""The results for an object: the dry run, why it differs from the service's preview, and the `Fit`."""


class Previewer(Lister):
    """Previews objects that are not created yet."""

    _earlier_pods: tuple[Pod, ...] = ()
    """The Pods of the jobs that this `Previewer` has previewed. They get nodes before the next job."""

    def preview(
        self, source: str, data: bytes, namespace: str, *, with_fit: bool
    ) -> tuple[str, list[Preview]]:
        """Previews a file's objects. If ``namespace`` is not empty, no object may name another namespace.

        Returns:
            The service's text, for people, and the results for each object. With ``with_fit``, each job that
            is placed and would be stored has a `Fit`. A job does not get nodes that an earlier job would get.

        Raises:
            UnavailableError: The service does not answer.
            ApiError: The service cannot read the file, or the API server does not answer or refuses.
        """
        parameters = {"default_namespace": self.namespace, **({"namespace": namespace} if namespace else {})}
        try:
            answers = maps_at(parse_json(service.ask(self.api, data, format="json", **parameters)), "items")
            text = service.ask(self.api, data, format="diff", **parameters).decode()
        except service.BadDocumentError as error:
            raise ApiError(f"{source}: {error}".replace(": request:", ":", 1)) from error
        for answer in answers:
            answer["source"]["file"] = source
            # Notes are removed: the service's notes are about a default installation.
            for note in answer["notes"]:
                text = text.replace(f"{fold(printable(note), '  note     ')}\n", "")
        text = re.sub(r"(?m)^(--- )?request(?=:\d)", lambda match: (match[1] or "") + printable(source), text)
        return text, [self._preview(answer, with_fit=with_fit) for answer in answers]

    def _preview(self, answer: Object, *, with_fit: bool) -> Preview:
        run = self._create(DryRun(answer, registrations=self._registrations))
        fit = self._fit(run) if with_fit and run.stored else None
        self._earlier_pods += fit.pods if fit else ()
        return run, explain(run), fit

    @cached_property
    def _registrations(self) -> list[Object] | None:
        """All MutatingWebhookConfigurations; None if the user may not read them."""
        try:
            return list(self.items(HOOKS_PATH))
        except ForbiddenError:
            return None

    def _create(self, run: DryRun) -> DryRun:
        """Creates an object as a dry run, and returns the result."""
        obj, namespace = run.received, quote(run.namespace, safe="")
        version, kind = text_at(obj, "apiVersion"), text_at(obj, "kind")
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        resource_list = self.api.get(root) if version in {"v1", *self.served_versions} else None
        resources = (item for item in maps_at(resource_list, "resources") if "/" not in text_at(item, "name"))
        resource = next((item for item in resources if item.get("kind") == kind), None)
        if resource is None:
            return replace(run, refusal=messages.not_served(kind, version))
        plural = text_at(resource, "name")
        path = f"{root}/namespaces/{namespace}/{plural}" if resource.get("namespaced") else f"{root}/{plural}"
        status, answer = self.api.create_as_dry_run(path, obj)
        return replace(
            run,
            resource=(version.rpartition("/")[0], plural),
            stored=answer if status < HTTPStatus.BAD_REQUEST else None,
            refusal=text_at(answer, "message"),
            namespace_object=self._get(f"/api/v1/namespaces/{namespace}") or {},
        )

    def _fit(self, run: DryRun) -> Fit | None:
        job = run.stored or {}
        name = name_of(job) or text_at(job, "metadata", "generateName")
        reference = JobReference(text_at(job, "kind").lower(), name)
        case = Case(reference, run.namespace, job, (), self.fleet, lease=self.lease)
        try:
            answer = service.item_of(self.api, job, pods="true", namespace=run.namespace)
        except service.UnavailableError as error:
            return Fit(fits=False, units=(), text=messages.fit_unknown(error))
        templates = self._claim_templates(run.namespace)
        return fit(case, answer["pods"], self._earlier_pods, self._priorities, templates)

    def _claim_templates(self, namespace: str) -> dict[str, Object]:
        """Returns the ResourceClaimTemplates of a namespace by name; empty if the user may not read them."""
        path = f"{API_PATH}/namespaces/{quote(namespace, safe='')}/resourceclaimtemplates"
        return {name_of(item): item for item in (self._readable(path) if self.has_claims else ())}

    @cached_property
    def _priorities(self) -> dict[str, int]:
        """The values of priority classes by name. The empty name has the value of the default class."""
        classes = self._readable("/apis/scheduling.k8s.io/v1/priorityclasses")
        values = {name_of(item): number_at(item, "value") for item in classes}
        defaults = [number_at(item, "value") for item in classes if item.get("globalDefault")]
        return values | ({"": defaults[-1]} if defaults else {})


def preview_lines(run: DryRun, findings: list[Finding], fit: Fit | None, *, total: int) -> Iterator[str]:
    """Yields lines for people: the table's revision, the API server's answer, and the job's fit."""
    if total > 1:
        title = "{file}:{line}".format(**run.answer["source"])
        kind, name = text_at(run.received, "kind"), name_of(run.received) or "*"
        yield style(f"{title}: {kind} {run.namespace}/{name}", bold=True)
    yield f"  table    {messages.table_revision(run.answer['table'])}"
    yield f"  server   {messages.server_answer(stores=bool(run.stored), differs=bool(findings))}"
    yield from (f"  {line}" for line in finding_lines(findings))
    if fit:
        yield style(f"  fit      {printable(fit.text)}", fg="green" if fit.fits else "yellow")
        yield from (f"    {printable(line)}" for line in fit.details)


def preview_json(run: DryRun, findings: list[Finding], fit: Fit | None) -> dict[str, object]:
    """Returns an item of ``preview -o json``. It has the service's answer without ``received``."""
    return {
        "preview": {key: value for key, value in run.answer.items() if key != "received"},
        "server": {"stores": bool(run.stored), "findings": [asdict(finding) for finding in findings]},
        "fit": fit and {key: value for key, value in fit._asdict().items() if key != "pods"},
    }
