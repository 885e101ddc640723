"""Builds the programs of the cluster tests into a cache directory: ``python -m tests.cluster.tools.build``.

The versions are those of the ``go.mod`` of each kit. What is built is found again by the hash of everything
that decides it, and a directory counts only once its marker is written, which happens last.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

if __package__:
    from tests.cluster.tools import definitions, golang, progress
    from tests.cluster.tools.kit import Kit
else:  # run as a script: the folder of this file is the import path
    import definitions  # type: ignore[import-not-found,no-redef]
    import golang  # type: ignore[import-not-found,no-redef]
    import progress  # type: ignore[import-not-found,no-redef]
    from kit import Kit  # type: ignore[import-not-found,no-redef]

HERE = Path(__file__).resolve().parent
CRD = "kubeflow.org_mpijobs.yaml"

CONTROL_PLANE = Kit(
    name="cluster-tools",
    folder=HERE,
    main="k8s.io/kubernetes",
    programs={
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    },
    # Without these `kubectl version` fails, and clients cannot parse what the server says it is.
    stamps={
        f"{package}.{name}": value
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in (("gitVersion", "{version}"), ("gitMajor", "{major}"), ("gitMinor", "{minor}"))
    },
    edited="github.com/kubeflow/mpi-operator",
    file="cmd/mpi-operator/app/server.go",
    # The operator's health check has a fixed port on all addresses and ends the operator when that port is
    # taken: two control planes could not stand beside each other, and nothing here may leave loopback.
    edits={
        "healthCheckPort = 8080": "healthCheckPort = 0",
        'fmt.Sprintf(":%d", healthCheckPort)': 'fmt.Sprintf("127.0.0.1:%d", healthCheckPort)',
    },
    carried=f"manifests/base/{CRD}",
    variable="KUBEBUILDER_ASSETS",
)

KUEUE = Kit(
    name="kueue",
    folder=HERE / "kueue",
    main="sigs.k8s.io/kueue",
    programs={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    stamps={"sigs.k8s.io/kueue/pkg/version.GitVersion": "{version}"},
    edited="sigs.k8s.io/kueue",
    file="cmd/kueue/main.go",
    # A folder of the machine, which two of them would share, and which the tests may not write to.
    edits={'"/etc/kueue/metrics/certs"': 'os.Getenv("KUEUE_METRICS_CERTIFICATES")'},
    carried="config",
    variable="KUEUE_ASSETS",
)


@dataclass(frozen=True)
class Definitions:
    """The CustomResourceDefinitions, beside the kits."""

    name: str = definitions.NAME

    def build(self) -> None:
        """Fetches what is missing and says where it is."""
        definitions.fetch()


KITS: dict[str, Kit | Definitions] = {each.name: each for each in (CONTROL_PLANE, KUEUE, Definitions())}


def _kit(name: str) -> Kit | Definitions:
    if name not in KITS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(KITS)}")
    return KITS[name]


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds what is missing and says where it is."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.tools.build", description=__doc__)
    # Not `choices`: Python 3.11 looks for the empty list of "none given" among them.
    parser.add_argument("kits", nargs="*", type=_kit, metavar="KIT", help=" or ".join(KITS) + "; all without")
    for kit in parser.parse_args(arguments).kits or KITS.values():
        kit.build()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (progress.PhaseError, golang.ToolchainError, LookupError) as error:
        sys.exit(f"cluster tools: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
