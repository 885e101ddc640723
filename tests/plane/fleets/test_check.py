"""``kubectl ultraserver check`` on what the manifests install: whole, and with one thing broken at a time.

No kubelet runs here: what one would say of the pods is written into their status.
"""

import base64
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from certs import authority
from testbed import chart
from testbed.images import product
from testbed.plane import managers, placement, webhook
from testbed.plane import previews as served
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import end, together
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.placement import NAMESPACE
from testbed.plane.plugin import account, eventually, plugin
from testbed.plane.previews import mark_running
from testbed.plane.webhook import NAME, RunningWebhook
from testbed.release.pyz import write
from testbed.waiting import until
from tests.nodes.processes import about, processes
from tests.plane.fleets.installed import MERGE

HOME = f"/api/v1/namespaces/{NAMESPACE}"
SCALED = "HorizontalPodAutoscaler"
"""Left out: it would make a second replica after a while."""


@dataclass
class Installed:
    """An installation, whose serving pod is a process of this machine."""

    plane: ControlPlane
    inside: Kubectl
    running: RunningWebhook
    tls: Path
    pod: str

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Changes an object, once the API server lets it: it learns a moment later that a webhook is gone."""

        def changed() -> bool:
            return self.inside.api.send("PATCH", path, change, MERGE)[0] == HTTPStatus.OK

        until(changed, f"a change of {path}")

    def line_of(self, of: str, *words: str, before: bool = False) -> Object:
        """Returns the line of a check that has all these words, once there is one."""

        def line(value: Any) -> Object | None:
            lines = [line for line in value["lines"] if line["check"] == of]
            return next(
                (one for one in lines if all(word in f"{one['status']} {one['text']}" for word in words)),
                None,
            )

        report = eventually(self.inside, ["check", *(["--pre"] if before else [])], line)
        return line(report)

    @contextlib.contextmanager
    def patched(self, path: str, change: Mapping[str, Any], back: Mapping[str, Any]) -> Iterator[None]:
        """Yields an object is changed."""
        self.patch(path, change)
        try:
            yield
        finally:
            self.patch(path, back)

    @contextlib.contextmanager
    def without(self, kind: str, name: str, namespace: str = NAMESPACE) -> Iterator[None]:
        """Yields an object is not there."""
        where = self.plane.kubectl.in_namespace(namespace)
        kept = where.get_json(kind, name)
        where.delete(kind, name)
        try:
            yield
        finally:
            own = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
            kept["metadata"] = {key: value for key, value in kept["metadata"].items() if key not in own}
            where.create(kept)


@pytest.fixture(scope="module")
def nothing(plane: ControlPlane) -> Kubectl:
    """A namespace for jobs, before anything is installed."""
    return plane.kubectl.create_namespace("check")


@pytest.fixture(scope="module")
def installed(plane: ControlPlane, nothing: Kubectl, passed_on: None) -> Iterator[Installed]:
    """What the chart's default installs."""
    assert passed_on is None
    rules, tls = placement.install(plane), plane.folder / "check-tls"
    running = webhook.start(plane.programs, tls, rules, "check", ["--host", "0.0.0.0"])  # noqa: S104
    before = Path(shutil.copytree(rules, plane.folder / "previews"))
    previews, port = served.start(plane, before)
    ports = {NAME: int(running.url.rpartition(":")[2]), served.NAME: port}
    parts = managers.on_loopback(chart.objects(), running.url, running.ca)
    for part in parts:
        if part["metadata"]["name"] in ports and part["kind"] == "Deployment":
            (container,) = part["spec"]["template"]["spec"]["containers"]
            container["ports"][0]["containerPort"] = ports[part["metadata"]["name"]]
    plane.kubectl.apply(together(*(part for part in parts if part["kind"] != SCALED)))
    bundle = base64.b64encode(running.ca.read_bytes()).decode()
    home = plane.kubectl.in_namespace(NAMESPACE)
    home.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{NAME}-tls"},
            "data": {"ca.crt": bundle},
        }
    )
    pods = home.wait_for(lambda serving: len(serving["items"]) == 5, "pods")["items"]
    (pod,) = [value["metadata"]["name"] for value in pods if "serving" in str(value["metadata"]["labels"])]
    made = Installed(plane, nothing, running, tls, pod)
    for serving in pods:
        mark_running(home, serving["metadata"]["name"])
    program = placement.start(plane, "leader")
    webhook.wait_until_called(nothing, {f"mpijobs.{NAME}.io"}, webhook.PROBE)
    yield made
    for left in [
        one
        for one in plane.programs.running
        if one.name in {program.name, running.program.name, previews.name}
    ]:
        plane.programs.stop(left)
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        home.delete(kind, NAME)
    # Its guard would refuse what other values of the chart let pass.
    home.delete("validatingadmissionpolicybindings,validatingadmissionpolicies")
    home.delete("deployments")
    home.delete("service", served.NAME)
    end(home, "pods")


