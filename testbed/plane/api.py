"""The API server in this process: objects by kubectl's names for them, and watches instead of polls.

Starting kubectl costs a tenth of a second of CPU; a call from here costs a hundredth of that.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kube.api import ApiError, GoneError
from kube.client import KubernetesApi, connect
from kube.rest import check_status, decode
from testbed.waiting import PATIENCE, left

Object = dict[str, Any]

PAUSE = 0.2
"""Seconds before a server that cannot be read, or does not know a kind yet, is asked again."""


class UnknownKindError(ApiError):
    """The API server serves no kind of this name, or not yet."""


@dataclass(frozen=True)
class Wanted:
    """What ``kubectl get`` would show.

    Attributes:
        kinds: plural, singular or short names, or kinds.
        name: of the one object; None for all of them.
        query: selectors, as the API server has them.
        everywhere: in all namespaces.
        managed_fields: whether they are shown.
    """

    kinds: tuple[str, ...]
    name: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    everywhere: bool = False
    managed_fields: bool = False

    @classmethod
    def of(cls, *words: str) -> Wanted:
        """Reads the words after ``kubectl get``.

        Raises:
            ValueError: one of them is not known here.
        """
        plain, query, flags, left = [], [], set(), list(words)
        while left:
            word = left.pop(0)
            option, equals, value = word.partition("=")
            if option in {"-l", "--selector", "--field-selector"}:
                key = "fieldSelector" if option == "--field-selector" else "labelSelector"
                query.append((key, value if equals else left.pop(0)))
            elif word in {"-A", "--all-namespaces", "--show-managed-fields"}:
                flags.add(word)
            elif word.startswith("-"):
                raise ValueError(f"kubectl get {' '.join(words)}: {word} is not known here")
            else:
                plain += word.split("/")
        return cls(
            kinds=tuple(plain[0].split(",")),
            name=plain[1] if len(plain) > 1 else None,
            query=tuple(query),
            everywhere=bool(flags & {"-A", "--all-namespaces"}),
            managed_fields="--show-managed-fields" in flags,
        )


class _Api(KubernetesApi):
    """An API server without a limit on the time of calls, as for kubectl."""

    def __init__(self, kubeconfig: Path, user: str, group: str) -> None:
        super().__init__(connect(kubeconfig)._client.configuration)  # noqa: SLF001 - as it says itself
        for header, value in {"Impersonate-User": user, "Impersonate-Group": group}.items():
            if value:
                self._client.set_default_header(header, value)  # type: ignore[no-untyped-call]

    def _send(
        self,
        verb: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | tuple[float, float] = PATIENCE,
    ) -> Any:
        # A wait also ends in time if the server does not answer; the library does not accept a time of zero.
        most = max(left(PATIENCE), 0.1)
        connect_, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        return super()._send(verb, path, body, content_type, (min(connect_, most), min(read, most)))


class Client:
    """Reads, follows, creates and deletes the objects of one API server.

    Args:
        kubeconfig: The user's kubeconfig.
        user: A user to impersonate; empty for none.
        group: A group to impersonate.
    """

    def __init__(self, kubeconfig: Path, user: str = "", group: str = "") -> None:
        self._api = _Api(kubeconfig, user, group)
        self._kinds: dict[str, tuple[str, bool]] = {}
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def create(self, document: Mapping[str, Any], namespace: str | None, **options: str) -> Object:
        """Creates an object, and returns it as it is stored.

        Args:
            document: the object.
            namespace: where, unless the object says so itself.
            options: of the request, such as ``dryRun="All"``.

        Raises:
            ApiError: it was refused.
        """
        version, kind = document["apiVersion"], document["kind"]
        plural, namespaced = self._resource(version, kind)
        path = _root(version)
        if namespaced:
            path += f"/namespaces/{document['metadata'].get('namespace') or namespace or 'default'}"
        query = urlencode({"fieldManager": "kubectl-create", **options})
        return self._api.create(f"{path}/{plural}?{query}", dict(document))

    def delete(self, wanted: Wanted, namespace: str | None, *, at_once: bool = False) -> None:
        """Deletes an object, or all that are meant; those that do not exist are not an error.

        Args:
            wanted: what.
            namespace: where.
            at_once: without the time that Pods have to end: there may be no kubelet that ends them.

        Raises:
            ApiError: it was refused.
        """
        query = {"propagationPolicy": "Background"} | ({"gracePeriodSeconds": "0"} if at_once else {})
        for kind in wanted.kinds:
            path = self._path(kind, wanted, namespace)
            self._api.delete(f"{path}{'&' if '?' in path else '?'}{urlencode(query)}")

    def send(
        self, verb: str, path: str, body: object, content_type: str = "application/json"
    ) -> tuple[int, Object]:
        """Sends any request; returns the status and the answer."""
        return self._api.call(verb, path, body, content_type)

    def token(self, namespace: str, account: str) -> str:
        """Returns a token of a service account, for hours.

        Raises:
            ApiError: it was refused.
        """
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self._api.create(path, {**request, "spec": {"expirationSeconds": 4 * 3600}})
        return str(answer["status"]["token"])

    def text(self, path: str) -> str:
        """Returns what the API server says at a path, for example ``/metrics``.

        Raises:
            ApiError: it says nothing there.
        """
        status, data = self._api.fetch("GET", path, None, "", None)
        if status >= HTTPStatus.BAD_REQUEST:
            check_status("GET", path, *decode(status, data))
        return data.decode(errors="replace")

    def get(self, wanted: Wanted, namespace: str | None) -> Object | None:
        """Returns one object, or a List of all there are.

        Returns:
            It; None if the one object does not exist.

        Raises:
            ApiError: it cannot be read.
        """
        if wanted.name is not None:
            obj = self._api.get(self._path(wanted.kinds[0], wanted, namespace))
            return obj and _shown(obj, wanted)
        items: list[Object] = []
        for kind in wanted.kinds:
            items += self._listed(self._path(kind, wanted, namespace), wanted)[0].values()
        return listed(items)

    def states(self, wanted: Wanted, namespace: str | None, deadline: float) -> Iterator[Object | ApiError]:
        """Yields what ``get`` would return, now and after each change, until a time of ``time.monotonic``.

        Yields:
            An object or a List; an error while there is none, or while the API server cannot be read.
        """
        (kind,) = wanted.kinds
        while time.monotonic() < deadline:
            try:
                yield from self._followed(kind, wanted, namespace, deadline)
            except GoneError:
                continue
            except ApiError as error:
                yield error
                time.sleep(PAUSE)  # noqa: TID251 - a server that does not answer sends no event

    def _followed(
        self, kind: str, wanted: Wanted, namespace: str | None, deadline: float
    ) -> Iterator[Object | ApiError]:
        # Even one object is followed as a collection: only that can be watched from a version on.
        only = (("fieldSelector", f"metadata.name={wanted.name}"),) if wanted.name else ()
        listing = replace(wanted, name=None, query=(*wanted.query, *only))
        path = self._path(kind, listing, namespace)
        items, version = self._listed(path, wanted)

        def state() -> Object | ApiError:
            if not wanted.name:
                return listed([items[key] for key in sorted(items)])
            return next(iter(items.values()), ApiError(f"there is no {kind} {wanted.name}"))

        yield state()
        seconds = max(1, round(deadline - time.monotonic()))
        options = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        with self._api.stream(f"{path}{'&' if '?' in path else '?'}{urlencode(options)}") as events:
            for event in events:
                if event["type"] == "ERROR":
                    raise GoneError(str(event["object"].get("message")))
                key = _key(event["object"])
                if event["type"] == "DELETED":
                    items.pop(key, None)
                else:
                    items[key] = _shown(event["object"], wanted)
                yield state()

    def _listed(self, path: str, wanted: Wanted) -> tuple[dict[tuple[str, str], Object], str]:
        answer = self._api.get(path)
        if answer is None:
            raise UnknownKindError(f"{path} is not served")
        kind = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
        items = {_key(item): _shown({**kind, **item}, wanted) for item in answer["items"]}
        return items, answer["metadata"]["resourceVersion"]

    def _path(self, kind: str, wanted: Wanted, namespace: str | None) -> str:
        collection, namespaced = self._collection(kind)
        if namespaced and not wanted.everywhere:
            root, _, plural = collection.rpartition("/")
            collection = f"{root}/namespaces/{namespace or 'default'}/{plural}"
        path = f"{collection}/{wanted.name}" if wanted.name else collection
        return f"{path}?{urlencode(wanted.query)}" if wanted.query else path

    def _collection(self, kind: str) -> tuple[str, bool]:
        """Returns the path of a kind's collection, and whether it is in namespaces."""
        name = kind.lower()
        if name not in self._kinds:
            # What a name meant before it means still, when a test defines another kind of that name.
            self._kinds = self._discovered() | self._kinds
        if name not in self._kinds:
            raise UnknownKindError(f"the API server serves no {kind}")
        return self._kinds[name]

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """Returns the plural name of a kind in one version, and whether it is in namespaces."""
        known = self._resources.get(version, {})
        if kind not in known:
            listed = (self._api.get(_root(version)) or {}).get("resources", [])
            known = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in listed
                if "/" not in resource["name"]
            }
            self._resources[version] = known
        if kind not in known:
            raise UnknownKindError(f"the API server serves no {kind} of {version}")
        return known[kind]

    def _discovered(self) -> dict[str, tuple[str, bool]]:
        """Returns every name of every kind; of two with one name the first counts, as it does for kubectl."""
        groups = (self._api.get("/apis") or {}).get("groups", [])
        kinds: dict[str, tuple[str, bool]] = {}
        # The preferred version of a kind counts, and it comes first.
        versions = [
            version["groupVersion"]
            for group in groups
            for version in (group["preferredVersion"], *group["versions"])
        ]
        for root in ("/api/v1", *(f"/apis/{version}" for version in versions)):
            for kind in (self._api.get(root) or {}).get("resources", []):
                if "/" in kind["name"]:
                    continue
                group = root.split("/")[2] if root != "/api/v1" else ""
                plain = (kind["name"], kind["singularName"], kind["kind"], *kind.get("shortNames", ()))
                for name in (*plain, *(f"{word}.{group}" for word in plain)):
                    kinds.setdefault(name.lower(), (f"{root}/{kind['name']}", kind["namespaced"]))
        return kinds


@functools.cache
def client(kubeconfig: Path, user: str = "", group: str = "") -> Client:
    """Returns the client of a kubeconfig; its connections are kept."""
    return Client(kubeconfig, user, group)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _key(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _shown(item: Object, wanted: Wanted) -> Object:
    """Returns an object as kubectl shows it."""
    if not wanted.managed_fields:
        item.get("metadata", {}).pop("managedFields", None)
    return item


def listed(items: list[Object]) -> Object:
    """Returns a List as kubectl shows it."""
    return {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}
