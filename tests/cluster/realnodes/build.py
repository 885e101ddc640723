"""Builds the programs of a node into a cache directory: ``python -m tests.cluster.realnodes.build``.

Kubelet, kube-proxy, containerd with its shim and command line, and CoreDNS are built from the modules in
``modules/``, each with its own ``go.mod``; beside them the Pods' pause process and the tests' device plugin.
They are kept apart from the control plane's programs, which most tests need and these few do not.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.tools import build, golang, progress
from tests.cluster.tools.kit import CACHE

MODULES = Path(__file__).resolve().parent / "modules"
SCRATCH = ".node-tools-"
CONTAINERD = "github.com/containerd/containerd/v2"


@dataclass(frozen=True)
class Module:
    """One of the folders in ``modules/``.

    Attributes:
        programs: the package that each program is built from, by the program's name.
        tags: of ``go build``: what is left out.
        links: values that are linked in beside the version of Kubernetes.
    """

    programs: dict[str, str]
    tags: str = ""
    links: str = ""


def modules() -> dict[str, Module]:
    """What is built, by the name of the folder."""
    version = required(MODULES / "containerd" / "go.mod", CONTAINERD)
    return {
        "kubernetes": Module(
            {
                "kubelet": "k8s.io/kubernetes/cmd/kubelet",
                "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
                "pause": "./pause",
                "neuron": "./neuron",
            }
        ),
        "containerd": Module(
            {name: f"{CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
            tags="no_btrfs no_devmapper no_zfs",
            links=f"-X {CONTAINERD}/version.Version={version}",
        ),
        "coredns": Module({"coredns": "."}),
    }


def required(file: Path, module: str) -> str:
    """The version of ``module`` that a ``go.mod`` requires, for example ``v1.36.3``.

    Raises:
        LookupError: it requires none.
    """
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.removeprefix("require").split()
        if words[:1] == [module] and len(words) > 1:
            return words[1]
    raise LookupError(f"{file} does not require {module}")


def programs() -> list[str]:
    """The names of everything that is built."""
    return [name for module in modules().values() for name in module.programs]


def flags(module: Module) -> list[str]:
    """The flags of ``go build`` for one module."""
    *plain, links = build.CONTROL_PLANE.build_flags()
    return ["-mod=readonly", *plain, f"{links} {module.links}", "-tags", module.tags]


def recipe() -> str:
    """The hash of all that decides what is built."""
    digest = hashlib.sha256()
    for file in sorted(MODULES.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(MODULES)}\n".encode() + file.read_bytes())
    digest.update(json.dumps([[module.programs, flags(module)] for module in modules().values()]).encode())
    return digest.hexdigest()[:16]


def directory() -> Path:
    """Where the programs are, or will be."""
    return CACHE / "node-tools" / recipe()


def missing(target: Path) -> list[str]:
    """What ``target`` lacks: nothing, when it was built whole. The folder appears only then."""
    return [name for name in programs() if not (target / name).is_file()]


def build_into(out: Path, go: golang.Go, report: progress.Progress) -> None:
    """Builds every program into ``out``."""
    for folder, module in modules().items():
        for name, package in module.programs.items():
            command = go.command("build", "-v", *flags(module), "-o", str(out / name), package)
            report.phase(name, command, cwd=MODULES / folder, env=go.env)


def main() -> int:
    """Builds what is missing and says where it is."""
    start, target = time.monotonic(), directory()
    if missing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A second build of the same tools waits here, and then finds them built.
        with (target.parent / f"{SCRATCH}lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if missing(target):
                _build(target)
    progress.say(f"the nodes' programs are ready in {target} after {time.monotonic() - start:.0f} s")
    return 0


def _build(target: Path) -> None:
    go = golang.find(CACHE / "go-toolchain", progress.say)
    progress.say(f"building the programs of a node for the tests, once, with {go.version}")
    for remains in target.parent.glob(f"{SCRATCH}build-*"):
        shutil.rmtree(remains)  # of a build that was killed: whoever has the lock is the only builder
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}build-", dir=target.parent) as staging:
        out = Path(staging) / "out"
        out.mkdir()
        build_into(out, go, progress.Progress(len(programs())))
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (progress.PhaseError, golang.ToolchainError, LookupError) as error:
        sys.exit(f"node tools: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
