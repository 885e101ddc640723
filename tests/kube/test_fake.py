"""The API server in memory answers as the real one does."""

import pytest

from tests.kube.contract import ApiContract, Server
from tests.kube.fake import FakeApi


@pytest.fixture
def server() -> Server:
    api = FakeApi()
    # What shows the same objects to a user who may do nothing.
    refused = FakeApi(api.objects, refuse="/")
    return Server(
        api,
        "team",
        refused,
        lambda: setattr(api, "page", 2),
        "/api/v1/namespaces/team/secrets",
        api.end_watches,
    )


class TestFakeApi(ApiContract):
    """Memory."""
