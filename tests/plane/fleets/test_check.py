"""Tests of ``kubectl ultraserver check`` on a complete installation, and with one broken part at a time.

No kubelet runs: the tests write the status of the Pods themselves.
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
from testbed.plane import managers, placement, previews, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import delete_all, list_object
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.placement import NAMESPACE
from testbed.plane.plugin import account, eventually, plugin
from testbed.plane.previews import mark_running
from testbed.plane.webhook import NAME, RunningWebhook
from testbed.release.pyz import write
from testbed.waiting import until
from tests.nodes.processes import processes, read_proc
from tests.plane.fleets.installed import MERGE

HOME = f"/api/v1/namespaces/{NAMESPACE}"
AUTOSCALER = "HorizontalPodAutoscaler"
"""The tests do not create this kind, because it would add a second replica after some time."""


@dataclass
class Installed:
    """An installation whose webhook runs as a process of this machine."""

    plane: ControlPlane
    inside: Kubectl
    running: RunningWebhook
    tls: Path
    pod: str

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Changes an object. Repeats the request while the API server still calls a removed webhook."""

        def is_changed() -> bool:
            return self.inside.api.send("PATCH", path, change, MERGE)[0] == HTTPStatus.OK

        until(is_changed, f"a change of {path}")

    def line_of(self, check: str, *words: str, pre: bool = False) -> Object:
        """Waits until a line of a check has all these words, and returns the line."""

        def line(value: Any) -> Object | None:
            lines = [line for line in value["lines"] if line["check"] == check]
            return next(
                (row for row in lines if all(word in f"{row['status']} {row['text']}" for word in words)),
                None,
            )

        report = eventually(self.inside, ["check", *(["--pre"] if pre else [])], line)
        return line(report)

    @contextlib.contextmanager
    def patched(self, path: str, change: Mapping[str, Any], back: Mapping[str, Any]) -> Iterator[None]:
        """Changes an object, and undoes the change at the end."""
        self.patch(path, change)
        try:
            yield
        finally:
            self.patch(path, back)

    @contextlib.contextmanager
    def without(self, kind: str, name: str, namespace: str = NAMESPACE) -> Iterator[None]:
        """Deletes an object, and creates it again at the end."""
        where = self.plane.kubectl.in_namespace(namespace)
        document = where.get_json(kind, name)
        where.delete(kind, name)
        try:
            yield
        finally:
            server_fields = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
            metadata = document["metadata"].items()
            document["metadata"] = {key: value for key, value in metadata if key not in server_fields}
            where.create(document)


@pytest.fixture(scope="module")
def jobs_namespace(plane: ControlPlane) -> Kubectl:
    """Kubectl for a namespace of jobs, in a cluster without an installation."""
    return plane.kubectl.create_namespace("check")


@pytest.fixture(scope="module")
def installed(plane: ControlPlane, jobs_namespace: Kubectl, passed_on: None) -> Iterator[Installed]:
    """The installation with the default values of the chart."""
    assert passed_on is None
    rules, tls = placement.install(plane), plane.folder / "check-tls"
    running = webhook.start(plane.programs, tls, rules, "check", ["--host", "0.0.0.0"])  # noqa: S104
    preview_rules = Path(shutil.copytree(rules, plane.folder / "previews"))
    preview_program, port = previews.start(plane, preview_rules)
    ports = {NAME: int(running.url.rpartition(":")[2]), previews.NAME: port}
    parts = managers.with_loopback_webhooks(chart.objects(), running.url, running.ca)
    for part in parts:
        if part["metadata"]["name"] in ports and part["kind"] == "Deployment":
            (container,) = part["spec"]["template"]["spec"]["containers"]
            container["ports"][0]["containerPort"] = ports[part["metadata"]["name"]]
    plane.kubectl.apply(list_object(*(part for part in parts if part["kind"] != AUTOSCALER)))
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
    pods = home.wait_for(lambda obj: len(obj["items"]) == 5, "pods")["items"]
    (pod,) = [value["metadata"]["name"] for value in pods if "serving" in str(value["metadata"]["labels"])]
    installation = Installed(plane, jobs_namespace, running, tls, pod)
    for created in pods:
        mark_running(home, created["metadata"]["name"])
    program = placement.start(plane, "leader")
    webhook.wait_until_called(jobs_namespace, {f"mpijobs.{NAME}.io"}, webhook.PROBE)
    yield installation
    names = {program.name, running.program.name, preview_program.name}
    for started in [started for started in plane.programs.running if started.name in names]:
        plane.programs.stop(started)
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        home.delete(kind, NAME)
    # The guard would refuse objects that other tests create with other values of the chart.
    home.delete("validatingadmissionpolicybindings,validatingadmissionpolicies")
    home.delete("deployments")
    home.delete("service", previews.NAME)
    delete_all(home, "pods")


def test_a_cluster_without_an_installation_is_checked(
    jobs_namespace: Kubectl, plane: ControlPlane, tmp_path: Path
) -> None:
    done = plugin(jobs_namespace, "check", "--pre")
    assert done.returncode == 0, done.stdout
    assert f"[pass] namespace: namespace {NAMESPACE} is created by the installation\n" in done.stdout
    assert "[pass] nodes: 12 nodes of 3 UltraServers\n" in done.stdout
    assert (
        "[warn] operators: no Deployment has an image mpi-operator" in done.stdout
    )  # the operator is a process
    kubeconfig = account(jobs_namespace, "ada", tmp_path)
    done = plugin(jobs_namespace, "check", "--pre", kubeconfig=kubeconfig)
    assert done.returncode == 1
    assert "[fail] rights: you may not create namespaces, " in done.stdout
    assert "[warn] nodes: not checked: cannot list nodes" in done.stdout
    home = plane.kubectl.create_namespace(NAMESPACE)
    home.run("create", "quota", "few", "--hard=count/pods=0")
    home.wait_for(lambda obj: obj.get("status", {}).get("hard"), "resourcequota", "few")
    result = Installed(plane, jobs_namespace, None, tmp_path, "").line_of(
        "namespace", "fail", "exceeded quota: few", pre=True
    )
    assert result["remedy"]
    home.delete("resourcequota", "few")


