"""What a pod says about its place: what is written is read again, or told in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from contract.keys import HOSTNAME, JOB, SERVER_2, SERVER_4
from contract.place import (
    MOST_TERMS,
    MOST_WORKERS,
    NAME,
    OLD,
    ContractError,
    Index,
    Place,
    Placer,
    Term,
    block_before,
    job,
    parse,
    read,
)
from tests.helpers import examples

REPLICA = "training.kubeflow.org/replica-index"
COMPLETION = "batch.kubernetes.io/job-completion-index"
OF_JOB = "jobset.sigs.k8s.io/job-index"
OF_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
GATED = f"placer=gate workers=16 size=4 unit={SERVER_4} index=labels/{REPLICA}"
WORKERS, INDEX, TOPOLOGY_KEY, BLOCK_SIZE, PODS_PER_JOB = OLD

labels = st.sampled_from([REPLICA, COMPLETION, SERVER_4, "rack", "a_b.c"])
numbers = st.integers(0, 999_999)
terms = st.builds(Term, st.just(NAME) | labels.map("labels/".__add__), st.just(1) | numbers)
indexes = st.builds(Index, st.lists(terms, min_size=1, max_size=MOST_TERMS).map(tuple), st.just(0) | numbers)
counts = st.integers(1, MOST_WORKERS)
places = st.builds(
    Place, st.sampled_from(Placer), counts, counts, labels, st.none() | indexes, st.just("") | labels
)


@examples(100)
@given(places)
def test_a_place_that_was_written_is_read_again(place: Place) -> None:
    assert parse(str(place)) == read({"annotations": {keys.PLACE: str(place)}}) == place


def test_the_words_of_a_place() -> None:
    index = Index((Term(f"labels/{OF_JOB}", 2), Term(f"labels/{COMPLETION}")), 1)
    assert str(Place(Placer.GATE, 8, 4, SERVER_4, index, OF_GROUP)) == (
        f"placer=gate workers=8 size=4 unit={SERVER_4} "
        f"index=labels/{OF_JOB}*2+labels/{COMPLETION}+1 group=labels/{OF_GROUP}"
    )
    assert str(Place(Placer.KUEUE, 1, 1, HOSTNAME)) == f"placer=kueue workers=1 size=1 unit={HOSTNAME}"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (GATED, "", "it is '', not words such as placer=gate"),
        (GATED, "x" * 5000, f"it is '{'x' * 80}', not words"),
        (" index=", f"{'x' * 2000} index=", "not words"),
        ("workers=16", "workers=16 workers=16", "not words"),
        ("workers=16", "workers=16 racks=2", "not words"),
        ("workers=16 ", "workers=16  ", "not words"),
        ("workers=16", "workers=", "not words"),
        ("placer=gate", "placer=me", "placer is 'me': it must be one of affinity, kueue, gang, gate"),
        ("placer=gate ", "", "placer is ''"),
        ("workers=16 ", "", "workers is '': it must be a whole number from 1"),
        *(
            ("workers=16", f"workers={text}", f"workers is '{text[:40]}': it must be a whole number")
            for text in ("many", "0", "-4", "٤", "9" * 1500, str(MOST_WORKERS + 1), "1_0")
        ),
        ("size=4", "size=0", "size is '0': it must be a whole number from 1"),
        (f"unit={SERVER_4} ", "", "unit is missing: the node label that makes units"),
        *(
            (f"index=labels/{REPLICA}", f"index={text}", f"index has the term '{text[:80]}'")
            for text in ("name*", "name*-1", "name*x")
        ),
        *(
            (f"labels/{REPLICA}", text, f"'{term[:50]}': it must be 'name', 'labels/KEY' or 'env/NAME'")
            for text, term in (
                ("x" * 99, "x" * 99),
                ("fields/k", "fields/k"),
                ("3x", "3x"),
                ("labels/", "labels/"),
                ("env/", "env/"),
                ("name+", ""),
                ("labels/a+x*2", "x*2"),
            )
        ),
        (f"labels/{REPLICA}", "3", "index has 0 terms: it must have 1 to 4"),
        (f"labels/{REPLICA}", "name+name+name+name+name", "index has 5 terms"),
        (f"labels/{REPLICA}", "name group=index", "'index' must be 'labels/KEY'"),
    ],
)
def test_what_cannot_be_read_is_told_in_words(old: str, new: str, why: str) -> None:
    with pytest.raises(ContractError) as caught:
        read({"annotations": {keys.PLACE: GATED.replace(old, new)}})
    assert str(caught.value).startswith("annotation ultraserver-webhook.io/place cannot be read: ")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_pod_that_says_nothing_takes_no_node() -> None:
    for metadata in ({}, {"annotations": None}, {"annotations": {JOB: "team.train"}}):
        assert read(metadata) is block_before(metadata) is None


@pytest.mark.parametrize(
    ("index", "found"),
    [
        ("name", 12),
        ("labels/a", 3),
        ("labels/a+0", 3),
        ("labels/a+5", 8),
        ("labels/a*4+labels/b", 14),
        ("labels/a*0+name*2+labels/b*10+1", 45),
        ("env/RANK", 7),
        ("env/RANK*2+labels/a", 17),
        ("env/FROM", "variable FROM is None: it must be the pod's number, from 0"),
        ("env/none", "variable none is None"),
        ("labels/none", "label none is None: it must be the pod's number, from 0"),
        ("labels/words*2", "label words is 'x': it must be the pod's number, from 0"),
        (f"labels/{'k' * 99}", f"label {'k' * 80} is None"),
        ("", None),
    ],
)
def test_the_number_of_a_pod_is_the_sum_of_what_it_has(index: str, found: int | str | None) -> None:
    place = parse(f"placer=gate workers=99 size=4 unit=rack{index and f' index={index}'}")
    ranks = [
        {"name": "FROM", "valueFrom": {}},
        {"name": "RANK", "value": "8"},
        {"name": "RANK", "value": "7"},
    ]
    pod = {
        "metadata": {"name": "train-worker-12", "labels": {"a": "3", "b": "2", "words": "x"}},
        "spec": {"containers": [None, {"env": None}, {"env": [None, *ranks]}]},
    }
    if isinstance(found, str):
        with pytest.raises(ContractError, match=found):
            place.number(pod)
    else:
        assert place.number(pod) == found


@pytest.mark.parametrize("name", ["", "train-worker", "w-7x", "w7", "w-1234567"])
def test_a_name_without_a_number_at_its_end_has_none(name: str) -> None:
    with pytest.raises(ContractError, match="no number at the end of the pod's name"):
        Place(Placer.GATE, 4, 4, SERVER_4, Index((Term(NAME),))).number({"metadata": {"name": name}})


@pytest.mark.parametrize(
    ("labels", "annotations", "group", "found"),
    [
        ({JOB: "ns.a"}, {}, "", "ns.a"),
        ({JOB: "ns.a"}, {JOB: "ns.b"}, "", "ns.a"),
        ({}, {JOB: "ns.b"}, "", "ns.b"),
        ({JOB: "ns.a", OF_GROUP: "3"}, {}, OF_GROUP, "ns.a/3"),
        ({OF_GROUP: "3"}, {}, OF_GROUP, ""),
        ({JOB: "j" * keys.LONGEST_LABEL}, {}, "", "j" * keys.LONGEST_LABEL),
        ({}, {JOB: "j" * (keys.LONGEST_LABEL + 1)}, OF_GROUP, ""),
    ],
)
def test_the_job_of_a_pod(
    labels: dict[str, str], annotations: dict[str, str], group: str, found: str
) -> None:
    assert job({"labels": labels, "annotations": annotations}, group) == found


# ---- What 0.1.0 wrote ----


def before(**changes: str | None) -> dict[str, Any]:
    """A worker's annotations of 0.1.0, some otherwise; None for one that is missing."""
    said = {"workers": "16", "node-config": "4", "topology-key": SERVER_4, "index": f"labels/{REPLICA}"}
    said |= {key.replace("_", "-"): value for key, value in changes.items()}  # type: ignore[dict-item]
    return {keys.PREFIX + key: value for key, value in said.items() if value is not None}


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        (before(), GATED),
        (before(index="name"), GATED.replace(f"labels/{REPLICA}", "name")),
        (
            before(node_config="1", topology_key=None),
            GATED.replace("size=4", "size=1").replace(SERVER_4, HOSTNAME),
        ),
        (before() | {keys.PLACE: GATED.replace("gate", "kueue")}, GATED.replace("gate", "kueue")),
        (before(workers="many"), f"{WORKERS} is 'many': it must be a whole number from 1"),
        (before(node_config=None), f"{keys.NODE_CONFIG} is '': it must be a whole number from 1"),
        (before(topology_key=""), f"{TOPOLOGY_KEY} is missing: node config 4 needs it"),
        (before(index=None), "'': it must be 'name', 'labels/KEY' or 'env/NAME'"),
    ],
)
def test_the_annotations_of_the_release_before_are_read(annotations: dict[str, str], found: str) -> None:
    if found.startswith("placer="):
        assert str(read({"annotations": annotations})) == found
    else:
        with pytest.raises(ContractError, match=found):
            read({"annotations": annotations})


