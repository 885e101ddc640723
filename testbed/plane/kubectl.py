"""The real kubectl, for tests: what a person types, with its answer as text or JSON."""

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
from testbed.plane.api import Client, Object, Wanted, client, listed
from testbed.waiting import PATIENCE, NotYetError, left

CREATE_OPTIONS = {
    "--dry-run=server": {"dryRun": "All"},
    "--validate=false": {"fieldValidation": "Ignore"},
}


LONGEST = 300.0
"""Seconds after which a kubectl that does not end is ended: it may wait for a rollout."""


class KubectlError(RuntimeError):
    """Kubectl refused; ``stderr`` is what it said, ``code`` its exit status."""

    def __init__(self, args: Iterable[str], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(args)}: exit status {code}\n{stderr}{stdout}")
        self.code = code
        self.stdout = stdout
        self.stderr = stderr


SHOWN = 6000
"""Characters that a failure shows of what it saw last."""


def _named(condition: Callable[[Object], object]) -> str:
    """Returns the name of a condition for a failure: its function's name, or its file and line."""
    name, code = getattr(condition, "__name__", repr(condition)), getattr(condition, "__code__", None)
    if name != "<lambda>" or code is None:
        return name
    return f"what {code.co_filename}:{code.co_firstlineno} says"


def _short(obj: Object) -> str:
    """Returns what a failure shows of an object or a List: a line each, first what others wrote of it."""
    items = obj.get("items", [obj])
    room = max(SHOWN // max(len(items), 1), 400)
    shown = [
        {key: item[key] for key in ("kind", "status", "metadata", "spec") if key in item} for item in items
    ]
    return "\n".join(json.dumps(item)[:room] for item in shown) or "none"


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with one kubeconfig, optionally in one namespace, optionally as another user."""

    binary: Path
    kubeconfig: Path
    namespace: str | None = None
    user: str = ""
    group: str = ""

    def in_namespace(self, namespace: str) -> Kubectl:
        """Returns the same, for another namespace."""
        return replace(self, namespace=namespace)

    def acting_as(self, user: str, group: str = "") -> Kubectl:
        """Returns kubectl that impersonates a user (``system:serviceaccount:NAMESPACE:NAME``: an account)."""
        return replace(self, user=user, group=group)

    @property
    def api(self) -> Client:
        """The API server without kubectl, for the same person."""
        return client(self.kubeconfig, self.user, self.group)

    def run(
        self, *args: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl.

        Args:
            args: the command line after ``kubectl``.
            stdin: fed to it.
            check: whether an exit status other than zero is an error.

        Raises:
            KubectlError: the exit status was not zero.
        """
        options = {"namespace": self.namespace or "", "as": self.user, "as-group": self.group}
        where = [f"--{option}={value}" for option, value in options.items() if value]
        env = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            # A person's own kubectl settings and caches are neither read nor written.
            "KUBECACHEDIR": str(self.kubeconfig.parent / "kubectl-cache"),
            "KUBERC": "off",
        }
        done = subprocess.run(
            [str(self.binary), *where, *args],
            input=stdin,
            env=env,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST,
        )
        if check and done.returncode:
            raise KubectlError(args, done.returncode, done.stdout, done.stderr)
        return done

    def get_json(self, *args: str) -> Object:
        """Returns what ``kubectl get ARGS -o json`` prints, one object or a List, without kubectl.

        Raises:
            KubectlError: there is no such object, or it cannot be read.
        """
        with _refused("get", *args):
            answer = self.api.get(Wanted.of(*args), self.namespace)
        if answer is None:
            raise KubectlError(("get", *args), 1, "", "Error from server (NotFound): there is none")
        return answer

    def apply(self, document: str | Mapping[str, object], *args: str) -> Object:
        """Runs ``kubectl apply -f - ARGS``, and returns the object as the API server then has it."""
        text = document if isinstance(document, str) else json.dumps(document)
        answers = objects(self.run("apply", "-f", "-", "-o", "json", *args, stdin=text).stdout)
        return answers[0] if len(answers) == 1 else listed(answers)

    def create(self, document: Mapping[str, Any], *args: str) -> Object:
        """Returns what ``kubectl create -f - ARGS`` does, without kubectl; of a List, each object by itself.

        Args:
            document: an object or a List.
            args: ``--dry-run=server``, or ``--validate=false`` for fields that the API server does not know.

        Returns:
            The object or the List as the API server then has it.

        Raises:
            KubectlError: one was refused.
        """
        options = {"fieldValidation": "Strict"}
        for word in args:
            options |= CREATE_OPTIONS[word]
        many = document["kind"] == "List"
        with _refused("create", "-f", "-", *args):
            made = [
                self.api.create(item, self.namespace, **options)
                for item in (document["items"] if many else [document])
            ]
        return listed(made) if many else made[0]

    def delete(self, *what: str, at_once: bool = False) -> None:
        """Deletes what ``kubectl get WHAT`` would show, without kubectl, and waits for nothing.

        Args:
            what: kinds, a name, selectors.
            at_once: without the time that Pods have to end: there may be no kubelet that ends them.

        Raises:
            KubectlError: it was refused.
        """
        with _refused("delete", *what):
            self.api.delete(Wanted.of(*what), self.namespace, at_once=at_once)

    def wait_for(self, condition: Callable[[Object], object], *get: str, timeout: float = PATIENCE) -> Object:
        """Follows what ``kubectl get`` would print until ``condition`` holds for it, and returns that.

        Raises:
            NotYetError: the time is over; the message has what was seen last.
        """
        last: object = "nothing"
        timeout = left(timeout)
        states = self.api.states(Wanted.of(*get), self.namespace, time.monotonic() + timeout)
        for last in states:
            if not isinstance(last, ApiError) and condition(last):
                return last
        state = _short(last) if isinstance(last, dict) else last
        where = f" in {self.namespace}" if self.namespace else ""
        raise NotYetError(
            f"waited {timeout:.0f} s for {_named(condition)} of {' '.join(get)}{where}; last seen:\n{state}"
        )

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Kubectl:
        """Makes a namespace, waits until Pods can be made in it, and returns kubectl for it."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return self._ready_namespace(name)

    def share_namespace(self, name: str) -> Kubectl:
        """Returns kubectl for a namespace that several tests use; makes it if it is missing."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return self._ready_namespace(name)

    def _ready_namespace(self, name: str) -> Kubectl:
        inside = self.in_namespace(name)
        # Pods are refused until the controller manager has made the account that they run as.
        inside.wait_for(lambda _: True, "serviceaccount", "default")
        return inside


@contextlib.contextmanager
def _refused(*command: str) -> Iterator[None]:
    """Yields what the API server refuses is an error as kubectl's own."""
    try:
        yield
    except ApiError as error:
        raise KubectlError(command, 1, "", str(error)) from error


def objects(text: str) -> list[Object]:
    """Returns all objects of a stream: kubectl prints those of a List one after the other."""
    decoder = json.JSONDecoder()
    documents, at = [], 0
    while text[at:].strip():
        value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        documents.append(value)
    return documents
