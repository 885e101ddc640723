"""The real kubectl, for tests: what a person types, with its answer as text or JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.tools import build
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Object = dict[str, Any]


class KubectlError(RuntimeError):
    """Kubectl refused; ``stderr`` is what it said, ``code`` its exit status."""

    def __init__(self, args: Iterable[str], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(args)}: exit status {code}\n{stderr}{stdout}")
        self.code = code
        self.stdout = stdout
        self.stderr = stderr


class NotYetError(AssertionError):
    """What was waited for did not come about in time."""


def program() -> Path:
    """The kubectl that the cluster tests use, or else the machine's own.

    Raises:
        FileNotFoundError: there is none.
    """
    kit = build.CONTROL_PLANE.directory() / "kubectl"
    found = str(kit) if kit.exists() else shutil.which("kubectl")
    if found is None:
        raise FileNotFoundError("there is no kubectl: make cluster-tools")
    return Path(found)


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with one kubeconfig, optionally in one namespace, optionally as somebody else."""

    binary: Path
    kubeconfig: Path
    namespace: str | None = None
    identity: tuple[str, ...] = ()

    def in_namespace(self, namespace: str) -> Kubectl:
        """The same, for another namespace."""
        return replace(self, namespace=namespace)

    def acting_as(self, user: str, *groups: str) -> Kubectl:
        """The same, impersonating a user (``system:serviceaccount:NAMESPACE:NAME`` for a service account)."""
        return replace(self, identity=(f"--as={user}", *(f"--as-group={group}" for group in groups)))

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
        where = [] if self.namespace is None else [f"--namespace={self.namespace}"]
        env = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            # A person's own kubectl settings and caches are neither read nor written.
            "KUBECACHEDIR": str(self.kubeconfig.parent / "kubectl-cache"),
            "KUBERC": "off",
        }
        done = subprocess.run(
            [str(self.binary), *where, *self.identity, *args],
            input=stdin,
            env=env,
            check=False,
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise KubectlError(args, done.returncode, done.stdout, done.stderr)
        return done

    def get_json(self, *args: str) -> Object:
        """``kubectl get ARGS -o json``: one object, or a List."""
        found: Object = json.loads(self.run("get", *args, "-o", "json").stdout)
        return found

    def apply(self, document: str | Mapping[str, object], *args: str) -> Object:
        """``kubectl apply -f - ARGS``, and the object as the API server then has it."""
        return self._send("apply", document, args)

    def create(self, document: str | Mapping[str, object], *args: str) -> Object:
        """``kubectl create -f - ARGS``, and the object as the API server then has it."""
        return self._send("create", document, args)

    def wait_for(self, condition: Callable[[Object], object], *get: str, timeout: float = PATIENCE) -> Object:
        """Repeats ``kubectl get`` until ``condition`` holds of its answer, which is returned.

        Raises:
            NotYetError: the time is over; the message has the last answer.
        """
        deadline = time.monotonic() + timeout
        while True:
            done = self.run("get", *get, "-o", "json", check=False)
            answer: Object = {} if done.returncode else json.loads(done.stdout)
            if answer and condition(answer):
                return answer
            if time.monotonic() > deadline:
                last = json.dumps(answer, indent=1)[-4000:] if answer else done.stderr
                raise NotYetError(
                    f"kubectl get {' '.join(get)}: not as hoped in {timeout:.0f} s; last seen:\n{last}"
                )
            time.sleep(0.1)

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Kubectl:
        """Makes a namespace, waits until Pods can be made in it, and returns kubectl for it."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        inside = self.in_namespace(name)
        # Pods are refused until the controller manager has made the account that they run as.
        inside.wait_for(lambda _: True, "serviceaccount", "default")
        return inside

    def _send(self, verb: str, document: str | Mapping[str, object], args: tuple[str, ...]) -> Object:
        text = document if isinstance(document, str) else json.dumps(document)
        answers = objects(self.run(verb, "-f", "-", "-o", "json", *args, stdin=text).stdout)
        return answers[0] if len(answers) == 1 else {"apiVersion": "v1", "kind": "List", "items": answers}


def objects(text: str) -> list[Object]:
    """All objects of a stream: for a List, kubectl prints one after the other with nothing in between."""
    decoder = json.JSONDecoder()
    found, at = [], 0
    while text[at:].strip():
        value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        found.append(value)
    return found
