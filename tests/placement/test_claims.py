"""Jobs that claim devices: offers of nodes, requests of pods, holders."""

from datetime import timedelta
from typing import Any

import pytest

from contract.keys import DRIVER, HOSTNAME, NEURON, PLACE
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
    state,
    store_job,
    store_nodes,
    stored_events,
    worker,
)
from tests.placement.stored import pods as stored

WHOLE = f"device.attributes['{DRIVER}'].resourceType == 'neuron_node'"
TEMPLATE = "us-4-node-config"


def request(expression: str = WHOLE, **changes: Any) -> Object:
    """Returns a request of a claim, as AWS's documents have it."""
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
    """Returns what the driver of an UltraServer's node publishes."""
    kind = {"resourceType": {"string": "neuron_node"}, "instanceType": {"string": "trn2u.48xlarge"}}
    device = {"name": "neuron-node", "attributes": kind}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]} | changes


def put(api: FakeApi, kind: str, name: str, namespace: str = "", **content: Any) -> Object:
    """Stores an object of resource.k8s.io."""
    where = f"namespaces/{namespace}/" if namespace else ""
    result = {"metadata": {"name": name, "namespace": namespace, **content.pop("metadata", {})}, **content}
    api.put(f"{API_PATH}/{where}{kind}/{name}", result)
    return result


def put_template(api: FakeApi, name: str = TEMPLATE, **changes: Any) -> None:
    put(api, "resourceclaimtemplates", name, "team", spec={"spec": claim_spec(**changes)})


def put_claim(
    api: FakeApi, name: str, node: str, user: str = "", namespace: str = "team", **metadata: Any
) -> None:
    """Stores a claim that has the node's device; its user is a pod's uid."""
    results = [{"driver": DRIVER, "pool": node, "device": "neuron-node", "request": "neurons"}]
    users = [{"resource": "pods", "name": "a", "uid": user}] if user else []
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    put(api, "resourceclaims", name, namespace, spec=claim_spec(), status=status, metadata=metadata)


@pytest.fixture
def api() -> FakeApi:
    """Three UltraServers: one has the device plugin, two the driver."""
    made = FakeApi()
    store_nodes(made, 3)
    for name, driver in ((DRIVER, DRIVER), ("efa", "efa.k8s.aws")):
        spec = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
        put(made, "deviceclasses", name, spec=spec)
    for server in (2, 3):
        for position in range(4):
            name = f"n{server}-{position}"
            del made.objects[f"/api/v1/nodes/{name}"]["status"]["allocatable"][NEURON]
            put(made, "resourceslices", f"{name}-{DRIVER}", spec=slice_of(name))
    return made


def claiming(name: str, workers: int = 4, entry: Object | None = None) -> list[Object]:
    """Returns the pods of a job that claim a node each."""
    made = []
    for index in range(workers):
        pod = worker(name, index, workers)
        pod["spec"]["containers"] = [{"resources": {"claims": [{"name": "neurons"}]}}]
        pod["spec"]["resourceClaims"] = [
            {"name": "neurons", **(entry or {"resourceClaimTemplateName": TEMPLATE})}
        ]
        made.append(pod)
    return made


def store(api: FakeApi, objects: list[Object]) -> list[Object]:
    """Stores pods, and the claims that kube-controller-manager creates for them."""
    for pod in objects:
        pod.setdefault("status", {})["resourceClaimStatuses"] = [
            {"name": entry["name"], "resourceClaimName": f"{pod['metadata']['name']}-{entry['name']}"}
            for entry in pod["spec"]["resourceClaims"]
        ]
        api.put(path_of(pod), pod)
        for entry in pod["spec"]["resourceClaims"]:
            where = (
                f"{API_PATH}/namespaces/team/resourceclaimtemplates/{entry.get('resourceClaimTemplateName')}"
            )
            if template := api.objects.get(where):
                name = f"{pod['metadata']['name']}-{entry['name']}"
                spec = template["spec"]["spec"]
                metadata = made_for(pod, entry["name"])
                put(api, "resourceclaims", name, "team", metadata=metadata, spec=spec)
    return objects


