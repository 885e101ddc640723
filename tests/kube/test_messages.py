"""Tests of the exact texts about errors and watches of the API server."""

from kube import messages
from tests import texts

CONSTANTS = {
    "unreachable": "cannot reach the API server: {}",
    "no_server": "cannot reach the API server: {} (outside a pod, name a --kubeconfig)",
    "not_installed": (
        "{}: the client of the API server is not installed: pip install 'ultraserver-webhook[controllers]'"
    ),
    "BAD_TOKEN": (
        "the bearer token has a line end or another character that an HTTP header cannot have: "
        "replace it in the kubeconfig or the service account's token file"
    ),
    "NOT_SERVED": "it is not served",
    "not_an_object": "not a JSON object but {}",
    "WATCH_ENDED": "the watch has ended",
    "not_watched": "{} is no longer watched",
}
"""The texts without parameters, and the templates."""


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert texts.constants(messages) == CONSTANTS
