"""The port that metrics are read from."""

import ipaddress

import click
import pytest

import certs.__main__
import placement.__main__


@pytest.mark.parametrize("program", [certs.__main__.run, placement.__main__.run], ids=["certs", "placement"])
def test_a_program_can_serve_metrics_at_the_address_that_it_has_by_default(program: click.Command) -> None:
    (default,) = (option.default for option in program.params if option.name == "metrics_host")
    # Any of the Pod's. An empty name, which means that to a socket, is looked up first, and is not a name.
    assert ipaddress.ip_address(default).is_unspecified
