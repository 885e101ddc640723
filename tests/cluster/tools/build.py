"""Builds the control plane's programs into a cache directory: ``python -m tests.cluster.tools.build``.

The versions are those of the ``go.mod`` beside this file. What is built is found again by the hash of
everything that decides it, and a directory counts only once its marker is written, which happens last.
The MPIJob CRD is copied beside the programs, so that the tests need neither Go nor a network afterwards.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if __package__:
    from tests.cluster.tools import golang, progress
else:  # run as a script: the folder of this file is the import path
    import golang  # type: ignore[import-not-found,no-redef]
    import progress  # type: ignore[import-not-found,no-redef]

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache"
MARKER = "complete.json"
# Begins the names of what stands beside the programs while they are built.
SCRATCH = ".cluster-tools-"
CRD = "kubeflow.org_mpijobs.yaml"

PROGRAMS = {
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
}

MPI_OPERATOR = "github.com/kubeflow/mpi-operator"
MPI_OPERATOR_SERVER = "cmd/mpi-operator/app/server.go"
# The operator's health check has a fixed port on all addresses and ends the operator when that port is
# taken: two control planes could not stand beside each other, and nothing here may leave loopback.
MPI_OPERATOR_EDITS = {
    "healthCheckPort = 8080": "healthCheckPort = 0",
    'fmt.Sprintf(":%d", healthCheckPort)': 'fmt.Sprintf("127.0.0.1:%d", healthCheckPort)',
}


def kubernetes_version() -> str:
    """The Kubernetes release that ``go.mod`` names, for example ``v1.36.3``."""
    for line in (HERE / "go.mod").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["k8s.io/kubernetes"]:
            return words[1]
    raise LookupError(f"{HERE / 'go.mod'} does not require k8s.io/kubernetes")


def build_flags() -> list[str]:
    """The flags of ``go build``; they hold the version that the programs report about themselves."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    # Without these `kubectl version` fails, and clients cannot parse what the server says it is.
    stamps = [
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in values.items()
    ]
    # Stamping would ask git about a repository that the main packages are not from.
    return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *stamps])]


def recipe() -> str:
    """The hash of all that decides what is built."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    digest.update(json.dumps([build_flags(), PROGRAMS, MPI_OPERATOR_EDITS, CRD]).encode())
    return digest.hexdigest()[:16]


def directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the programs are, or will be: ``KUBEBUILDER_ASSETS``, or this recipe's own cache."""
    chosen = environ.get("KUBEBUILDER_ASSETS")
    return Path(chosen).expanduser().absolute() if chosen else CACHE / "cluster-tools" / recipe()


def missing(target: Path) -> list[str]:
    """What ``target`` lacks before it can be used: nothing, when it was built whole by this recipe."""
    try:
        marker = json.loads((target / MARKER).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return [*PROGRAMS, CRD]
    if marker.get("recipe") != recipe():
        return [*PROGRAMS, CRD]
    return [name for name in (*PROGRAMS, CRD) if not (target / name).is_file()]


def editable_operator(go: golang.Go, staging: Path) -> Path:
    """Copies mpi-operator's source, edits it, and returns a go.mod that builds from the copy.

    Go's own ``-overlay`` does not reach files in the module cache, hence the copy.
    """
    source = go.output("list", "-m", "-f", "{{.Dir}}", MPI_OPERATOR)
    copy = staging / "mpi-operator-source"
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(copy):
        # The module cache is read-only; its copy has to be removed again.
        Path(folder).chmod(0o755)
    server = copy / MPI_OPERATOR_SERVER
    text = server.read_text(encoding="utf-8")
    for old, new in MPI_OPERATOR_EDITS.items():
        if text.count(old) != 1:
            raise LookupError(f"{MPI_OPERATOR_SERVER} of mpi-operator no longer has exactly one {old!r}")
        text = text.replace(old, new)
    server.write_text(text, encoding="utf-8")
    modfile = staging / "modfile" / "go.mod"
    modfile.parent.mkdir()
    replacement = f"\nreplace {MPI_OPERATOR} => {copy}\n"
    modfile.write_text((HERE / "go.mod").read_text(encoding="utf-8") + replacement, encoding="utf-8")
    shutil.copyfile(HERE / "go.sum", modfile.with_name("go.sum"))
    return modfile


def build_into(target: Path, staging: Path, go: golang.Go, report: progress.Progress) -> None:
    """Builds every program in ``staging`` and moves them to ``target``, the marker last."""
    report.phase(
        "modules", go.command("list", "-deps", "-f", "{{.ImportPath}}", "tool"), cwd=HERE, env=go.env
    )
    modfile = editable_operator(go, staging)
    out = staging / "out"
    out.mkdir()
    for name, package in PROGRAMS.items():
        flags = [f"-modfile={modfile}", *build_flags()]
        command = go.command("build", "-v", *flags, "-o", str(out / name), package)
        report.phase(name, command, cwd=HERE, env=go.env)
    crd = staging / "mpi-operator-source" / "manifests" / "base" / CRD
    shutil.copyfile(crd, out / CRD)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARKER).unlink(missing_ok=True)
    for built in out.iterdir():
        built.replace(target / built.name)
    marker = staging / MARKER
    marker.write_text(json.dumps({"recipe": recipe(), "kubernetes": kubernetes_version()}), encoding="utf-8")
    marker.replace(target / MARKER)


def main() -> int:
    """Builds what is missing and says where it is."""
    start = time.monotonic()
    target = directory()
    if not missing(target):
        progress.say(f"cluster tools are ready in {target}")
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    # A second build of the same tools waits here, and then finds them built.
    with (target.parent / f"{SCRATCH}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing(target):
            go = golang.find(CACHE / "go-toolchain", progress.say)
            progress.say(
                f"building Kubernetes {kubernetes_version()} for the cluster tests, once, with {go.version}"
            )
            report = progress.Progress(len(PROGRAMS) + 1)
            for remains in target.parent.glob(f"{SCRATCH}build-*"):
                shutil.rmtree(remains)  # of a build that was killed: whoever has the lock is the only builder
            with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}build-", dir=target.parent) as staging:
                build_into(target, Path(staging), go, report)
    progress.say(f"cluster tools are ready in {target} after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (progress.PhaseError, golang.ToolchainError, LookupError) as error:
        sys.exit(f"cluster tools: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
