"""Builds the programs of a node into a cache directory: ``python -m testbed.kits.nodes``.

The modules next to this file have kubelet, kube-proxy, containerd with its shim and command line, CoreDNS,
the pause process of Pods, and the device plugin and the DRA driver of tests. Most tests need only the
programs of the control plane, which are in another directory.
"""

import hashlib
import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.kits import build, golang, progress
from testbed.kits.kit import CACHE, build_once, keep_newest, required

MODULES = Path(__file__).resolve().parent
CONTAINERD = "github.com/containerd/containerd/v2"


@dataclass(frozen=True)
class Module:
    """A folder with a ``go.mod``.

    Attributes:
        programs: The Go package of each program, by the program's name.
        tags: Tags of ``go build`` that exclude optional parts.
        links: Linker flags, in addition to the linker flags for the version of Kubernetes.
    """

    programs: dict[str, str]
    tags: str = ""
    links: str = ""


def modules() -> dict[str, Module]:
    """Returns the modules by the names of their folders."""
    version = required(MODULES / "containerd" / "go.mod", CONTAINERD)
    return {
        "kubernetes": Module(
            {
                "kubelet": "k8s.io/kubernetes/cmd/kubelet",
                "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
                "pause": "./pause",
                "neuron": "./neuron",
                "neuron-dra": "./neuron-dra",
            }
        ),
        "containerd": Module(
            {name: f"{CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
            tags="no_btrfs no_devmapper no_zfs",
            links=f"-X {CONTAINERD}/version.Version={version}",
        ),
        "coredns": Module({"coredns": "."}),
    }


def programs() -> list[str]:
    """Returns the names of all programs."""
    return [name for module in modules().values() for name in module.programs]


def flags(module: Module) -> list[str]:
    """Returns the flags of ``go build`` for one module."""
    *plain, links = build.CONTROL_PLANE.build_flags()
    return ["-mod=readonly", *plain, f"{links} {module.links}", "-tags", module.tags]


def recipe() -> str:
    """Returns the hash of all files and flags that decide the contents of the directory."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in modules() for file in (MODULES / folder).rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(MODULES)}\n".encode() + file.read_bytes())
    digest.update(json.dumps([[module.programs, flags(module)] for module in modules().values()]).encode())
    return digest.hexdigest()[:16]


def directory() -> Path:
    """Returns the folder of the programs, which may not exist yet."""
    return CACHE / "node-tools" / recipe()


def missing(target: Path) -> list[str]:
    """Returns the names of programs that ``target`` lacks. A target exists only when it is complete."""
    return [name for name in programs() if not (target / name).is_file()]


def build_into(target: Path, staging: Path, go: golang.Go) -> None:
    """Builds every program in ``staging`` and moves them to ``target`` as a whole."""
    out, report = staging / "out", progress.Progress(len(programs()))
    out.mkdir()
    for folder, module in modules().items():
        for name, package in module.programs.items():
            command = go.command("build", "-v", *flags(module), "-o", str(out / name), package)
            report.phase(name, command, cwd=MODULES / folder, env=go.env, counted=progress.PACKAGES)
    shutil.rmtree(target, ignore_errors=True)
    out.rename(target)
    keep_newest(target.parent)


def main() -> int:
    """Builds the programs if they are missing, and prints where they are."""
    start, target = time.monotonic(), directory()
    if missing(target):
        build_once(target, missing, build_into, "the programs of a node")
    progress.say(f"the nodes' programs are ready in {target} after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (progress.PhaseError, golang.ToolchainError, LookupError) as error:
        sys.exit(f"node tools: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
