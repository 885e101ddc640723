"""Tests of jobs that claim devices: the devices of nodes, the requests of claims, and holders by claims."""

from datetime import timedelta
from typing import Any

import pytest

from contract.keys import DRIVER, HOSTNAME, NEURON, PLACEMENT
from kube.api import Object
from placement.decide.allocation import unmet_request
from placement.decide.fit import lacking_resource
from placement.observe.inventory import API_PATH, read_claim, read_class, read_slice
from placement.observe.model import Device, DeviceRequest
from tests.kube.fake import FakeApi
from tests.placement.stored import (
    INDEX,
    Program,
    path_of,
    pins_and_gates,
    store_job,
    store_nodes,
    stored_events,
    worker,
)
from tests.placement.stored import pods as stored_pods

WHOLE = f"device.attributes['{DRIVER}'].resourceType == 'neuron_node'"
TEMPLATE = "us-4-node-config"


def request(expression: str = WHOLE, **changes: Any) -> Object:
    """Returns a device request as in the AWS documentation."""
    exactly = {
        "deviceClassName": DRIVER,
        "selectors": [{"cel": {"expression": expression}}],
        "allocationMode": "ExactCount",
        "count": 1,
    }
    return {"name": "neurons", "exactly": exactly | changes}


def claim_spec(*requests: Object, mode: int = 4) -> Object:
    parameters = {"apiVersion": "neuron.aws.com/v1", "kind": "UltraServerConfig", "ultraserverMode": mode}
    config = [{"requests": ["neurons"], "opaque": {"driver": DRIVER, "parameters": parameters}}]
    return {"devices": {"requests": list(requests or (request(),)), "config": config}}


def slice_of(node: str, **changes: Any) -> Object:
    """Returns the ResourceSlice spec that the driver of an UltraServer's node publishes."""
    kind = {"resourceType": {"string": "neuron_node"}, "instanceType": {"string": "trn2u.48xlarge"}}
    device = {"name": "neuron-node", "attributes": kind}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]} | changes


def put_resource(api: FakeApi, kind: str, name: str, namespace: str = "", **content: Any) -> Object:
    """Stores an object of the API group resource.k8s.io."""
    directory = f"namespaces/{namespace}/" if namespace else ""
    result = {"metadata": {"name": name, "namespace": namespace, **content.pop("metadata", {})}, **content}
    api.put(f"{API_PATH}/{directory}{kind}/{name}", result)
    return result


def put_template(api: FakeApi, name: str = TEMPLATE, **changes: Any) -> None:
    put_resource(api, "resourceclaimtemplates", name, "team", spec={"spec": claim_spec(**changes)})


def put_claim(
    api: FakeApi, name: str, node: str, user: str = "", namespace: str = "team", **metadata: Any
) -> None:
    """Stores a claim to which the node's device is allocated. ``user`` is the uid of the pod that uses it."""
    results = [{"driver": DRIVER, "pool": node, "device": "neuron-node", "request": "neurons"}]
    users = [{"resource": "pods", "name": "a", "uid": user}] if user else []
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    put_resource(api, "resourceclaims", name, namespace, spec=claim_spec(), status=status, metadata=metadata)


@pytest.fixture
def api() -> FakeApi:
    """Returns an API server with an UltraServer with the device plugin, and two with the DRA driver."""
    fake_api = FakeApi()
    store_nodes(fake_api, 3)
    for name, driver in ((DRIVER, DRIVER), ("efa", "efa.k8s.aws")):
        spec = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
        put_resource(fake_api, "deviceclasses", name, spec=spec)
    for server in (2, 3):
        for position in range(4):
            name = f"n{server}-{position}"
            del fake_api.objects[f"/api/v1/nodes/{name}"]["status"]["allocatable"][NEURON]
            put_resource(fake_api, "resourceslices", f"{name}-{DRIVER}", spec=slice_of(name))
    return fake_api


def claiming_pods(name: str, workers: int = 4, entry: Object | None = None) -> list[Object]:
    """Returns the workers of a job; each claims the devices of a whole node."""
    pods = []
    for index in range(workers):
        pod = worker(name, index, workers)
        pod["spec"]["containers"] = [{"resources": {"claims": [{"name": "neurons"}]}}]
        pod["spec"]["resourceClaims"] = [
            {"name": "neurons", **(entry or {"resourceClaimTemplateName": TEMPLATE})}
        ]
        pods.append(pod)
    return pods


