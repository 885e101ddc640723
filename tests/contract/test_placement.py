"""Tests of the placement annotation of a pod: how it is written and read, and the errors about its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys, messages
from contract.keys import HOSTNAME, JOB, SERVER_4
from contract.placement import (
    MOST_SUMMANDS,
    MOST_WORKERS,
    NAME,
    PLACERS,
    ContractError,
    Index,
    Placement,
    Placer,
    Summand,
    job_id,
    parse,
    read,
)
from tests.helpers import examples

REPLICA = "training.kubeflow.org/replica-index"
COMPLETION = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
ANNOTATION = f"placer=gate workers=16 size=4 unit={SERVER_4} index=labels/{REPLICA}"

labels = st.sampled_from([REPLICA, COMPLETION, SERVER_4, "rack", "a_b.c"])
numbers = st.integers(0, 999_999)
summands = st.builds(Summand, st.just(NAME) | labels.map("labels/".__add__), st.just(1) | numbers)
indexes = st.builds(
    Index, st.lists(summands, min_size=1, max_size=MOST_SUMMANDS).map(tuple), st.just(0) | numbers
)
counts = st.integers(1, MOST_WORKERS)
placements = st.builds(
    Placement, st.sampled_from(Placer), counts, counts, labels, st.none() | indexes, st.just("") | labels
)


@examples(100)
@given(placements)
def test_a_written_annotation_is_read_as_the_same_placement(placement: Placement) -> None:
    assert parse(str(placement)) == read({"annotations": {keys.PLACEMENT: str(placement)}}) == placement


def test_the_text_of_a_placement_annotation() -> None:
    index = Index((Summand(f"labels/{JOB_INDEX}", 2), Summand(f"labels/{COMPLETION}")), 1)
    assert str(Placement(Placer.WHOLE_JOB, 8, 4, SERVER_4, index, GROUP_INDEX)) == (
        f"placer=gate workers=8 size=4 unit={SERVER_4} "
        f"index=labels/{JOB_INDEX}*2+labels/{COMPLETION}+1 group=labels/{GROUP_INDEX}"
    )
    assert parse(f"placer=whole-job workers=8 size=4 unit={SERVER_4}").placer is Placer.WHOLE_JOB
    assert parse(f"placer=scheduler workers=8 size=4 unit={SERVER_4}").placer is Placer.SCHEDULER
    assert str(Placement(Placer.KUEUE, 1, 1, HOSTNAME)) == f"placer=kueue workers=1 size=1 unit={HOSTNAME}"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (ANNOTATION, "", messages.wrong_words("")),
        (ANNOTATION, "x" * 5000, messages.wrong_words("x" * 80)),
        (" index=", f"{'x' * 2000} index=", "write known words"),
        ("workers=16", "workers=16 workers=16", "write known words"),
        ("workers=16", "workers=16 racks=2", "write known words"),
        ("workers=16 ", "workers=16  ", "write known words"),
        ("workers=16", "workers=", "write known words"),
        ("placer=gate", "placer=me", messages.wrong_placer("me", ", ".join(PLACERS))),
        ("placer=gate ", "", messages.wrong_placer("", ", ".join(PLACERS))),
        ("workers=16 ", "", messages.wrong_count("workers", "")),
        *(
            ("workers=16", f"workers={text}", messages.wrong_count("workers", text[:40]))
            for text in ("many", "0", "-4", "٤", "9" * 1500, str(MOST_WORKERS + 1), "1_0")
        ),
        ("size=4", "size=0", messages.wrong_count("size", "0")),
        (
            f"unit={SERVER_4} ",
            "",
            messages.NO_UNIT,
        ),
        *(
            (f"index=labels/{REPLICA}", f"index={text}", messages.wrong_summand(text))
            for text in ("name*", "name*-1", "name*x")
        ),
        *(
            (f"labels/{REPLICA}", text, messages.wrong_summand(term[:50]))
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
        (f"labels/{REPLICA}", "3", messages.wrong_length(0, MOST_SUMMANDS)),
        (f"labels/{REPLICA}", "name+name+name+name+name", messages.wrong_length(5, MOST_SUMMANDS)),
        (f"labels/{REPLICA}", "name group=index", messages.wrong_group("index")),
    ],
)
def test_an_unreadable_placement_annotation_is_reported(old: str, new: str, why: str) -> None:
    with pytest.raises(ContractError) as caught:
        read({"annotations": {keys.PLACEMENT: ANNOTATION.replace(old, new)}})
    assert str(caught.value).startswith(messages.unreadable(""))
    assert why in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_pod_without_a_placement_annotation_has_no_placement() -> None:
    for metadata in ({}, {"annotations": None}, {"annotations": {JOB: "team.train"}}):
        assert read(metadata) is None


@pytest.mark.parametrize(
    ("index", "number"),
    [
        ("name", 12),
        ("labels/a", 3),
        ("labels/a+0", 3),
        ("labels/a+5", 8),
        ("labels/a*4+labels/b", 14),
        ("labels/a*0+name*2+labels/b*10+1", 45),
        ("env/RANK", 7),
        ("env/RANK*2+labels/a", 17),
        ("env/FROM", messages.wrong_number("variable", "FROM", None)),
        ("env/none", messages.wrong_number("variable", "none", None)),
        ("labels/none", messages.wrong_number("label", "none", None)),
        ("labels/words*2", messages.wrong_number("label", "words", "x")),
        (f"labels/{'k' * 99}", messages.wrong_number("label", "k" * 80, None)),
        ("", None),
    ],
)
def test_the_number_of_a_pod_is_the_sum_of_the_summands_of_its_index(
    index: str, number: int | str | None
) -> None:
    placement = parse(f"placer=gate workers=99 size=4 unit=rack{index and f' index={index}'}")
    variables = [
        {"name": "FROM", "valueFrom": {}},
        {"name": "RANK", "value": "8"},
        {"name": "RANK", "value": "7"},
    ]
    pod = {
        "metadata": {"name": "train-worker-12", "labels": {"a": "3", "b": "2", "words": "x"}},
        "spec": {"containers": [None, {"env": None}, {"env": [None, *variables]}]},
    }
    if isinstance(number, str):
        with pytest.raises(ContractError, match=number):
            placement.number(pod)
    else:
        assert placement.number(pod) == number


@pytest.mark.parametrize("name", ["", "train-worker", "w-7x", "w7", "w-1234567"])
def test_a_pod_name_without_a_number_at_its_end_is_an_error(name: str) -> None:
    with pytest.raises(ContractError, match="no number at the end of the pod's name"):
        Placement(Placer.WHOLE_JOB, 4, 4, SERVER_4, Index((Summand(NAME),))).number(
            {"metadata": {"name": name}}
        )


@pytest.mark.parametrize(
    ("labels", "annotations", "group", "text"),
    [
        ({JOB: "ns.a"}, {}, "", "ns.a"),
        ({JOB: "ns.a"}, {JOB: "ns.b"}, "", "ns.a"),
        ({}, {JOB: "ns.b"}, "", "ns.b"),
        ({JOB: "ns.a", GROUP_INDEX: "3"}, {}, GROUP_INDEX, "ns.a/3"),
        ({GROUP_INDEX: "3"}, {}, GROUP_INDEX, ""),
        ({JOB: "j" * keys.LONGEST_LABEL}, {}, "", "j" * keys.LONGEST_LABEL),
        ({}, {JOB: "j" * (keys.LONGEST_LABEL + 1)}, GROUP_INDEX, ""),
    ],
)
def test_the_job_of_a_pod_is_in_its_label_or_annotation(
    labels: dict[str, str], annotations: dict[str, str], group: str, text: str
) -> None:
    assert job_id({"labels": labels, "annotations": annotations}, group) == text