def test_a_cluster_is_looked_at_before(nothing: Kubectl, plane: ControlPlane, tmp_path: Path) -> None:
    done = plugin(nothing, "check", "--pre")
    assert done.returncode == 0, done.stdout
    assert f"[pass] namespace: namespace {NAMESPACE} is created by the installation\n" in done.stdout
    assert "[pass] nodes: 12 nodes of 3 UltraServers\n" in done.stdout
    assert "[warn] operators: no Deployment has an image mpi-operator" in done.stdout  # it is a process here
    person = account(nothing, "ada", tmp_path)
    done = plugin(nothing, "check", "--pre", kubeconfig=person)
    assert done.returncode == 1
    assert "[fail] rights: you may not create namespaces, " in done.stdout
    assert "[warn] nodes: not checked: cannot list nodes" in done.stdout
    home = plane.kubectl.create_namespace(NAMESPACE)
    home.run("create", "quota", "few", "--hard=count/pods=0")
    home.wait_for(lambda obj: obj.get("status", {}).get("hard"), "resourcequota", "few")
    result = Installed(plane, nothing, None, tmp_path, "").line_of(
        "namespace", "fail", "exceeded quota: few", before=True
    )
    assert result["remedy"]
    home.delete("resourcequota", "few")


def test_a_whole_installation_passes(installed: Installed) -> None:
    installed.line_of("placement", "leader leads")
    value = eventually(installed.inside, ["check"], lambda obj: not obj["fail"])
    assert {line["check"] for line in value["lines"] if line["status"] == "warn"} == {"operators"}
    texts = [f"{line['check']}: {line['text']}" for line in value["lines"]]
    assert f"certificates: the certificate of {installed.pod} is valid for 29 days" in texts
    assert "guard: 3 policies are enforced" in texts
    assert f"tables: the installation is {product.version()}, this plugin is {product.version()}" in texts
    assert "job: an MPIJob in namespace check is changed in a dry run" in texts
    assert plugin(installed.inside, "check").returncode == 0


@contextlib.contextmanager
def untrusted(made: Installed) -> Iterator[None]:
    """Yields the replica serves what another authority signed, for two days."""
    kept = {name: (made.tls / name).read_bytes() for name in ("tls.key", "tls.crt")}
    now = datetime.now(UTC)
    other = authority.new_authority(now, timedelta(days=2))
    leaf = authority.issue(other, now, timedelta(days=2), ["127.0.0.1"])
    files = {"tls.key": leaf.key_pem(), "tls.crt": leaf.certificate_pem()}
    bundle = base64.b64encode(other.certificate_pem()).decode()
    secret = {"data": {"ca.crt": base64.b64encode(made.running.ca.read_bytes()).decode()}}
    for name, content in files.items():
        (made.tls / name).write_bytes(content)
    with made.patched(f"{HOME}/secrets/{NAME}-tls", {"data": {"ca.crt": bundle}}, secret):
        yield
    for name, content in kept.items():
        (made.tls / name).write_bytes(content)


@contextlib.contextmanager
def unbound(made: Installed) -> Iterator[None]:
    """Yields an operator whose account the guard does not know, and that does not run."""
    there = made.plane.kubectl.create_namespace("ml-system")
    there.run("create", "deployment", "ours", "--image=registry.example.com/mpi-operator:0.8.0")
    yield
    there.delete("deployment", "ours")


