"""Hypothesis strategies for JSON and MPIJobs, with fields as users and other webhooks write them."""

from typing import Any

from hypothesis import strategies as st

from webhook.objects import record
from webhook.objects.tree import drop

KEYS = st.sampled_from(["a", "b/c", "d~e", "", "name", "é", "-", "0", "spec", "labels"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, width=16)
    | st.text(max_size=3)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)

SERVER_ID = "neuron.amazonaws.com/ultraserver-server-id-4"
ZONE = "topology.kubernetes.io/zone"


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Returns a map in which every field may be missing or null."""
    return st.fixed_dictionaries({}, optional={key: st.none() | value for key, value in fields.items()})


def _container(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"name": st.just(name)},
        optional={
            "image": st.sampled_from(["img:1", "img:2"]),
            "command": st.just(["bash", "-c", "true"]),
            "env": st.just([{"name": "NEURON_ULTRASERVER_NODE_CONFIG", "value": "2"}]) | st.just([]),
            "resources": st.sampled_from([{"limits": {"aws.amazon.com/neuron": 16}}, {}, {"requests": None}]),
        },
    )


def _term(role: str, name: str) -> dict[str, Any]:
    return {
        "labelSelector": {
            "matchLabels": {"training.kubeflow.org/job-role": role, "training.kubeflow.org/job-name": name}
        },
        "topologyKey": SERVER_ID,
    }


TERMS = st.lists(
    st.builds(_term, st.sampled_from(["worker", "launcher"]), st.sampled_from(["train", "x"])), max_size=2
)
EXPRESSIONS = st.lists(
    st.sampled_from(
        [
            {"key": SERVER_ID, "operator": "Exists"},
            {"key": ZONE, "operator": "In", "values": ["a"]},
            {
                "key": "node.kubernetes.io/instance-type",
                "operator": "In",
                "values": ["trn2u.48xlarge", "m5.large"],
            },
        ]
    ),
    max_size=2,
)
NODE_TERMS = st.lists(optional(matchExpressions=EXPRESSIONS, matchFields=st.just([])), max_size=3)
WEBHOOK_ANNOTATIONS = [
    f"ultraserver-webhook.io/{key}"
    for key in ("job", "workers", "node-config", "topology-key", "index", "opened")
]
GATES = st.lists(
    st.sampled_from(["ultraserver-webhook.io/whole-job", "example.com/mine", "example.com/other"]),
    unique=True,
    max_size=3,
).map(lambda names: [{"name": name} for name in names])
LABELS = st.dictionaries(
    st.sampled_from(["team", "a/b", "ultraserver-webhook.io/job"]),
    st.sampled_from(["x", "default.other"]),
    max_size=2,
)

AFFINITY = optional(
    podAffinity=optional(
        requiredDuringSchedulingIgnoredDuringExecution=TERMS,
        preferredDuringSchedulingIgnoredDuringExecution=st.lists(
            st.builds(
                lambda term: {"weight": 100, "podAffinityTerm": term}, st.just(_term("worker", "train"))
            ),
            max_size=1,
        ),
    ),
    podAntiAffinity=optional(requiredDuringSchedulingIgnoredDuringExecution=TERMS),
    nodeAffinity=optional(
        requiredDuringSchedulingIgnoredDuringExecution=optional(nodeSelectorTerms=NODE_TERMS)
    ),
)

VOLUMES = st.sampled_from(
    [[], [{"name": "dshm", "emptyDir": {}}], [{"name": "ultraserver-init", "hostPath": {}}]]
)
INIT_CONTAINERS = st.lists(
    st.sampled_from(["wait-hostfilename", "ultraserver-init-container", "mine"]), unique=True, max_size=3
).flatmap(lambda names: st.tuples(*map(_container, names)).map(list))

SPEC = st.fixed_dictionaries(
    {"containers": st.tuples(_container("main")).map(list) | st.just([])},
    optional={
        "affinity": st.none() | AFFINITY,
        "nodeSelector": st.none() | st.dictionaries(st.sampled_from([ZONE, "a/b"]), st.just("x"), max_size=2),
        "initContainers": st.none() | INIT_CONTAINERS,
        "volumes": st.none() | VOLUMES,
        "schedulingGates": st.none() | GATES,
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)
TEMPLATE = st.fixed_dictionaries(
    {"spec": SPEC},
    optional={
        "metadata": st.none()
        | optional(
            labels=LABELS,
            annotations=st.dictionaries(
                KEYS | st.sampled_from(WEBHOOK_ANNOTATIONS), st.just("v"), max_size=4
            ),
        )
    },
)

METADATA = st.fixed_dictionaries(
    {},
    optional={
        "annotations": st.none()
        | st.dictionaries(
            st.sampled_from(["ultraserver-webhook.io/node-config", "ultraserver-webhook.io/inject", "note"]),
            st.sampled_from(["4", "2", "1", "true", "false", "other"]),
            max_size=2,
        )
    },
)


@st.composite
def jobs(draw: st.DrawFn, *, has_name: bool | None = None) -> dict[str, Any]:
    """Returns an MPIJob that the API server accepts, or refuses only after its mutation."""
    metadata = {**draw(METADATA), "namespace": "default"}
    if draw(st.booleans()) if has_name is None else has_name:
        metadata["name"] = draw(st.sampled_from(["train", "x", "a" * 80]))
    else:
        metadata |= {
            "generateName": "gen-",
            "managedFields": [{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}],
        }
    worker = draw(TEMPLATE)
    if draw(st.integers(0, 4)):
        container = worker["spec"]["containers"] or [{"name": "main"}]
        container[0]["resources"] = {"limits": {"aws.amazon.com/neuron": draw(st.sampled_from([16, "16"]))}}
        worker["spec"]["containers"] = container
    workers = {"replicas": draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16, 64])), "template": worker}
    replicas = {"Launcher": {"replicas": 1, "template": draw(TEMPLATE)}, "Worker": workers}
    if not draw(st.integers(0, 9)):
        del replicas["Launcher"]
    spec = {"mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec}


def without_marks(template: dict[str, Any]) -> dict[str, Any]:
    """Returns a template without the labels, annotations and gate that only the webhook may set."""
    for path in record.MARKS:
        template = drop(template, path)
    return record.without_gate(template)


def without_empty_values(node: Any) -> Any:
    """Returns an object without nulls, empty maps and empty lists, because these have no effect."""
    if isinstance(node, dict):
        values = {key: without_empty_values(value) for key, value in node.items()}
        return {key: value for key, value in values.items() if value not in (None, {}, []) or value is False}
    return [without_empty_values(item) for item in node] if isinstance(node, list) else node