def made_for(pod: Object, entry: str = "neurons") -> Object:
    """Returns the metadata by which a claim belongs to a pod."""
    owner = {"kind": "Pod", "uid": pod["metadata"]["uid"]}
    return {"ownerReferences": [owner], "annotations": {"resource.kubernetes.io/pod-claim-name": entry}}


def pinned(api: FakeApi, name: str) -> set[str]:
    """Returns the UltraServers that a job's workers are pinned to; an empty text if one waits."""
    return {each[0] or "" for each in state(api, name).values()}


def test_a_mixed_fleet_places_both_kinds_of_jobs_where_they_can_be(api: FakeApi) -> None:
    put_template(api)
    store(api, claiming("claims-a"))
    store(api, claiming("claims-b"))
    store_job(api, "plugin", 4)
    store(api, claiming("waits"))
    Program(api).run()
    assert {name: pinned(api, f"{name}-worker") for name in ("claims-a", "claims-b", "plugin", "waits")} == {
        "claims-a": {"us-02"},
        "claims-b": {"us-03"},
        "plugin": {"us-01"},
        "waits": {""},
    }
    assert "offers too few devices for ResourceClaimTemplate us-4-node-config" in stored_events(api)[-1][2]


def test_a_node_with_claimed_devices_is_held_for_every_kind_of_claim(api: FakeApi) -> None:
    put_template(api)
    put_claim(api, "strangers", "n2-3")
    store(api, claiming("first"))
    store(api, claiming("second"))
    Program(api).run()
    assert pinned(api, "first-worker") == {"us-03"}
    assert pinned(api, "second-worker") == {""}
    assert "us-02: held by claim team/strangers" in stored_events(api)[-1][2]


def test_a_job_holds_its_unit_by_allocated_claims_and_not_by_its_annotation(
    api: FakeApi,
) -> None:
    put_template(api)
    running = store(api, claiming("running"))
    program = Program(api)
    program.run()
    for index, pod in enumerate(running):
        stored = api.objects[path_of(pod)]
        stored["spec"] |= {"nodeName": f"n2-{index}", "schedulingGates": []}
    store(api, claiming("next-a"))
    program.run()  # the claims are not seen yet, and the nodes are
    assert pinned(api, "next-a-worker") == {"us-03"}
    for index, pod in enumerate(running):
        name, uid = f"running-worker-{index}-neurons", pod["metadata"]["uid"]
        put_claim(api, name, f"n2-{index}", uid, **made_for(pod))
    store(api, claiming("next-b"))
    program.clock.forward(timedelta(minutes=5))
    program.run()
    assert pinned(api, "next-b-worker") == {""}
    for index in range(4):  # another user's Pods of that name have no devices
        api.remove(f"{API_PATH}/namespaces/team/resourceclaims/running-worker-{index}-neurons")
    program.run()
    assert pinned(api, "next-b-worker") == {"us-02"}


def test_an_admitted_job_keeps_its_unit_after_a_change_of_its_claims(api: FakeApi) -> None:
    put_template(api)
    first = store(api, claiming("first"))
    program = Program(api)
    program.run()
    put_claim(api, "strangers", "n3-0")
    for pod in first:
        name = f"{pod['metadata']['name']}-neurons"
        spec = claim_spec(request("true"))
        put(api, "resourceclaims", name, "team", metadata=made_for(pod), spec=spec)
    store(api, claiming("second"))
    program.run()
    assert (pinned(api, "first-worker"), pinned(api, "second-worker")) == ({"us-02"}, {""})


@pytest.mark.parametrize("namespace", ["evil", "team"])
def test_a_claim_that_was_not_created_for_a_pod_is_ignored(namespace: str, api: FakeApi) -> None:
    """Protects units from a user whose own claims look like those of a job."""
    put_template(api)
    for pod in store(api, claiming("a")):
        forged, name = claim_spec(request(count=2)), f"forged-{pod['metadata']['name']}"
        put(api, "resourceclaims", name, namespace, spec=forged, metadata=made_for(pod))
        if namespace == "evil":
            put_claim(api, f"reserved-{name}", "n3-3", pod["metadata"]["uid"], namespace)
    Program(api).run()
    assert pinned(api, "a-worker") == {"us-02"}