def store_with_claims(api: FakeApi, objects: list[Object]) -> list[Object]:
    """Stores pods, and the claims that kube-controller-manager creates for them."""
    for pod in objects:
        pod.setdefault("status", {})["resourceClaimStatuses"] = [
            {"name": entry["name"], "resourceClaimName": f"{pod['metadata']['name']}-{entry['name']}"}
            for entry in pod["spec"]["resourceClaims"]
        ]
        api.put(path_of(pod), pod)
        for entry in pod["spec"]["resourceClaims"]:
            template_path = (
                f"{API_PATH}/namespaces/team/resourceclaimtemplates/{entry.get('resourceClaimTemplateName')}"
            )
            if template := api.objects.get(template_path):
                name = f"{pod['metadata']['name']}-{entry['name']}"
                spec = template["spec"]["spec"]
                metadata = owned_by(pod, entry["name"])
                put_resource(api, "resourceclaims", name, "team", metadata=metadata, spec=spec)
    return objects


def owned_by(pod: Object, entry: str = "neurons") -> Object:
    """Returns the metadata of a claim that kube-controller-manager creates for a pod."""
    owner = {"kind": "Pod", "uid": pod["metadata"]["uid"]}
    return {"ownerReferences": [owner], "annotations": {"resource.kubernetes.io/pod-claim-name": entry}}


def pinned_units(api: FakeApi, name: str) -> set[str]:
    """Returns the UltraServers that a job's workers are pinned to; an empty text for a waiting worker."""
    return {pin_and_gates[0] or "" for pin_and_gates in pins_and_gates(api, name).values()}


def test_jobs_with_and_without_claims_get_units_that_can_run_them(api: FakeApi) -> None:
    put_template(api)
    store_with_claims(api, claiming_pods("claims-a"))
    store_with_claims(api, claiming_pods("claims-b"))
    store_job(api, "plugin", 4)
    store_with_claims(api, claiming_pods("waits"))
    Program(api).run()
    assert {
        name: pinned_units(api, f"{name}-worker") for name in ("claims-a", "claims-b", "plugin", "waits")
    } == {
        "claims-a": {"us-02"},
        "claims-b": {"us-03"},
        "plugin": {"us-01"},
        "waits": {""},
    }
    assert "offers too few devices for ResourceClaimTemplate us-4-node-config" in stored_events(api)[-1][2]


def test_a_claim_without_a_pod_holds_the_unit_of_its_node(api: FakeApi) -> None:
    put_template(api)
    put_claim(api, "strangers", "n2-3")
    store_with_claims(api, claiming_pods("first"))
    store_with_claims(api, claiming_pods("second"))
    Program(api).run()
    assert pinned_units(api, "first-worker") == {"us-03"}
    assert pinned_units(api, "second-worker") == {""}
    assert "us-02: held by claim team/strangers" in stored_events(api)[-1][2]


def test_a_job_holds_its_unit_by_allocated_claims_and_not_by_its_annotation(
    api: FakeApi,
) -> None:
    put_template(api)
    running_pods = store_with_claims(api, claiming_pods("running"))
    program = Program(api)
    program.run()
    for index, pod in enumerate(running_pods):
        stored_pod = api.objects[path_of(pod)]
        stored_pod["spec"] |= {"nodeName": f"n2-{index}", "schedulingGates": []}
    store_with_claims(api, claiming_pods("next-a"))
    program.run()  # no claim is allocated yet, but the workers have nodes
    assert pinned_units(api, "next-a-worker") == {"us-03"}
    for index, pod in enumerate(running_pods):
        name, uid = f"running-worker-{index}-neurons", pod["metadata"]["uid"]
        put_claim(api, name, f"n2-{index}", uid, **owned_by(pod))
    store_with_claims(api, claiming_pods("next-b"))
    program.clock.forward(timedelta(minutes=5))
    program.run()
    assert pinned_units(api, "next-b-worker") == {""}
    for index in range(4):  # without their claims, the Pods have no devices
        api.remove(f"{API_PATH}/namespaces/team/resourceclaims/running-worker-{index}-neurons")
    program.run()
    assert pinned_units(api, "next-b-worker") == {"us-02"}


def test_an_admitted_job_keeps_its_unit_after_a_change_of_its_claims(api: FakeApi) -> None:
    put_template(api)
    first_job = store_with_claims(api, claiming_pods("first"))
    program = Program(api)
    program.run()
    put_claim(api, "strangers", "n3-0")
    for pod in first_job:
        name = f"{pod['metadata']['name']}-neurons"
        spec = claim_spec(request("true"))
        put_resource(api, "resourceclaims", name, "team", metadata=owned_by(pod), spec=spec)
    store_with_claims(api, claiming_pods("second"))
    program.run()
    assert (pinned_units(api, "first-worker"), pinned_units(api, "second-worker")) == ({"us-02"}, {""})


