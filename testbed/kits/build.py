"""Builds the programs of the cluster tests into a cache directory: ``python -m testbed.kits.build``.

The ``go.mod`` of each kit has the versions. The name of a cache directory is the hash of all files and
flags that decide its contents. A directory is complete when it has a marker, which is written last.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__:
    from testbed.kits import golang, progress
    from testbed.kits.kit import Kit
else:  # run as a script: the folder of this file is the import path
    import golang  # type: ignore[import-not-found,no-redef]
    import progress  # type: ignore[import-not-found,no-redef]
    from kit import Kit  # type: ignore[import-not-found,no-redef]

HERE = Path(__file__).resolve().parent
CRD = "kubeflow.org_mpijobs.yaml"
OTHER = os.environ.get("KUBERNETES", "")
"""Another version of Kubernetes for the control plane: 1.34 is built from the folder ``kubernetes-1.34``.

Empty for the version in the folder ``kubernetes``. With version 1.37, mpi-operator 0.8.2 and Kueue 0.19.2 are
used.
"""

OLDER = OTHER in {"1.34", "1.35"}
"""Whether `OTHER` is older than the version in the folder ``kubernetes``."""

CONTROL_PLANE = Kit(
    name="cluster-tools",
    folder=HERE / (f"kubernetes-{OTHER}" if OTHER else "kubernetes"),
    main="k8s.io/kubernetes",
    programs={
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    },
    # Without these variables, `kubectl version` fails, and clients cannot parse the server's version.
    stamps={
        f"{package}.{name}": value
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in (("gitVersion", "{version}"), ("gitMajor", "{major}"), ("gitMinor", "{minor}"))
    },
    edited="github.com/kubeflow/mpi-operator",
    file="cmd/mpi-operator/app/server.go",
    # The operator's health check listens on a fixed port of all addresses, and the operator ends if the port
    # is in use. But two control planes must run at the same time, and programs must listen only on loopback.
    edits={
        "healthCheckPort = 8080": "healthCheckPort = 0",
        'fmt.Sprintf(":%d", healthCheckPort)': 'fmt.Sprintf("127.0.0.1:%d", healthCheckPort)',
    },
    carried=f"manifests/base/{CRD}",
    variable="KUBEBUILDER_ASSETS",
)

KUEUE = Kit(
    name="kueue",
    folder=HERE / ("kueue-0.19" if OTHER == "1.37" else "controllers"),
    main="sigs.k8s.io/kueue",
    programs={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    stamps={"sigs.k8s.io/kueue/pkg/version.GitVersion": "{version}"},
    edited="sigs.k8s.io/kueue",
    file="cmd/kueue/main.go",
    # Kueue reads certificates from a fixed folder. Tests may not write to it, and two Kueues would share it.
    edits={'"/etc/kueue/metrics/certs"': 'os.Getenv("KUEUE_METRICS_CERTIFICATES")'},
    carried="config",
    variable="KUEUE_ASSETS",
)


TRAINING_OPERATOR = "github.com/kubeflow/training-operator"
TRAINER = "github.com/kubeflow/trainer/v2"

CONTROLLERS = Kit(
    name="controllers",
    folder=HERE / "controllers",
    main=TRAINING_OPERATOR,
    programs={
        "jobset": "sigs.k8s.io/jobset",
        "lws": "sigs.k8s.io/lws/cmd",
        "training-operator": f"{TRAINING_OPERATOR}/cmd/training-operator.v1",
        "trainer": f"{TRAINER}/cmd/trainer-controller-manager",
    },
    stamps={},
    edited=TRAINING_OPERATOR,
    file="cmd/training-operator.v1/main.go",
    # training-operator creates certificates, and waits until a kubelet has mounted them. Tests have no
    # kubelet. So the tests create the certificates, as for other controllers, and the operator does not wait.
    # Its webhook listens only on loopback.
    edits={
        "defer close(certsReady)": "close(certsReady)",
        "err = cert.ManageCerts(mgr, certGenerationConfig, certsReady); err != nil": (
            "_ = certGenerationConfig; err != nil"
        ),
        "Port: webhookServerPort,": 'Host: "127.0.0.1", Port: webhookServerPort,',
    },
    carried="manifests",
    variable="CONTROLLERS_ASSETS",
    more={
        "jobset-manifests": ("sigs.k8s.io/jobset", "config"),
        "lws-manifests": ("sigs.k8s.io/lws", "config"),
        "trainer-manifests": (TRAINER, "manifests"),
    },
)

HELM = Kit(
    name="helm",
    folder=HERE / "helm",
    main="helm.sh/helm/v3",
    programs={"helm": "helm.sh/helm/v3/cmd/helm"},
    # The versions of Helm, and of Kubernetes for `helm template`. Helm's own builds set these variables, too.
    stamps={
        "helm.sh/helm/v3/internal/version.version": "{version}",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": "36",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": "36",
    },
    variable="HELM_ASSETS",
)

KITS: dict[str, Kit] = {kit.name: kit for kit in (CONTROL_PLANE, KUEUE, CONTROLLERS, HELM)}


def _kit(name: str) -> Kit:
    if name not in KITS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(KITS)}")
    return KITS[name]


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the kits that are missing, and prints where they are."""
    parser = argparse.ArgumentParser(prog="python -m testbed.kits.build", description=__doc__)
    # `choices` are not used, because with them Python 3.11 refuses a command line without kits.
    parser.add_argument(
        "kits", nargs="*", type=_kit, metavar="KIT", help=" or ".join(KITS) + "; default: all"
    )
    for kit in parser.parse_args(arguments).kits or KITS.values():
        kit.build()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (progress.PhaseError, golang.ToolchainError, LookupError, OSError) as error:
        sys.exit(f"cluster tools: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
