"""Calls the API server from this process. It accepts the words of ``kubectl get``, and uses watches.

Starting kubectl takes 0.1 s of CPU time. A call from this process takes a hundredth of this time.
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
from testbed.waiting import PATIENCE, seconds_left

Object = dict[str, Any]

RETRY_SECONDS = 0.2
"""The seconds before the next attempt if the server does not answer, or does not serve a kind yet."""


class UnknownKindError(ApiError):
    """The API server does not serve a kind with this name, or does not serve it yet."""


@dataclass(frozen=True)
class Selection:
    """The objects that ``kubectl get`` would show.

    Attributes:
        kinds: The kinds, by plural, singular or short names.
        name: The name of the object; None for all objects.
        query: Selectors, as query parameters.
        all_namespaces: Whether to show objects of all namespaces.
        managed_fields: Whether to show managed fields.
    """

    kinds: tuple[str, ...]
    name: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    all_namespaces: bool = False
    managed_fields: bool = False

    @classmethod
    def of(cls, *words: str) -> Selection:
        """Returns the selection of the words after ``kubectl get``.

        Raises:
            ValueError: An option is not supported.
        """
        arguments, query, flags, remaining = [], [], set(), list(words)
        while remaining:
            word = remaining.pop(0)
            option, equals, value = word.partition("=")
            if option in {"-l", "--selector", "--field-selector"}:
                key = "fieldSelector" if option == "--field-selector" else "labelSelector"
                query.append((key, value if equals else remaining.pop(0)))
            elif word in {"-A", "--all-namespaces", "--show-managed-fields"}:
                flags.add(word)
            elif word.startswith("-"):
                raise ValueError(f"kubectl get {' '.join(words)}: {word} is not supported here")
            else:
                arguments += word.split("/")
        return cls(
            kinds=tuple(arguments[0].split(",")),
            name=arguments[1] if len(arguments) > 1 else None,
            query=tuple(query),
            all_namespaces=bool(flags & {"-A", "--all-namespaces"}),
            managed_fields="--show-managed-fields" in flags,
        )


class _Api(KubernetesApi):
    """Calls the API server with longer timeouts than the product's client."""

    def __init__(self, kubeconfig: Path, user: str, group: str) -> None:
        super().__init__(connect(kubeconfig)._client.configuration)  # noqa: SLF001 - the base class has it
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
        # A wait must end in time even without an answer. The library does not accept a timeout of zero.
        max_seconds = max(seconds_left(PATIENCE), 0.1)
        connect_, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        return super()._send(
            verb, path, body, content_type, (min(connect_, max_seconds), min(read, max_seconds))
        )