def test_a_complete_installation_passes_all_checks(installed: Installed) -> None:
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
def serve_untrusted_certificate(installation: Installed) -> Iterator[None]:
    """Makes the webhook serve a certificate of another authority, which is valid for two days."""
    kept = {name: (installation.tls / name).read_bytes() for name in ("tls.key", "tls.crt")}
    now = datetime.now(UTC)
    other = authority.new_authority(now, timedelta(days=2))
    leaf = authority.issue(other, now, timedelta(days=2), ["127.0.0.1"])
    files = {"tls.key": leaf.key_pem(), "tls.crt": leaf.certificate_pem()}
    bundle = base64.b64encode(other.certificate_pem()).decode()
    secret = {"data": {"ca.crt": base64.b64encode(installation.running.ca.read_bytes()).decode()}}
    for name, content in files.items():
        (installation.tls / name).write_bytes(content)
    with installation.patched(f"{HOME}/secrets/{NAME}-tls", {"data": {"ca.crt": bundle}}, secret):
        yield
    for name, content in kept.items():
        (installation.tls / name).write_bytes(content)


@contextlib.contextmanager
def create_unbound_operator(installation: Installed) -> Iterator[None]:
    """Creates an operator without a binding to the guard's ClusterRole. Its Pods do not run."""
    namespace = installation.plane.kubectl.create_namespace("ml-system")
    namespace.run("create", "deployment", "ours", "--image=registry.example.com/mpi-operator:0.8.0")
    yield
    namespace.delete("deployment", "ours")


@contextlib.contextmanager
def define_jobsets(installation: Installed) -> Iterator[None]:
    installation.plane.kubectl.create(managers.definition("jobset.x-k8s.io/v1alpha2", "JobSet"))
    yield
    installation.plane.kubectl.delete("crd", "jobsets.jobset.x-k8s.io")


@pytest.fixture(scope="module")
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin as a single file, which needs no installed packages."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "plugin.pyz").write_bytes(write.pyz(webhook.REPOSITORY, product.version()))
    script = folder / "kubectl-ultraserver"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {folder}/plugin.pyz "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return folder


def proxies(folder: Path) -> list[str]:
    """Returns the command lines of the ``kubectl proxy`` processes whose sockets are in a folder."""
    command_lines = [read_proc(process, "cmdline") for process in processes()]
    return [line for line in command_lines if str(folder) in line and "proxy" in line]


def test_the_plugin_as_a_single_file_prints_the_same_report(
    installed: Installed, plugin_folder: Path, tmp_path: Path
) -> None:
    env = {
        "PATH": f"{plugin_folder}:{installed.inside.binary.parent}:/usr/bin:/bin",
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


def test_kubectl_proxy_ends_when_the_plugin_is_killed(
    installed: Installed, plugin_folder: Path, tmp_path: Path
) -> None:
    code = (
        f"import sys; sys.path.insert(0, '{plugin_folder}/plugin.pyz')\n"
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


Break = Callable[[Installed], contextlib.AbstractContextManager[None]]
CASES: dict[str, tuple[Break, dict[str, tuple[str, ...]]]] = {
    "certificate": (
        serve_untrusted_certificate,
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
        lambda installation: installation.without("mutatingwebhookconfiguration", NAME),
        {
            "registrations": ("fail", f"there is no MutatingWebhookConfiguration {NAME}"),
            "job": ("fail", "no MutatingWebhookConfiguration sends MPIJobs to it"),
            "left out": ("warn", "namespaces whose jobs are not sent to the webhook: check, default"),
        },
    ),
    "guard": (
        lambda installation: installation.without("validatingadmissionpolicybinding", f"{NAME}-guard-jobs"),
        {"guard": ("fail", f"missing, or without a binding: {NAME}-guard-jobs")},
    ),
    "operator": (
        create_unbound_operator,
        {
            "operators": ("fail", "mpi-operator 0.8.0 is ml-system/ours, with 0 of 1 pods ready"),
            "guard": ("fail", "the guard refuses the pods of system:serviceaccount:ml-system:default"),
        },
    ),
    "kind": (define_jobsets, {"left out": ("warn", "not sent: ", "jobset.x-k8s.io/v1alpha2/jobsets")}),
}
"""Cases that need a real API server. tests/kubectl_ultraserver/test_check.py has the other cases."""


@pytest.mark.parametrize("case", CASES)
def test_broken_parts_are_reported(installed: Installed, case: str) -> None:
    break_part, expected = CASES[case]
    with break_part(installed):
        for check, words in expected.items():
            installed.line_of(check, *words)


def test_the_check_names_a_replica_that_does_not_answer(installed: Installed) -> None:
    installed.plane.programs.stop(installed.running.program)
    result = installed.line_of("tables", "fail", f"{installed.pod} did not answer: ")
    assert "security group" in result["remedy"]
    installed.line_of("job", "fail", "did not answer")
