"""Protects previews in a browser: checks host names and origins, and adds headers to each answer."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from flask import Blueprint, Response, abort, request

from webhook.preview import messages

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def protect(blueprint: Blueprint, allowed_hosts: Sequence[str] = ()) -> None:
    """Makes the app send `HEADERS`, and call `refuse_foreign_request` before each request."""
    blueprint.before_app_request(partial(refuse_foreign_request, allowed_hosts))
    blueprint.after_app_request(with_headers)


def refuse_foreign_request(allowed_hosts: Sequence[str]) -> None:
    """Denies (403) a host name that is not allowed, and a POST that another site's page may have sent."""
    if not is_allowed_host(request.headers.get("Host", ""), allowed_hosts):
        abort(403, messages.HOST_NOT_ALLOWED)
    fetch_site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    # A proxy may change Host, so Origin is compared with Host only if there is no Sec-Fetch-Site.
    is_other_origin = origin is not None and origin.partition("://")[2].lower() != request.host.lower()
    is_foreign = fetch_site in {"cross-site", "same-site"} if fetch_site else is_other_origin
    if request.method == "POST" and is_foreign:
        abort(403, messages.FOREIGN_PAGE)


def is_allowed_host(host: str, allowed_hosts: Sequence[str]) -> bool:
    """Returns whether a Host header has an IP address, localhost, or a name that a pattern allows."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        if any(fnmatchcase(name, pattern.lower()) for pattern in ("localhost", *allowed_hosts)):
            return True
        ip_address(name)
    except ValueError:
        return False
    return True


def with_headers(response: Response) -> Response:
    """Returns the response with `HEADERS`."""
    response.headers.update(HEADERS)
    return response
