"""The UltraServer document, term by term: its YAML, written out, is what a plain job becomes."""

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.helpers import load_text
from tests.rules.documented import AFFINITY, INIT_IMAGE, documented
from tests.rules.tables import HEAD, after, outcome, unrecorded
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

TABLE = load_text(f"{HEAD}extends: aws-document\nvalues: {{initImage: {INIT_IMAGE}}}\n", "t")


@pytest.mark.parametrize("workers", AFFINITY)
def test_a_plain_job_gets_the_documents_yaml_and_nothing_else(workers: int) -> None:
    assert unrecorded(after(TABLE, mpijob(workers))) == documented(workers)


@pytest.mark.parametrize("workers", AFFINITY)
def test_the_documents_yaml_is_left_alone_without_a_warning(workers: int) -> None:
    result = outcome(TABLE, documented(workers))
    assert result.operations == ()
    assert [text for text in result.warnings if not text.startswith(f"{workers} nodes form no pairs")] == []


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_the_packaged_table_adds_no_term_twice_to_the_documents_yaml(workers: int) -> None:
    result = outcome(load_default(), documented(workers))
    plain = after(load_default(), mpijob(workers))
    place = (*WORKER, "spec", "affinity")
    assert get(result.after, (*place, "podAffinity")) == get(plain, (*place, "podAffinity"))
    apart = (*place, "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    theirs = get(documented(workers), apart)
    assert get(result.after, apart) == [*theirs, *get(plain, apart)]


def test_odd_counts_are_told_that_they_form_no_pairs() -> None:
    for workers in (3, 5, 7, 4097):
        (warning,) = outcome(TABLE, mpijob(workers)).warnings
        assert warning.startswith(f"{workers} nodes form no pairs: each works alone, with node config 1")
    for workers in (1, 2, 4, 6, 8, 4096):
        assert outcome(TABLE, mpijob(workers)).warnings == ()


def test_the_documents_environment_variable_has_the_effect_of_the_annotation() -> None:
    env = [{"name": "NEURON_ULTRASERVER_NODE_CONFIG", "value": "2"}]
    job = put(mpijob(4), (*WORKER, "spec", "initContainers"), [{"name": "mine", "env": env}])
    assert outcome(TABLE, job).facts["nodeConfig"] == "2"
    # A value from a ConfigMap or Secret is not known here.
    del env[0]["value"]
    assert outcome(TABLE, job).facts["nodeConfig"] == "4"