def test_what_claims_take_of_an_extended_resource_is_missing_there(api: FakeApi) -> None:
    served = {"selectors": [{"cel": {"expression": WHOLE}}], "extendedResourceName": "example.com/node"}
    put(api, "deviceclasses", "served", spec=served)
    put_claim(api, "strangers", "n2-3")
    for name in ("first", "second"):
        for pod in claiming(name):
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
def test_a_claim_that_cannot_be_compared_makes_its_job_wait_with_a_reason(
    api: FakeApi, spec: Object | None, entry: Object, text: str
) -> None:
    """Without a spec: a quota, for example, prevents the claim although its template exists."""
    if spec is not None:
        put(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": spec})
    store(api, claiming("a", entry=entry or None))
    put_template(api)
    store_job(api, "other", 4)
    Program(api).run()
    assert pinned(api, "a-worker") == {""}
    assert text in next(message for name, _, message in stored_events(api) if name.startswith("a-"))
    assert pinned(api, "other-worker") == {"us-01"}


def test_a_job_with_a_worker_that_claims_nothing_waits(api: FakeApi) -> None:
    """Protects units from a job that has devices in one worker only."""
    put(api, "resourceclaimtemplates", "nothing", "team", spec={"spec": {"devices": {}}})
    put_template(api)
    first, *others = claiming("a")
    for pod in others:
        pod["spec"]["resourceClaims"] = [{"name": "neurons", "resourceClaimTemplateName": "nothing"}]
    store(api, [first, *others])
    Program(api).run()
    assert pinned(api, "a-worker") == {""}
    assert "a-worker-1 claims no Neuron devices" in stored_events(api)[-1][2]


def test_requests_of_a_pod_are_bounded_in_all_and_count_together(api: FakeApi) -> None:
    """Each is met next to the others, on every node."""
    put(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": claim_spec(*[request()] * 4)})
    for count, parts, text in ((1, 40, "few devices"), (2, 200, "few devices"), (3, 0, "12 requests for d")):
        pods = claiming("a")
        for pod in pods:
            (entry,) = pod["spec"]["resourceClaims"]
            pod["spec"]["resourceClaims"] = [entry | {"name": f"c{number}"} for number in range(count)]
        store(api, pods)
        (waiting,) = Program(api).run._decide().waiting  # noqa: SLF001 - as it is compared
        assert text in waiting.why
        assert waiting.job.pods[0].demand.cost >= parts


def test_devices_that_are_not_chosen_yet_may_be_any_of_their_node(api: FakeApi) -> None:
    """The requests of a are also requests of b."""
    single(api, "a", request(count=1))
    single(api, "b", request(f"device.driver == '{DRIVER}'"))
    Program(api).run()
    nodes = [pod["spec"]["nodeSelector"][HOSTNAME] for pod in stored(api)]
    assert nodes == ["n2-0", "n2-1"]


def single(api: FakeApi, name: str, value: Object) -> None:
    """Stores the pod of a job of one node."""
    put(api, "resourceclaimtemplates", name, "team", spec={"spec": claim_spec(value, mode=1)})
    (pod,) = claiming(name, 1, {"resourceClaimTemplateName": name})
    place = f"placer=gate workers=1 size=1 unit={HOSTNAME} index=labels/{INDEX}"
    pod["metadata"]["annotations"][PLACE] = place
    store(api, [pod])


def test_an_admitted_job_of_one_node_keeps_it_after_a_change_of_its_claim(api: FakeApi) -> None:
    single(api, "a", request())
    program = Program(api)
    program.run()
    api.remove(f"{API_PATH}/namespaces/team/resourceclaims/a-worker-0-neurons")
    single(api, "b", request())
    program.run()
    nodes = [pod["spec"]["nodeSelector"][HOSTNAME] for pod in stored(api)]
    assert nodes == ["n2-0", "n2-1"]


@pytest.mark.parametrize(
    ("asks", "fits"),
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
def test_requests_of_a_pod_are_met_together_or_not_at_all(asks: list[tuple[str, int]], *, fits: bool) -> None:
    """There are two devices, one of them a and b, and a tainted one: no node can meet all requests."""
    devices = [Device("one", frozenset({("a", 1), ("b", 1)})), Device("two", frozenset({("a", 1)}))]
    devices.append(Device("three", frozenset({("c", 1)}), tainted=True))
    wanted = [DeviceRequest("x", frozenset({(name, 1)} if name else ()), count) for name, count in asks]
    assert (unmet_request(wanted, devices, {}) is None) is fits


@pytest.mark.parametrize(
    "more",
    [
        request("device.driver == 'efa.k8s.aws'", deviceClassName="efa"),
        request("device.attributes['efa.k8s.aws'].name.startsWith('rdma')", deviceClassName="efa"),
        {"name": "nic", "firstAvailable": [{"deviceClassName": "efa"}]},
    ],
)
def test_requests_of_a_claim_for_other_drivers_are_left_to_the_scheduler(api: FakeApi, more: Object) -> None:
    put(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": claim_spec(request(), more)})
    store(api, claiming("a"))
    Program(api).run()
    assert pinned(api, "a-worker") == {"us-02"}


def test_a_device_class_may_select_by_attributes_alone(api: FakeApi) -> None:
    put(api, "deviceclasses", "node", spec={"selectors": [{"cel": {"expression": WHOLE}}]})
    whole = request("true == true", deviceClassName="node") | {}
    whole["exactly"]["selectors"] = []
    put(api, "resourceclaimtemplates", TEMPLATE, "team", spec={"spec": claim_spec(whole)})
    store(api, claiming("a"))
    Program(api).run()
    assert pinned(api, "a-worker") == {"us-02"}


def test_a_unit_with_nodes_of_driver_and_plugin_is_not_whole(api: FakeApi) -> None:
    served = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    put(api, "deviceclasses", DRIVER, spec=served | {"extendedResourceName": NEURON})
    for position in range(2):
        api.remove(f"{API_PATH}/resourceslices/n2-{position}-{DRIVER}")
        api.objects[f"/api/v1/nodes/n2-{position}"]["status"]["allocatable"][NEURON] = "16"
    for node in ("n2-2", "n2-3"):
        spec = slice_of(node)
        spec["devices"] = [spec["devices"][0] | {"name": f"neuron-{number}"} for number in range(16)]
        put(api, "resourceslices", f"{node}-{DRIVER}", spec=spec)
    for name in ("first", "second"):
        store_job(api, name, 4)
    Program(api).run()
    assert (pinned(api, "first-worker"), pinned(api, "second-worker")) == ({"us-01"}, {""})
    assert (
        "us-02: node n2-0 has no devices of the Neuron DRA driver, and other nodes of the unit have some"
        in stored_events(api)[-1][2]
    )


@pytest.mark.parametrize(("ages", "offered"), [("21", 1000), ("12", None), ("11", 1000)])
def test_of_two_classes_that_serve_a_resource_the_newest_does(
    api: FakeApi, ages: str, offered: int | None
) -> None:
    """Then the first by name. No device is of the other."""
    for name, age, kind in (("a", ages[0], "neuron_node"), ("b", ages[1], "none")):
        expression = f"device.attributes['{DRIVER}'].resourceType == '{kind}'"
        spec = {
            "selectors": [{"cel": {"expression": expression}}],
            "extendedResourceName": "example.com/node",
        }
        put(
            api, "deviceclasses", name, spec=spec, metadata={"creationTimestamp": f"2026-11-2{age}T12:00:00Z"}
        )
    nodes = Program(api).run._decide().cluster.topology.nodes  # noqa: SLF001 - the nodes as they are compared
    assert nodes["n2-0"].allocatable.get("example.com/node") == offered


@pytest.mark.parametrize("own", [{}, {"example.com/node": "1"}])
def test_devices_that_are_had_by_another_resource_of_theirs_are_taken(
    api: FakeApi, own: dict[str, str]
) -> None:
    """Every device class has the implicit resource deviceclass.resource.kubernetes.io/NAME."""
    served = {"selectors": [{"cel": {"expression": WHOLE}}], "extendedResourceName": "example.com/node"}
    put(api, "deviceclasses", "served", spec=served)
    pod = worker("other", 0, 1) | {"spec": {"nodeName": "n2-3", "containers": [{"resources": {"limits": {
        "deviceclass.resource.kubernetes.io/served": "1", **own}}}]}}  # fmt: skip
    del pod["metadata"]["labels"], pod["metadata"]["annotations"]
    api.put(path_of(pod), pod)
    extended = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    put_claim(api, "made", "n2-3", pod["metadata"]["uid"], **extended)
    spec, claim = slice_of("n2-3"), f"{API_PATH}/namespaces/team/resourceclaims/made"
    results = api.objects[claim]["status"]["allocation"]["devices"]["results"]
    for name in own:
        spec["devices"].append(spec["devices"][0] | {"name": name})
        results.append(results[0] | {"device": name})
    put(api, "resourceslices", f"n2-3-{DRIVER}", spec=spec)
    program = Program(api)
    cluster = program.run._decide().cluster  # noqa: SLF001 - what counts as used
    assert cluster.usage["n2-3"]["example.com/node"] == 1000 * len(results)
    assert "n2-3" in cluster.holders


def test_an_incomplete_pool_allocates_no_device(api: FakeApi) -> None:
    spec = slice_of("n2-0", pool={"name": "n2-0", "generation": 1, "resourceSliceCount": 2})
    put(api, "resourceslices", f"n2-0-{DRIVER}", spec=spec)
    put_template(api)
    store(api, claiming("a"))
    Program(api).run()
    assert pinned(api, "a-worker") == {"us-03"}


def test_a_claim_for_which_no_pod_waits_is_kept_without_its_requests() -> None:
    mine = {"ownerReferences": [{"kind": "Pod", "uid": "u"}]}
    status = {"allocation": {"devices": {"results": [{"driver": DRIVER, "pool": "n", "device": "d"}]}}}
    kept = [
        len(read_claim({"metadata": metadata, "spec": claim_spec(), "status": after}).requests)
        for metadata, after in ((mine, {}), (mine, status), ({}, {}))
    ]
    assert kept == [1, 0, 0]


def test_where_claims_cannot_be_followed_jobs_without_claims_go_on(api: FakeApi) -> None:
    """They run on nodes without claimed devices, because holders of those are unknown."""
    put_template(api)
    store(api, claiming("claims"))
    for name in ("plugin", "too-many"):
        store_job(api, name, 4)
    program = Program(api)
    program.claims[2].stale_reason = "403 Forbidden"
    program.run()
    assert {name: pinned(api, f"{name}-worker") for name in ("claims", "plugin", "too-many")} == {
        "claims": {""},
        "plugin": {"us-01"},
        "too-many": {""},
    }
    assert any(
        "device claims cannot be watched: 403 Forbidden" in message for _, _, message in stored_events(api)
    )
    program.claims[2].stale_reason = ""
    program.run()
    assert pinned(api, "claims-worker") == {"us-02"}


def test_devices_of_a_pool_are_those_of_its_newest_slices_that_are_not_tainted(api: FakeApi) -> None:
    put_template(api)
    old = slice_of("n2-0") | {"pool": {"name": "n2-0", "generation": 0}, "devices": [{"name": "gone"}] * 3}
    put(api, "resourceslices", "old", spec=old)
    tainted = slice_of("n3-0")
    tainted["devices"][0]["taints"] = [{"key": "sick", "effect": "NoExecute"}]
    put(api, "resourceslices", f"n3-0-{DRIVER}", spec=tainted)
    nodes = Program(api).run._decide().cluster.topology.nodes  # noqa: SLF001 - the nodes as they are compared
    matching = [[device.tainted for device in nodes[name].devices] for name in ("n1-0", "n2-0", "n3-0")]
    assert matching == [[], [False], [True]]


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
def test_selectors_as_documents_have_them_are_understood(expression: str, conditions: set[object]) -> None:
    result = read_class({"spec": {"selectors": [{"cel": {"expression": expression}}]}})
    assert (set(result.conditions), result.fault) == (conditions, None)


def test_objects_of_any_content_are_read() -> None:
    for read in (read_class, read_claim, read_slice):
        for empty in ({}, {"spec": None}, {"spec": {}, "status": None, "metadata": None}):
            read(empty)
    odd = {"devices": {"config": [{"opaque": {"driver": DRIVER, "parameters": ["ultraserverMode"]}}]}}
    assert read_claim({"spec": odd}).mode == 0
    assert read_slice({"spec": {"allNodes": True, "devices": [{"name": "network"}]}}) is None