@pytest.mark.parametrize(
    ("said", "labels", "size", "number"),
    [
        ({}, {REPLICA: "5", COMPLETION: "1"}, 4, 5),
        ({}, {COMPLETION: "6"}, 4, 6),
        ({PODS_PER_JOB: "2"}, {OF_JOB: "3", COMPLETION: "1"}, 4, 7),
        (
            {"leaderworkerset.sigs.k8s.io/size": "8"},
            {OF_GROUP: "2", "leaderworkerset.sigs.k8s.io/worker-index": "3"},
            4,
            19,
        ),
        ({TOPOLOGY_KEY: SERVER_2}, {REPLICA: "3"}, 2, 3),
    ],
    ids=["operator", "job", "jobset", "leaderworkerset", "pairs"],
)
def test_the_blocks_of_the_release_before_are_read(
    said: dict[str, str], labels: dict[str, str], size: int, number: int
) -> None:
    metadata = {"labels": labels, "annotations": {BLOCK_SIZE: str(size)} | said}
    found = block_before(metadata)
    assert found
    assert (found.placer, found.size, found.number({"metadata": metadata})) == (Placer.AFFINITY, size, number)
    assert found.unit == (SERVER_2 if size == 2 else SERVER_4)
    assert found.workers > found.size  # it is of several units; how many, they did not say
    assert read(metadata) is None


@pytest.mark.parametrize("size", ["0", "many", ""])
def test_a_block_size_that_is_none_is_told(size: str) -> None:
    with pytest.raises(ContractError, match=f"{BLOCK_SIZE} is '{size}'"):
        block_before({"annotations": {BLOCK_SIZE: size}})
