"""Tests that the locks pin the version and the hashes of every installed package."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
REQUIREMENTS = {
    "serving": PROJECT["project"]["dependencies"],
    "controllers": [*PROJECT["project"]["dependencies"], *EXTRAS["controllers"]],
    "build": PROJECT["build-system"]["requires"],
    "dev": [*PROJECT["project"]["dependencies"], *EXTRAS["controllers"], *EXTRAS["dev"]],
}
"""The requirements in pyproject.toml, by the name of the lock that pins them."""


def read_lock(name: str) -> dict[str, tuple[Requirement, int]]:
    """Returns the requirement and the number of hashes of each package of a lock."""
    text = (REPOSITORY / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    split = [entry.split(" --hash=sha256:") for entry in entries]
    # `Requirement` raises an error for other options in the lock, such as the address of packages.
    items = [(Requirement(words[0]), len(words) - 1) for words in split]
    return {canonicalize_name(requirement.name): (requirement, hashes) for requirement, hashes in items}


def installed_versions(requirements: list[str]) -> dict[str, set[str]]:
    """Returns the installed versions of the packages that these requirements need here, also indirectly."""
    versions: dict[str, set[str]] = {}
    queue, handled = [*map(Requirement, requirements)], set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in handled if known == name}:
            handled.add((name, extra))
            if name == PROJECT["project"]["name"]:
                continue
            versions.setdefault(name, set()).add(metadata.version(name))
            further = map(Requirement, metadata.requires(name) or ())
            queue += [
                need for need in further if need.marker is None or need.marker.evaluate({"extra": extra})
            ]
    return versions


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_lock_pins_all_direct_and_indirect_requirements(name: str) -> None:
    lock = read_lock(name)
    pins = {key: pin for key, (pin, _) in lock.items() if pin.marker is None or pin.marker.evaluate()}
    assert {key: {str(pin.specifier)} for key, pin in pins.items()} == {
        key: {f"=={version}" for version in versions}
        for key, versions in installed_versions(REQUIREMENTS[name]).items()
    }, "make lock"
    for requirement in map(Requirement, REQUIREMENTS[name]):
        key = canonicalize_name(requirement.name)
        assert key not in lock or lock[key][0].specifier == requirement.specifier, "make lock"


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_package_of_a_lock_has_hashes_and_the_version_of_the_dev_lock(name: str) -> None:
    dev_lock = read_lock("dev")
    for key, (pin, hashes) in read_lock(name).items():
        assert hashes, key
        assert pin.specifier == dev_lock[key][0].specifier


@pytest.mark.parametrize("file", ["Makefile", "Dockerfile"])
def test_every_installation_checks_hashes_or_is_from_this_checkout(file: str) -> None:
    text = (REPOSITORY / file).read_text(encoding="utf-8").replace("\\\n", "")
    assert re.search(r"\bLOCKED ?:?=.*--require-hashes --only-binary :all:", text)
    parts = re.split(r"\n|&&", text)
    installs = [part for part in parts if re.search(r"--requirement|\$\(PIP\) |pip.* install ", part)]
    assert len(installs) >= 4
    assert [part for part in installs if not re.search(r"LOCKED\b|--no-deps|^PIP :=", part)] == []


def test_the_base_image_is_pinned_by_its_digest() -> None:
    text = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=python:3\.13\.\d+-slim-trixie@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    assert len(stages) == text.count("\nFROM ")
    assert {build_base for build_base, _ in stages} - {name for _, name in stages} == {"${BASE}"}
