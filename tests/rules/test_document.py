"""Tests that the table of the AWS document changes a plain job into the YAML of the document."""

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.helpers import load_text
from tests.rules.documented import AFFINITY, INIT_IMAGE, documented_job
from tests.rules.tables import HEAD, mutate, outcome, remove_records
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

TABLE = load_text(f"{HEAD}extends: aws-document\nvalues: {{initImage: {INIT_IMAGE}}}\n", "t")


@pytest.mark.parametrize("workers", AFFINITY)
def test_a_plain_job_gets_the_documents_yaml_and_nothing_else(workers: int) -> None:
    assert remove_records(mutate(TABLE, mpijob(workers))) == documented_job(workers)


@pytest.mark.parametrize("workers", AFFINITY)
def test_a_job_with_the_documents_yaml_is_unchanged(workers: int) -> None:
    result = outcome(TABLE, documented_job(workers))
    assert result.operations == ()
    assert [text for text in result.warnings if not text.startswith(f"{workers} nodes form no pairs")] == []


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_the_packaged_table_adds_its_affinity_terms_once_to_the_documents_yaml(workers: int) -> None:
    result = outcome(load_default(), documented_job(workers))
    plain = mutate(load_default(), mpijob(workers))
    affinity = (*WORKER, "spec", "affinity")
    assert get(result.after, (*affinity, "podAffinity")) == get(plain, (*affinity, "podAffinity"))
    anti_affinity = (*affinity, "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    documented_terms = get(documented_job(workers), anti_affinity)
    assert get(result.after, anti_affinity) == [*documented_terms, *get(plain, anti_affinity)]


def test_a_job_whose_workers_form_no_pairs_gets_a_warning() -> None:
    for workers in (3, 5, 7, 4097):
        (warning,) = outcome(TABLE, mpijob(workers)).warnings
        assert warning.startswith(f"{workers} nodes form no pairs: each works alone, with node config 1")
    for workers in (1, 2, 4, 6, 8, 4096):
        assert outcome(TABLE, mpijob(workers)).warnings == ()


def test_the_documents_environment_variable_has_the_effect_of_the_annotation() -> None:
    env = [{"name": "NEURON_ULTRASERVER_NODE_CONFIG", "value": "2"}]
    job = put(mpijob(4), (*WORKER, "spec", "initContainers"), [{"name": "mine", "env": env}])
    assert outcome(TABLE, job).facts["nodeConfig"] == "2"
    # The webhook does not know the value of a variable from a ConfigMap or Secret.
    del env[0]["value"]
    assert outcome(TABLE, job).facts["nodeConfig"] == "4"
