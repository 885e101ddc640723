"""Tests of the drawing of UltraServers on a terminal: nodes, problems and holders."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.keys import JOB, NO_SERVER, SERVER_4
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.servers import Server, Spot, is_selected, servers
from kubectl_ultraserver.terminal import explanation_lines, topology_lines, verification_lines
from kubectl_ultraserver.verify import verify
from kubectl_ultraserver.why import why
from placement.observe.model import Node
from testbed.plane.nodes import INSTANCE_TYPE, TRN2U
from tests.helpers import examples
from tests.kubectl_ultraserver.build import (
    NODES,
    fleet,
    job_case,
    plain,
    unscheduled,
    with_installation,
    workers,
)
from tests.placement.world import changed_nodes


def busy_fleet() -> Fleet:
    """Returns a fleet: a pair and a stray pod, a cordoned node with a worker, and a free UltraServer."""
    nodes = [
        *changed_nodes(NODES, n2_1={"cordoned": True}, n2_2=None, n2_3={"ready": False}),
        Node("lost", {INSTANCE_TYPE: TRN2U, SERVER_4: NO_SERVER}),
        Node("plain", {INSTANCE_TYPE: "m5.large"}),
    ]
    stray = workers("x", 1, ["n1-3"], size=1)[0]
    stray["metadata"] |= {"name": "stray", "labels": {}}
    pods = [*workers("pair", 2, ["n1-0", "n1-1"], size=2), *workers("solo", 1, ["n2-1"], size=1), stray]
    return fleet(nodes, pods)


def lines(result: list[Server], width: int = 80) -> list[str]:
    return [plain(line) for line in topology_lines(result, width)]


def test_nodes_are_listed_by_number_with_their_pods_and_problems() -> None:
    assert lines(servers(busy_fleet()), 100) == [
        "3 UltraServers: 1 free, 2 in use, 1 broken; 1 nodes in no UltraServer",
        ". free  A, B taken  a, b taken and sick  ! cordoned  x not ready  ? missing",
        "us-01 [A A|. B] A team/pair; B pod team/stray",
        "us-02 [. a|? x] A team/solo; node n2-1 is cordoned; node n2-3 is not ready; 1 of 4 nodes missing",
        "us-03 [. .|. .]",
        "-     [.] node lost is in no working UltraServer",
    ]


def test_filters_select_ultraservers() -> None:
    cluster = busy_fleet()

    def ids(**filters: object) -> list[str]:
        return [server.id for server in servers(cluster) if is_selected(server, **filters)]

    assert ids(free=True) == ["us-03"]
    assert ids(broken=True) == ["us-02", ""]
    assert ids(namespace="team") == ["us-01", "us-02"]
    assert ids(namespace="te") == []
    assert ids(job="pair") == ["us-01"]
    assert ids(job="pair", namespace="other") == []


@pytest.mark.parametrize("width", [20, 40, 63, 80])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    wide = Server("c038o1gfx5kzl8pu", (Spot("n" * 60, "0", "cordoned", ("team/" + "j" * 60,)),) * 4)
    assert max(map(len, lines([wide], max(width, 48)))) <= max(width, 48)
    assert max(map(len, lines(servers(busy_fleet()), max(width, 40)))) <= max(width, 40)


def test_a_fleet_without_ultraservers_is_reported() -> None:
    assert lines([]) == ["0 UltraServers: 0 free, 0 in use, 0 broken"]


NAMES = st.text(max_size=80)


@examples(30)
@given(
    st.lists(
        st.builds(
            Server,
            NAMES,
            st.lists(
                st.builds(
                    Spot,
                    NAMES,
                    NAMES,
                    st.sampled_from(["ok", "cordoned", "not ready", "missing"]),
                    st.lists(NAMES, max_size=3).map(tuple),
                ),
                min_size=1,
                max_size=6,
            ).map(tuple),
        ),
        max_size=4,
    )
)
def test_lines_are_printable_for_any_names(result: list[Server]) -> None:
    assert all(plain(line).isprintable() for line in topology_lines(result, 60))


HOSTILE = "\x1b[2J\x1b]0;mine\x07\r\nyours\u202e\x9b1m"


def test_texts_of_other_users_cannot_control_the_terminal() -> None:
    by_owner, by_label = (workers(name, 1, ["n1-0"], size=1)[0] for name in ("x", "y"))
    by_owner["metadata"] |= {"labels": {}, "ownerReferences": [{"name": HOSTILE, "controller": True}]}
    by_label["metadata"] |= {"labels": {}, "annotations": {JOB: HOSTILE}}
    pods = unscheduled(workers("train", 4), HOSTILE)
    verdict = replace(verify(job_case(pods)), title=HOSTILE, unseen=HOSTILE)
    finding = Finding("no-quota", "queue", HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)
    all_lines = [
        *topology_lines(servers(fleet(pods=[by_owner, by_label])), 200),
        *explanation_lines(
            HOSTILE, [finding, *why(with_installation(job_case(pods)))], HOSTILE, {HOSTILE: HOSTILE}
        ),
        *verification_lines(verdict),
    ]
    assert sum("yours" in line for line in all_lines) > len(pods)
    assert all(plain(line).isprintable() for line in all_lines), all_lines
