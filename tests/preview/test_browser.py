"""Tests of the host names and origins that the preview service accepts, and of the headers of its answers."""

import pytest
from flask import Blueprint
from flask.testing import FlaskClient

from webhook.app import create_app
from webhook.preview.browser import HEADERS, is_allowed_host, protect

pytestmark = pytest.mark.quick


@pytest.fixture
def client() -> FlaskClient:
    blueprint = Blueprint("guarded", __name__)
    blueprint.add_url_rule("/", "echo", lambda: "ok", methods=["GET", "POST"])
    protect(blueprint, ["preview.example"])
    return create_app(blueprint).test_client()


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("localhost", True),
        ("PREVIEW.example:80", True),
        ("a.team.example", True),
        ("team.example", False),
        ("evilteam.example", False),
        ("evilpreview.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[", False),
        ("", False),
    ],
)
def test_a_host_name_is_allowed_if_it_is_local_or_matches_a_pattern(host: str, allowed: bool) -> None:  # noqa: FBT001
    assert is_allowed_host(host, ["preview.example", "*.team.example"]) is allowed


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "https://proxy.example", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_a_post_from_another_site_is_refused(
    client: FlaskClient, headers: dict[str, str], status: int
) -> None:
    response = client.post("/", headers=headers)
    assert response.status_code == status
    assert HEADERS.items() <= dict(response.headers).items()
