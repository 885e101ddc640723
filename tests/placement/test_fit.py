"""Tests that a node suits a pod if kube-scheduler's filters accept it and it is Ready and not cordoned."""

import pytest

from placement.decide.fit import lacking_resource, tolerates, why_misfit, why_unusable
from placement.observe.model import Demand, Expression, Node, Taint, Term, Toleration

NODE = Node(
    "n1", {"zone": "a", "size": "12", "empty": "", "odd": "x9", "low": "-3"}, allocatable={"cpu": 4000}
)


def label_term(key: str, operator: str, *values: str) -> Term:
    return Term((Expression(key, operator, values),))


def field_term(key: str, operator: str, *values: str) -> Term:
    return Term(fields=(Expression(key, operator, values),))


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        (None, True),
        ((), False),
        ((Term(),), False),
        ((Term(), label_term("zone", "In", "a")), True),
        ((label_term("zone", "In", "a", "b"),), True),
        ((label_term("zone", "In", "b"),), False),
        ((label_term("absent", "In", "a"),), False),
        ((label_term("zone", "NotIn", "b"),), True),
        ((label_term("zone", "NotIn", "a"),), False),
        ((label_term("absent", "NotIn", "a"),), True),
        ((label_term("empty", "Exists"),), True),
        ((label_term("absent", "Exists"),), False),
        ((label_term("absent", "DoesNotExist"),), True),
        ((label_term("empty", "DoesNotExist"),), False),
        ((label_term("size", "Gt", "11"),), True),
        ((label_term("size", "Gt", "12"),), False),
        ((label_term("size", "Lt", "13"),), True),
        ((label_term("size", "Lt", "12"),), False),
        ((label_term("low", "Lt", "-2"),), True),
        ((label_term("absent", "Gt", "0"),), False),
        ((label_term("absent", "Lt", "0"),), False),
        ((label_term("odd", "Gt", "1"),), False),
        ((label_term("size", "Gt", "many"),), False),
        ((label_term("size", "Gt", "1", "2"),), False),
        ((label_term("size", "Gt"),), False),
        ((label_term("size", "Gt", "9" * 5000),), False),
        ((label_term("zone", "Near", "a"),), False),
        ((field_term("metadata.name", "In", "n1"),), True),
        ((field_term("metadata.name", "In", "n2"),), False),
        ((field_term("metadata.name", "NotIn", "n2"),), True),
        ((field_term("metadata.name", "NotIn", "n1"),), False),
        ((field_term("metadata.uid", "In", "n1"),), False),
        ((Term((Expression("zone", "In", ("a",)), Expression("size", "In", ("1",)))),), False),
        ((Term((Expression("zone", "In", ("a",)),), (Expression("metadata.name", "In", ("n2",)),)),), False),
        ((label_term("zone", "In", "b"), label_term("size", "Exists")), True),
    ],
)
def test_required_node_affinity_matches_as_in_kube_scheduler(
    terms: tuple[Term, ...] | None, *, matches: bool
) -> None:
    assert (why_misfit(Demand(terms=terms), NODE) is None) is matches


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({}, None),
        ({"zone": "a", "empty": ""}, None),
        ({"zone": "b"}, ("not selected", "node n1 does not have the label zone=b")),
        ({"absent": ""}, ("not selected", "node n1 does not have the label absent=")),
    ],
)
def test_a_node_must_have_the_labels_of_the_node_selector(
    selector: dict[str, str], why: tuple[str, str] | None
) -> None:
    assert why_misfit(Demand(selector), NODE) == why


TAINT = Taint("dedicated", "ml", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates_taint"),
    [
        (Toleration("dedicated", "Equal", "ml", "NoSchedule"), True),
        (Toleration("dedicated", "", "ml", ""), True),
        (Toleration("dedicated", "Equal", "web", "NoSchedule"), False),
        (Toleration("dedicated", "Exists", "", ""), True),
        (Toleration("dedicated", "Exists", "", "NoExecute"), False),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("dedicated", "Lt", "ml", ""), False),
    ],
)
def test_a_toleration_covers_a_taint_as_in_kube_scheduler(
    toleration: Toleration, *, tolerates_taint: bool
) -> None:
    assert tolerates(toleration, TAINT) is tolerates_taint


def test_one_taint_without_a_toleration_keeps_a_pod_off_the_node() -> None:
    node = Node("n", {}, taints=(TAINT, Taint("sick", "", "NoExecute")))
    demand = Demand(tolerations=(Toleration("dedicated", "Exists", "", ""),))
    assert why_misfit(demand, node) == ("tainted", "node n has the taint sick")


def test_a_node_that_is_cordoned_or_not_ready_suits_no_pod() -> None:
    toleration = Toleration("", "Exists", "", "")
    assert why_misfit(Demand(tolerations=(toleration,)), NODE) is None
    assert why_unusable(NODE) is None
    assert why_unusable(Node("n", {}, cordoned=True)) == "cordoned"
    assert why_unusable(Node("n", {}, ready=False, cordoned=True)) == "not ready"


@pytest.mark.parametrize(
    ("requests", "used", "lacking"),
    [
        ({"cpu": 4000}, {}, None),
        ({"cpu": 4001}, {}, "cpu"),
        ({"cpu": 3000}, {"cpu": 1001}, "cpu"),
        ({"cpu": 3000}, {"cpu": 1000}, None),
        ({"aws.amazon.com/neuron": 1000}, {}, "aws.amazon.com/neuron"),
        ({"aws.amazon.com/neuron": 0}, {}, None),
        ({"host port 22/TCP": 1000}, {"host port 22/UDP": 1000, "host port 2/TCP": 1000}, None),
        ({"host port 22/TCP": 1000}, {"host port 22/TCP": 1000}, "host port 22/TCP"),
        ({"host port 22/TCP": 1000}, {"host port": 1000}, "host port 22/TCP"),
    ],
)
def test_the_resource_that_a_node_lacks_is_returned(
    requests: dict[str, int], used: dict[str, int], lacking: str | None
) -> None:
    assert lacking_resource(Demand(requests=requests), NODE, used) == lacking


def test_a_node_takes_at_most_its_allocatable_pods() -> None:
    node = Node("n", {}, allocatable={"pods": 2000})
    assert lacking_resource(Demand(), node, {"pods": 1000}) is None
    assert lacking_resource(Demand(), node, {"pods": 2000}) == "pods"