@pytest.mark.parametrize("namespace", ["evil", "team"])
def test_a_claim_that_was_not_created_for_a_pod_is_ignored(namespace: str, api: FakeApi) -> None:
    """Protects units from a user who creates claims that look like the claims of a job."""
    put_template(api)
    for pod in store_with_claims(api, claiming_pods("a")):
        forged_spec, name = claim_spec(request(count=2)), f"forged-{pod['metadata']['name']}"
        put_resource(api, "resourceclaims", name, namespace, spec=forged_spec, metadata=owned_by(pod))
        if namespace == "evil":
            put_claim(api, f"reserved-{name}", "n3-3", pod["metadata"]["uid"], namespace)
    Program(api).run()
    assert pinned_units(api, "a-worker") == {"us-02"}


def test_claimed_devices_are_subtracted_from_an_extended_resource(api: FakeApi) -> None:
    class_spec = {"selectors": [{"cel": {"expression": WHOLE}}], "extendedResourceName": "example.com/node"}
    put_resource(api, "deviceclasses", "served", spec=class_spec)
    put_claim(api, "strangers", "n2-3")
    for name in ("first", "second"):
        for pod in claiming_pods(name):
            del pod["spec"]["resourceClaims"]
            pod["spec"]["containers"] = [{"resources": {"limits": {"example.com/node": "1", NEURON: "0"}}}]
            api.put(path_of(pod), pod)
    program = Program(api)
    nodes = program.run._decide().cluster.topology.nodes  # noqa: SLF001 - the nodes as they are compared
    assert (
        nodes["n1-0"].allocatable.get("example.com/node"),
        nodes["n2-0"].allocatable["example.com/node"],
    ) == (None, 1000)
    cluster = program.run._decide().cluster  # noqa: SLF001 - as above
    demand = next(iter(program.pods.items().values())).demand
    assert lacking_resource(demand, nodes["n2-3"], cluster.usage["n2-3"]) == "example.com/node"
    assert lacking_resource(demand, nodes["n2-2"], cluster.usage["n2-2"]) is None


