"""A node suits a pod exactly where kube-scheduler's filters say so, except for cordoned and broken ones."""

import pytest

from placement.decide.fit import lacking_resource, tolerates, why_misfit, why_unusable
from placement.observe.model import Demand, Expression, Node, Taint, Term, Toleration

NODE = Node(
    "n1", {"zone": "a", "size": "12", "empty": "", "odd": "x9", "low": "-3"}, allocatable={"cpu": 4000}
)


def term(key: str, operator: str, *values: str) -> Term:
    return Term((Expression(key, operator, values),))


def field(key: str, operator: str, *values: str) -> Term:
    return Term(fields=(Expression(key, operator, values),))


@pytest.mark.parametrize(
    ("terms", "suits"),
    [
        (None, True),
        ((), False),
        ((Term(),), False),
        ((Term(), term("zone", "In", "a")), True),
        ((term("zone", "In", "a", "b"),), True),
        ((term("zone", "In", "b"),), False),
        ((term("absent", "In", "a"),), False),
        ((term("zone", "NotIn", "b"),), True),
        ((term("zone", "NotIn", "a"),), False),
        ((term("absent", "NotIn", "a"),), True),
        ((term("empty", "Exists"),), True),
        ((term("absent", "Exists"),), False),
        ((term("absent", "DoesNotExist"),), True),
        ((term("empty", "DoesNotExist"),), False),
        ((term("size", "Gt", "11"),), True),
        ((term("size", "Gt", "12"),), False),
        ((term("size", "Lt", "13"),), True),
        ((term("size", "Lt", "12"),), False),
        ((term("low", "Lt", "-2"),), True),
        ((term("absent", "Gt", "0"),), False),
        ((term("absent", "Lt", "0"),), False),
        ((term("odd", "Gt", "1"),), False),
        ((term("size", "Gt", "many"),), False),
        ((term("size", "Gt", "1", "2"),), False),
        ((term("size", "Gt"),), False),
        ((term("size", "Gt", "9" * 5000),), False),
        ((term("zone", "Near", "a"),), False),
        ((field("metadata.name", "In", "n1"),), True),
        ((field("metadata.name", "In", "n2"),), False),
        ((field("metadata.name", "NotIn", "n2"),), True),
        ((field("metadata.name", "NotIn", "n1"),), False),
        ((field("metadata.uid", "In", "n1"),), False),
        ((Term((Expression("zone", "In", ("a",)), Expression("size", "In", ("1",)))),), False),
        ((Term((Expression("zone", "In", ("a",)),), (Expression("metadata.name", "In", ("n2",)),)),), False),
        ((term("zone", "In", "b"), term("size", "Exists")), True),
    ],
)
def test_required_node_affinity(terms: tuple[Term, ...] | None, suits: bool) -> None:  # noqa: FBT001
    assert (why_misfit(Demand(terms=terms), NODE) is None) is suits


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({}, None),
        ({"zone": "a", "empty": ""}, None),
        ({"zone": "b"}, ("not selected", "node n1 does not have the label zone=b")),
        ({"absent": ""}, ("not selected", "node n1 does not have the label absent=")),
    ],
)
def test_node_selector(selector: dict[str, str], why: tuple[str, str] | None) -> None:
    assert why_misfit(Demand(selector), NODE) == why


TAINT = Taint("dedicated", "ml", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
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
def test_tolerations(toleration: Toleration, covers: bool) -> None:  # noqa: FBT001
    assert tolerates(toleration, TAINT) is covers


def test_one_taint_that_is_not_tolerated_is_enough() -> None:
    node = Node("n", {}, taints=(TAINT, Taint("sick", "", "NoExecute")))
    demand = Demand(tolerations=(Toleration("dedicated", "Exists", "", ""),))
    assert why_misfit(demand, node) == ("tainted", "node n has the taint sick")


def test_a_node_that_is_cordoned_or_not_ready_suits_no_pod() -> None:
    everything = Toleration("", "Exists", "", "")
    assert why_misfit(Demand(tolerations=(everything,)), NODE) is None
    assert why_unusable(NODE) is None
    assert why_unusable(Node("n", {}, cordoned=True)) == "cordoned"
    assert why_unusable(Node("n", {}, ready=False, cordoned=True)) == "not ready"


@pytest.mark.parametrize(
    ("requests", "used", "short"),
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
def test_resources(requests: dict[str, int], used: dict[str, int], short: str | None) -> None:
    assert lacking_resource(Demand(requests=requests), NODE, used) == short


def test_a_node_takes_at_most_its_allocatable_pods() -> None:
    node = Node("n", {}, allocatable={"pods": 2000})
    assert lacking_resource(Demand(), node, {"pods": 1000}) is None
    assert lacking_resource(Demand(), node, {"pods": 2000}) == "pods"
