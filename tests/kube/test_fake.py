"""Tests that the API server in memory answers as the real API server does."""

import pytest

from tests.kube.contract import ApiContract, Server
from tests.kube.fake import FakeApi


@pytest.fixture
def server() -> Server:
    api = FakeApi()
    # This client has the same objects, and its user has no rights.
    powerless = FakeApi(api.objects, refuse="/")
    return Server(
        api,
        "team",
        powerless,
        lambda: setattr(api, "page", 2),
        "/api/v1/namespaces/team/secrets",
        api.end_watches,
    )


class TestFakeApi(ApiContract):
    """The tests of `ApiContract`, for the API server in memory."""