@pytest.mark.parametrize(
    ("spec", "entry", "text"),
    [
        (
            None,
            {},
            "no claim was created from ResourceClaimTemplate us-4-node-config yet: see the pod's Events",
        ),
        (
            claim_spec(mode=2),
            {},
            "has ultraserverMode 2, and the job has node config 4: use one number in both",
        ),
        (claim_spec(), {"resourceClaimName": "one"}, "claim one is shared by its pods"),
        (claim_spec(request("true")), {}, "its selector 'true' is not supported"),
        (claim_spec(request(f"{WHOLE} || true")), {}, "is not supported"),
        (
            claim_spec(
                {"name": "any", "firstAvailable": [{"deviceClassName": "efa"}, {"deviceClassName": DRIVER}]}
            ),
            {},
            "its request any has the field firstAvailable: use the field exactly",
        ),
        (claim_spec(request(deviceClassName="gpu")), {}, "there is no DeviceClass gpu"),
        (
            claim_spec(request("device.driver == 'efa.k8s.aws'", deviceClassName="efa")),
            {},
            "a-worker-0 claims no Neuron devices: create the job with",
        ),
        (claim_spec(*[request()] * 17), {}, "it has 34 requests and comparisons: at most 32 are supported"),
        (claim_spec(request(" && ".join([WHOLE] * 34))), {}, "is not supported"),
        (claim_spec(request(f"device.attributes['a'].b == '{'x' * 65}'")), {}, "is not supported"),
        (claim_spec(request(count=2)), {}, "offers too few devices"),
        (claim_spec(request(), request()), {}, "offers too few devices"),
        (claim_spec(request(), request(f"device.driver == '{DRIVER}'")), {}, "offers too few devices"),
    ],
)
def test_a_job_with_an_unsupported_claim_waits_with_a_reason(
    api: FakeApi, spec: Object | None, entry: Object, text: str
) -> None:
    """Without a spec, the template exists but no claim, for example because of a quota."""
    if spec is not None:
        put_resource(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": spec})
    store_with_claims(api, claiming_pods("a", entry=entry or None))
    put_template(api)
    store_job(api, "other", 4)
    Program(api).run()
    assert pinned_units(api, "a-worker") == {""}
    assert text in next(message for name, _, message in stored_events(api) if name.startswith("a-"))
    assert pinned_units(api, "other-worker") == {"us-01"}


def test_a_job_with_a_worker_that_claims_nothing_waits(api: FakeApi) -> None:
    """Protects units from a job that uses devices in only one worker."""
    put_resource(api, "resourceclaimtemplates", "nothing", "team", spec={"spec": {"devices": {}}})
    put_template(api)
    first_worker, *other_workers = claiming_pods("a")
    for pod in other_workers:
        pod["spec"]["resourceClaims"] = [{"name": "neurons", "resourceClaimTemplateName": "nothing"}]
    store_with_claims(api, [first_worker, *other_workers])
    Program(api).run()
    assert pinned_units(api, "a-worker") == {""}
    assert "a-worker-1 claims no Neuron devices" in stored_events(api)[-1][2]


def test_the_requests_of_all_claims_of_a_pod_together_are_limited(api: FakeApi) -> None:
    """All requests of a pod are compared with the devices of every node."""
    put_resource(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": claim_spec(*[request()] * 4)})
    for count, parts, text in ((1, 40, "few devices"), (2, 200, "few devices"), (3, 0, "12 requests for d")):
        pods = claiming_pods("a")
        for pod in pods:
            (entry,) = pod["spec"]["resourceClaims"]
            pod["spec"]["resourceClaims"] = [entry | {"name": f"c{number}"} for number in range(count)]
        store_with_claims(api, pods)
        (waiting,) = Program(api).run._decide().waiting  # noqa: SLF001 - to read the cost of a demand
        assert text in waiting.why
        assert waiting.job.pods[0].demand.cost >= parts


def test_a_claim_that_is_not_allocated_yet_may_get_any_device_of_its_node(api: FakeApi) -> None:
    """The device that a will get also satisfies the request of b."""
    store_single_worker(api, "a", request(count=1))
    store_single_worker(api, "b", request(f"device.driver == '{DRIVER}'"))
    Program(api).run()
    nodes = [pod["spec"]["nodeSelector"][HOSTNAME] for pod in stored_pods(api)]
    assert nodes == ["n2-0", "n2-1"]


def store_single_worker(api: FakeApi, name: str, device_request: Object) -> None:
    """Stores the pod of a job of one node."""
    put_resource(
        api, "resourceclaimtemplates", name, "team", spec={"spec": claim_spec(device_request, mode=1)}
    )
    (pod,) = claiming_pods(name, 1, {"resourceClaimTemplateName": name})
    placement = f"placer=gate workers=1 size=1 unit={HOSTNAME} index=labels/{INDEX}"
    pod["metadata"]["annotations"][PLACEMENT] = placement
    store_with_claims(api, [pod])


def test_an_admitted_job_of_one_node_keeps_it_after_a_change_of_its_claim(api: FakeApi) -> None:
    store_single_worker(api, "a", request())
    program = Program(api)
    program.run()
    api.remove(f"{API_PATH}/namespaces/team/resourceclaims/a-worker-0-neurons")
    store_single_worker(api, "b", request())
    program.run()
    nodes = [pod["spec"]["nodeSelector"][HOSTNAME] for pod in stored_pods(api)]
    assert nodes == ["n2-0", "n2-1"]


@pytest.mark.parametrize(
    ("requests", "fits"),
    [
        ([("a", 1), ("b", 1)], True),
        ([("", 0), ("a", 1)], False),
        ([("", 2)], True),
        ([("", 1), ("a", 1)], True),
        ([("a", 2), ("b", 1)], False),
        ([("c", 1)], False),
        ([("", 0)], False),
    ],
)
def test_a_node_must_have_devices_for_all_requests_of_a_pod(
    requests: list[tuple[str, int]], *, fits: bool
) -> None:
    """Devices: one with the attributes a and b, one with a, and a tainted one with c."""
    devices = [Device("one", frozenset({("a", 1), ("b", 1)})), Device("two", frozenset({("a", 1)}))]
    devices.append(Device("three", frozenset({("c", 1)}), tainted=True))
    device_requests = [
        DeviceRequest("x", frozenset({(name, 1)} if name else ()), count) for name, count in requests
    ]
    assert (unmet_request(device_requests, devices, {}) is None) is fits


@pytest.mark.parametrize(
    "other_request",
    [
        request("device.driver == 'efa.k8s.aws'", deviceClassName="efa"),
        request("device.attributes['efa.k8s.aws'].name.startsWith('rdma')", deviceClassName="efa"),
        {"name": "nic", "firstAvailable": [{"deviceClassName": "efa"}]},
    ],
)
def test_requests_for_devices_of_other_drivers_are_ignored(api: FakeApi, other_request: Object) -> None:
    put_resource(
        api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": claim_spec(request(), other_request)}
    )
    store_with_claims(api, claiming_pods("a"))
    Program(api).run()
    assert pinned_units(api, "a-worker") == {"us-02"}


def test_a_device_class_may_select_only_by_attributes(api: FakeApi) -> None:
    put_resource(api, "deviceclasses", "node", spec={"selectors": [{"cel": {"expression": WHOLE}}]})
    whole = request("true == true", deviceClassName="node") | {}
    whole["exactly"]["selectors"] = []
    put_resource(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": claim_spec(whole)})
    store_with_claims(api, claiming_pods("a"))
    Program(api).run()
    assert pinned_units(api, "a-worker") == {"us-02"}


def test_a_unit_with_driver_nodes_and_plugin_nodes_is_not_whole(api: FakeApi) -> None:
    class_spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    put_resource(api, "deviceclasses", DRIVER, spec=class_spec | {"extendedResourceName": NEURON})
    for position in range(2):
        api.remove(f"{API_PATH}/resourceslices/n2-{position}-{DRIVER}")
        api.objects[f"/api/v1/nodes/n2-{position}"]["status"]["allocatable"][NEURON] = "16"
    for node in ("n2-2", "n2-3"):
        spec = slice_of(node)
        spec["devices"] = [spec["devices"][0] | {"name": f"neuron-{number}"} for number in range(16)]
        put_resource(api, "resourceslices", f"{node}-{DRIVER}", spec=spec)
    for name in ("first", "second"):
        store_job(api, name, 4)
    Program(api).run()
    assert (pinned_units(api, "first-worker"), pinned_units(api, "second-worker")) == ({"us-01"}, {""})
    assert (
        "us-02: node n2-0 has no devices of the Neuron DRA driver, and other nodes of the unit have some"
        in stored_events(api)[-1][2]
    )


@pytest.mark.parametrize(("days", "offered"), [("21", 1000), ("12", None), ("11", 1000)])
def test_if_two_classes_have_the_same_extended_resource_the_newest_class_is_used(
    api: FakeApi, days: str, offered: int | None
) -> None:
    """If both were created at one time, the first class by name is used. Class b has no device."""
    for name, day, kind in (("a", days[0], "neuron_node"), ("b", days[1], "none")):
        expression = f"device.attributes['{DRIVER}'].resourceType == '{kind}'"
        spec = {
            "selectors": [{"cel": {"expression": expression}}],
            "extendedResourceName": "example.com/node",
        }
        put_resource(
            api, "deviceclasses", name, spec=spec, metadata={"creationTimestamp": f"2026-11-2{day}T12:00:00Z"}
        )
    nodes = Program(api).run._decide().cluster.topology.nodes  # noqa: SLF001 - the nodes as they are compared
    assert nodes["n2-0"].allocatable.get("example.com/node") == offered


@pytest.mark.parametrize("other_resources", [{}, {"example.com/node": "1"}])
def test_devices_that_a_pod_gets_by_another_resource_are_used(
    api: FakeApi, other_resources: dict[str, str]
) -> None:
    """Each device class also has the implicit resource deviceclass.resource.kubernetes.io/NAME."""
    class_spec = {"selectors": [{"cel": {"expression": WHOLE}}], "extendedResourceName": "example.com/node"}
    put_resource(api, "deviceclasses", "served", spec=class_spec)
    pod = worker("other", 0, 1) | {"spec": {"nodeName": "n2-3", "containers": [{"resources": {"limits": {
        "deviceclass.resource.kubernetes.io/served": "1", **other_resources}}}]}}  # fmt: skip
    del pod["metadata"]["labels"], pod["metadata"]["annotations"]
    api.put(path_of(pod), pod)
    extended = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    put_claim(api, "made", "n2-3", pod["metadata"]["uid"], **extended)
    spec, claim = slice_of("n2-3"), f"{API_PATH}/namespaces/team/resourceclaims/made"
    results = api.objects[claim]["status"]["allocation"]["devices"]["results"]
    for name in other_resources:
        spec["devices"].append(spec["devices"][0] | {"name": name})
        results.append(results[0] | {"device": name})
    put_resource(api, "resourceslices", f"n2-3-{DRIVER}", spec=spec)
    program = Program(api)
    cluster = program.run._decide().cluster  # noqa: SLF001 - what counts as used
    assert cluster.usage["n2-3"]["example.com/node"] == 1000 * len(results)
    assert "n2-3" in cluster.holders


def test_no_device_of_an_incomplete_pool_is_used(api: FakeApi) -> None:
    spec = slice_of("n2-0", pool={"name": "n2-0", "generation": 1, "resourceSliceCount": 2})
    put_resource(api, "resourceslices", f"n2-0-{DRIVER}", spec=spec)
    put_template(api)
    store_with_claims(api, claiming_pods("a"))
    Program(api).run()
    assert pinned_units(api, "a-worker") == {"us-03"}


def test_the_requests_of_a_claim_are_stored_only_for_a_waiting_pod() -> None:
    metadata_of_pod = {"ownerReferences": [{"kind": "Pod", "uid": "u"}]}
    allocated = {"allocation": {"devices": {"results": [{"driver": DRIVER, "pool": "n", "device": "d"}]}}}
    request_counts = [
        len(read_claim({"metadata": metadata, "spec": claim_spec(), "status": allocation_status}).requests)
        for metadata, allocation_status in ((metadata_of_pod, {}), (metadata_of_pod, allocated), ({}, {}))
    ]
    assert request_counts == [1, 0, 0]


def test_jobs_without_claims_are_admitted_although_claims_cannot_be_watched(api: FakeApi) -> None:
    """They get only nodes without devices of the DRA driver, whose holders are unknown."""
    put_template(api)
    store_with_claims(api, claiming_pods("claims"))
    for name in ("plugin", "too-many"):
        store_job(api, name, 4)
    program = Program(api)
    program.claims[2].stale_reason = "403 Forbidden"
    program.run()
    assert {name: pinned_units(api, f"{name}-worker") for name in ("claims", "plugin", "too-many")} == {
        "claims": {""},
        "plugin": {"us-01"},
        "too-many": {""},
    }
    assert any(
        "device claims cannot be watched: 403 Forbidden" in message for _, _, message in stored_events(api)
    )
    program.claims[2].stale_reason = ""
    program.run()
    assert pinned_units(api, "claims-worker") == {"us-02"}


def test_a_pool_has_the_devices_of_its_newest_slices_with_their_taints(api: FakeApi) -> None:
    put_template(api)
    old_slice = slice_of("n2-0") | {
        "pool": {"name": "n2-0", "generation": 0},
        "devices": [{"name": "gone"}] * 3,
    }
    put_resource(api, "resourceslices", "old", spec=old_slice)
    tainted_slice = slice_of("n3-0")
    tainted_slice["devices"][0]["taints"] = [{"key": "sick", "effect": "NoExecute"}]
    put_resource(api, "resourceslices", f"n3-0-{DRIVER}", spec=tainted_slice)
    nodes = Program(api).run._decide().cluster.topology.nodes  # noqa: SLF001 - the nodes as they are compared
    taints_by_node = [[device.tainted for device in nodes[name].devices] for name in ("n1-0", "n2-0", "n3-0")]
    assert taints_by_node == [[], [False], [True]]


@pytest.mark.parametrize(
    ("expression", "conditions"),
    [
        ("device.driver == 'a'", {("driver", "a")}),
        (
            'device.attributes["d.e"].n == "x" &&\n  device.attributes["d.e"]["m-1"]==true',
            {("d.e/n", "x"), ("d.e/m-1?", True)},
        ),
        ("(device.attributes['d'].n == -3)", {("d/n", -3)}),
    ],
)
def test_selectors_of_the_aws_documentation_are_read(expression: str, conditions: set[object]) -> None:
    result = read_class({"spec": {"selectors": [{"cel": {"expression": expression}}]}})
    assert (set(result.conditions), result.fault) == (conditions, None)


def test_objects_of_any_content_are_read() -> None:
    for read in (read_class, read_claim, read_slice):
        for empty in ({}, {"spec": None}, {"spec": {}, "status": None, "metadata": None}):
            read(empty)
    odd = {"devices": {"config": [{"opaque": {"driver": DRIVER, "parameters": ["ultraserverMode"]}}]}}
    assert read_claim({"spec": odd}).mode == 0
    assert read_slice({"spec": {"allNodes": True, "devices": [{"name": "network"}]}}) is None