class Client:
    """Reads, watches, creates and deletes objects.

    Args:
        kubeconfig: The user's kubeconfig.
        user: A user to impersonate; empty for no impersonation.
        group: A group to impersonate; empty for none.
    """

    def __init__(self, kubeconfig: Path, user: str = "", group: str = "") -> None:
        self._api = _Api(kubeconfig, user, group)
        self._kinds: dict[str, tuple[str, bool]] = {}
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def create(self, document: Mapping[str, Any], namespace: str | None, **options: str) -> Object:
        """Creates an object, and returns the stored object.

        Args:
            document: The object.
            namespace: The namespace of the object if its metadata has no namespace.
            options: Parameters of the request, such as ``dryRun="All"``.

        Raises:
            ApiError: The object is refused.
        """
        version, kind = document["apiVersion"], document["kind"]
        plural, namespaced = self._resource(version, kind)
        path = _root(version)
        if namespaced:
            path += f"/namespaces/{document['metadata'].get('namespace') or namespace or 'default'}"
        query = urlencode({"fieldManager": "kubectl-create", **options})
        return self._api.create(f"{path}/{plural}?{query}", dict(document))

    def delete(self, selection: Selection, namespace: str | None, *, at_once: bool = False) -> None:
        """Deletes the selected objects. An object that does not exist is not an error.

        Args:
            selection: The objects.
            namespace: The namespace of the objects.
            at_once: Whether Pods get no grace period. Without a kubelet, they would never end.

        Raises:
            ApiError: The deletion is refused.
        """
        query = {"propagationPolicy": "Background"} | ({"gracePeriodSeconds": "0"} if at_once else {})
        for kind in selection.kinds:
            path = self._path(kind, selection, namespace)
            self._api.delete(f"{path}{'&' if '?' in path else '?'}{urlencode(query)}")

    def send(
        self, verb: str, path: str, body: object, content_type: str = "application/json"
    ) -> tuple[int, Object]:
        """Sends a request; returns the HTTP status and the answer."""
        return self._api.call(verb, path, body, content_type)

    def token(self, namespace: str, account: str) -> str:
        """Returns a token of a service account, which is valid for four hours.

        Raises:
            ApiError: The token is refused.
        """
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self._api.create(path, {**request, "spec": {"expirationSeconds": 4 * 3600}})
        return str(answer["status"]["token"])

    def text(self, path: str) -> str:
        """Returns the text that the API server serves at a path, for example ``/metrics``.

        Raises:
            ApiError: The API server does not serve the path.
        """
        status, data = self._api.fetch("GET", path, None, "", None)
        if status >= HTTPStatus.BAD_REQUEST:
            check_status("GET", path, *decode(status, data))
        return data.decode(errors="replace")

    def get(self, selection: Selection, namespace: str | None) -> Object | None:
        """Reads the selected object or objects.

        Returns:
            The object or List; None if a named object does not exist.

        Raises:
            ApiError: An object cannot be read.
        """
        if selection.name is not None:
            obj = self._api.get(self._path(selection.kinds[0], selection, namespace))
            return obj and _as_shown(obj, selection)
        items: list[Object] = []
        for kind in selection.kinds:
            items += self._list(self._path(kind, selection, namespace), selection)[0].values()
        return as_list(items)

    def states(
        self, selection: Selection, namespace: str | None, deadline: float
    ) -> Iterator[Object | ApiError]:
        """Yields the result of ``get`` now and after each change, until a time of ``time.monotonic``.

        Yields:
            An object or a List; an error if the object does not exist, or the API server does not answer.
        """
        (kind,) = selection.kinds
        while time.monotonic() < deadline:
            try:
                yield from self._follow(kind, selection, namespace, deadline)
            except GoneError:
                continue
            except ApiError as error:
                yield error
                time.sleep(RETRY_SECONDS)  # noqa: TID251 - a server that does not answer sends no event

    def _follow(
        self, kind: str, selection: Selection, namespace: str | None, deadline: float
    ) -> Iterator[Object | ApiError]:
        # Only a collection can be watched from a resource version on, so a field selector selects an object.
        by_name = (("fieldSelector", f"metadata.name={selection.name}"),) if selection.name else ()
        listing = replace(selection, name=None, query=(*selection.query, *by_name))
        path = self._path(kind, listing, namespace)
        items, version = self._list(path, selection)

        def state() -> Object | ApiError:
            if not selection.name:
                return as_list([items[key] for key in sorted(items)])
            return next(iter(items.values()), ApiError(f"there is no {kind} {selection.name}"))

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
                    items[key] = _as_shown(event["object"], selection)
                yield state()

    def _list(self, path: str, selection: Selection) -> tuple[dict[tuple[str, str], Object], str]:
        answer = self._api.get(path)
        if answer is None:
            raise UnknownKindError(f"{path} is not served")
        kind = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
        items = {_key(item): _as_shown({**kind, **item}, selection) for item in answer["items"]}
        return items, answer["metadata"]["resourceVersion"]

    def _path(self, kind: str, selection: Selection, namespace: str | None) -> str:
        collection, namespaced = self._collection(kind)
        if namespaced and not selection.all_namespaces:
            root, _, plural = collection.rpartition("/")
            collection = f"{root}/namespaces/{namespace or 'default'}/{plural}"
        path = f"{collection}/{selection.name}" if selection.name else collection
        return f"{path}?{urlencode(selection.query)}" if selection.query else path

    def _collection(self, kind: str) -> tuple[str, bool]:
        """Returns the path of a kind's collection, and whether the kind is namespaced."""
        name = kind.lower()
        if name not in self._kinds:
            # If a test defines another kind with a known name, the name still means the first kind.
            self._kinds = self._discover_kinds() | self._kinds
        if name not in self._kinds:
            raise UnknownKindError(f"the API server serves no {kind}")
        return self._kinds[name]

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """Returns the plural name of a kind in an API version, and whether the kind is namespaced."""
        resources = self._resources.get(version, {})
        if kind not in resources:
            items = (self._api.get(_root(version)) or {}).get("resources", [])
            resources = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in items
                if "/" not in resource["name"]
            }
            self._resources[version] = resources
        if kind not in resources:
            raise UnknownKindError(f"the API server serves no {kind} of {version}")
        return resources[kind]

    def _discover_kinds(self) -> dict[str, tuple[str, bool]]:
        """Returns the path and scope of each kind, by all its names. The first kind with a name is used."""
        groups = (self._api.get("/apis") or {}).get("groups", [])
        kinds: dict[str, tuple[str, bool]] = {}
        # The preferred version of a group comes first, so that it is used.
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
                names = (kind["name"], kind["singularName"], kind["kind"], *kind.get("shortNames", ()))
                for name in (*names, *(f"{plain_name}.{group}" for plain_name in names)):
                    kinds.setdefault(name.lower(), (f"{root}/{kind['name']}", kind["namespaced"]))
        return kinds


@functools.cache
def client(kubeconfig: Path, user: str = "", group: str = "") -> Client:
    """Returns the client of a kubeconfig and user. It is cached, so that connections are reused."""
    return Client(kubeconfig, user, group)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _key(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _as_shown(item: Object, selection: Selection) -> Object:
    """Returns an object as kubectl shows it."""
    if not selection.managed_fields:
        item.get("metadata", {}).pop("managedFields", None)
    return item


def as_list(items: list[Object]) -> Object:
    """Returns the List that kubectl shows for these objects."""
    return {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}