@contextlib.contextmanager
def another_kind(made: Installed) -> Iterator[None]:
    made.plane.kubectl.create(managers.definition("jobset.x-k8s.io/v1alpha2", "JobSet"))
    yield
    made.plane.kubectl.delete("crd", "jobsets.jobset.x-k8s.io")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin as one file, for a Python without packages."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "plugin.pyz").write_bytes(write.pyz(webhook.REPOSITORY, product.version()))
    script = folder / "kubectl-ultraserver"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {folder}/plugin.pyz "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return folder


def proxies(folder: Path) -> list[str]:
    """Processes that listen below a folder."""
    matching = [about(process, "cmdline") for process in processes()]
    return [line for line in matching if str(folder) in line and "proxy" in line]


def test_the_plugin_in_one_file_finds_the_same(installed: Installed, file: Path, tmp_path: Path) -> None:
    env = {
        "PATH": f"{file}:{installed.inside.binary.parent}:/usr/bin:/bin",
        "TMPDIR": str(tmp_path),
        "KUBERC": "off",
    }
    env |= {"KUBECONFIG": str(installed.inside.kubeconfig), "HOME": str(tmp_path)}
    command = [str(installed.inside.binary), "ultraserver", "check", "-n", "check"]
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    assert done.stdout == plugin(installed.inside, "check").stdout
    assert (done.returncode, done.stderr, proxies(tmp_path)) == (0, "", [])
    env |= {"KUBECONFIG": str(tmp_path / "none")}
    done = subprocess.run([*command, "-o", "json"], env=env, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no kubeconfig names a cluster: ")


def test_its_proxy_ends_with_it_in_every_case(installed: Installed, file: Path, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, '{file}/plugin.pyz')\n"
        "from kubectl_ultraserver.proxy import connect_as_user\n"
        f"api, space = connect_as_user('{installed.inside.kubeconfig}', None)\n"
        "print(space, sum(len(page['items']) for page in api.pages('/api/v1/nodes')), flush=True)\n"
        "input()\n"
    )
    env = {
        "PATH": f"{installed.inside.binary.parent}:/usr/bin:/bin",
        "TMPDIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "default 14\n"
        assert proxies(tmp_path)
        process.kill()
    until(lambda: not proxies(tmp_path), "the end of kubectl proxy")


Broken = Callable[[Installed], contextlib.AbstractContextManager[None]]
CASES: dict[str, tuple[Broken, dict[str, tuple[str, ...]]]] = {
    "certificate": (
        untrusted,
        {
            "certificates": ("warn", "is valid for 1 days"),
            "registrations": (
                "fail",
                "MutatingWebhookConfiguration: the caBundle does not match",
                f"mpijobs.{NAME}.io",
            ),
        },
    ),
    "registration": (
        lambda made: made.without("mutatingwebhookconfiguration", NAME),
        {
            "registrations": ("fail", f"there is no MutatingWebhookConfiguration {NAME}"),
            "job": ("fail", "no MutatingWebhookConfiguration sends MPIJobs to it"),
            "left out": ("warn", "namespaces left out: check, default"),
        },
    ),
    "guard": (
        lambda made: made.without("validatingadmissionpolicybinding", f"{NAME}-guard-jobs"),
        {"guard": ("fail", f"missing, or without a binding: {NAME}-guard-jobs")},
    ),
    "operator": (
        unbound,
        {
            "operators": ("fail", "mpi-operator 0.8.0 is ml-system/ours, with 0 of 1 pods ready"),
            "guard": ("fail", "the guard refuses the pods of system:serviceaccount:ml-system:default"),
        },
    ),
    "kind": (another_kind, {"left out": ("warn", "not sent: ", "jobset.x-k8s.io/v1alpha2/jobsets")}),
}
"""What depends on how the API server stores objects or answers; the quick test of `check` has the rest."""


@pytest.mark.parametrize("case", CASES)
def test_broken_parts_are_reported(installed: Installed, case: str) -> None:
    broken, expected = CASES[case]
    with broken(installed):
        for of, words in expected.items():
            installed.line_of(of, *words)


def test_a_replica_that_does_not_answer_is_named(installed: Installed) -> None:
    installed.plane.programs.stop(installed.running.program)
    result = installed.line_of("tables", "fail", f"{installed.pod} did not answer: ")
    assert "security group" in result["remedy"]
    installed.line_of("job", "fail", "did not answer")
