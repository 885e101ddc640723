"""Runs kubectl, or calls the API server in its place, which is faster."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kube.api import ApiError
from testbed.plane.api import Client, Object, Selection, as_list, client
from testbed.waiting import PATIENCE, NotYetError, seconds_left

CREATE_OPTIONS = {
    "--dry-run=server": {"dryRun": "All"},
    "--validate=false": {"fieldValidation": "Ignore"},
}


MAX_SECONDS = 300.0
"""The maximum seconds that kubectl runs, for example while it waits for a rollout."""


class KubectlError(RuntimeError):
    """kubectl failed. ``code`` is its exit status, and ``stderr`` its error message."""

    def __init__(self, args: Iterable[str], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(args)}: exit status {code}\n{stderr}{stdout}")
        self.code = code
        self.stdout = stdout
        self.stderr = stderr


MAX_CHARACTERS = 6000
"""The maximum number of characters of the last state in an error of a wait."""


def _name_of(condition: Callable[[Object], object]) -> str:
    """Returns the name of a condition for an error: its function's name, or the line of a lambda."""
    name, code = getattr(condition, "__name__", repr(condition)), getattr(condition, "__code__", None)
    if name != "<lambda>" or code is None:
        return name
    return f"the condition in {code.co_filename}:{code.co_firstlineno}"


def _short(obj: Object) -> str:
    """Returns an object or List as a text for errors. Each object is a line: kind, status, metadata, spec."""
    items = obj.get("items", [obj])
    length = max(MAX_CHARACTERS // max(len(items), 1), 400)
    parts = [
        {key: item[key] for key in ("kind", "status", "metadata", "spec") if key in item} for item in items
    ]
    return "\n".join(json.dumps(item)[:length] for item in parts) or "none"


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with a kubeconfig, and optionally in a namespace and as another user."""

    binary: Path
    kubeconfig: Path
    namespace: str | None = None
    user: str = ""
    group: str = ""

    def in_namespace(self, namespace: str) -> Kubectl:
        """Returns a kubectl for another namespace."""
        return replace(self, namespace=namespace)

    def acting_as(self, user: str, group: str = "") -> Kubectl:
        """Returns a kubectl that impersonates a user or ``system:serviceaccount:NAMESPACE:NAME``."""
        return replace(self, user=user, group=group)

    @property
    def api(self) -> Client:
        """The client that calls the API server without kubectl, as the same user."""
        return client(self.kubeconfig, self.user, self.group)

    def run(
        self, *args: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl.

        Args:
            args: The command line after ``kubectl``.
            stdin: The standard input.
            check: Whether an exit status other than zero is an error.

        Raises:
            KubectlError: The exit status is not zero.
        """
        values = {"namespace": self.namespace or "", "as": self.user, "as-group": self.group}
        options = [f"--{option}={value}" for option, value in values.items() if value]
        env = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            # kubectl must not use the settings and caches of the user who runs the tests.
            "KUBECACHEDIR": str(self.kubeconfig.parent / "kubectl-cache"),
            "KUBERC": "off",
        }
        result = subprocess.run(
            [str(self.binary), *options, *args],
            input=stdin,
            env=env,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAX_SECONDS,
        )
        if check and result.returncode:
            raise KubectlError(args, result.returncode, result.stdout, result.stderr)
        return result

    def get_json(self, *args: str) -> Object:
        """Returns the object or List of ``kubectl get ARGS -o json``, without starting kubectl.

        Raises:
            KubectlError: The object does not exist, or cannot be read.
        """
        with _kubectl_errors("get", *args):
            answer = self.api.get(Selection.of(*args), self.namespace)
        if answer is None:
            raise KubectlError(("get", *args), 1, "", "Error from server (NotFound): there is none")
        return answer

    def apply(self, document: str | Mapping[str, object], *args: str) -> Object:
        """Runs ``kubectl apply -f - ARGS``, and returns the stored object or List."""
        text = document if isinstance(document, str) else json.dumps(document)
        answers = objects(self.run("apply", "-f", "-", "-o", "json", *args, stdin=text).stdout)
        return answers[0] if len(answers) == 1 else as_list(answers)

    def create(self, document: Mapping[str, Any], *args: str) -> Object:
        """Creates an object or a List like ``kubectl create -f - ARGS``, without starting kubectl.

        Args:
            document: An object or a List.
            args: ``--dry-run=server``, or ``--validate=false`` to permit unknown fields.

        Returns:
            The stored object or List.

        Raises:
            KubectlError: An object is refused.
        """
        options = {"fieldValidation": "Strict"}
        for word in args:
            options |= CREATE_OPTIONS[word]
        is_list = document["kind"] == "List"
        with _kubectl_errors("create", "-f", "-", *args):
            created = [
                self.api.create(item, self.namespace, **options)
                for item in (document["items"] if is_list else [document])
            ]
        return as_list(created) if is_list else created[0]

    def delete(self, *selection: str, at_once: bool = False) -> None:
        """Deletes the objects of ``kubectl get SELECTION``, without starting kubectl or waiting for the end.

        Args:
            selection: Kinds, a name, selectors.
            at_once: Whether Pods get no grace period. Without a kubelet, they would never end.

        Raises:
            KubectlError: The deletion is refused.
        """
        with _kubectl_errors("delete", *selection):
            self.api.delete(Selection.of(*selection), self.namespace, at_once=at_once)

    def wait_for(self, condition: Callable[[Object], object], *get: str, timeout: float = PATIENCE) -> Object:
        """Watches the objects of ``kubectl get`` until ``condition`` holds, and returns them.

        Raises:
            NotYetError: The condition does not hold in time; the message has the last state.
        """
        last: object = "nothing"
        timeout = seconds_left(timeout)
        states = self.api.states(Selection.of(*get), self.namespace, time.monotonic() + timeout)
        for last in states:
            if not isinstance(last, ApiError) and condition(last):
                return last
        state = _short(last) if isinstance(last, dict) else last
        where = f" in {self.namespace}" if self.namespace else ""
        raise NotYetError(
            f"waited {timeout:.0f} s for {_name_of(condition)} of {' '.join(get)}{where}; last seen:\n{state}"
        )

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Kubectl:
        """Creates a namespace, waits until Pods can be created in it, and returns a kubectl for it."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return self._ready_namespace(name)

    def share_namespace(self, name: str) -> Kubectl:
        """Returns a kubectl for a namespace that several tests use, and creates it if it is missing."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return self._ready_namespace(name)

    def _ready_namespace(self, name: str) -> Kubectl:
        namespace = self.in_namespace(name)
        # The API server refuses Pods until the controller manager has created the default service account.
        namespace.wait_for(lambda _: True, "serviceaccount", "default")
        return namespace


@contextlib.contextmanager
def _kubectl_errors(*command: str) -> Iterator[None]:
    """Raises an error of the API server as an error of kubectl."""
    try:
        yield
    except ApiError as error:
        raise KubectlError(command, 1, "", str(error)) from error


def objects(text: str) -> list[Object]:
    """Returns all JSON objects of kubectl's output, which has one object after the other."""
    decoder = json.JSONDecoder()
    documents, position = [], 0
    while text[position:].strip():
        value, position = decoder.raw_decode(
            text, position + len(text[position:]) - len(text[position:].lstrip())
        )
        documents.append(value)
    return documents
