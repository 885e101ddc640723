"""What is installed is what the locks name: by version, and by the hash of every file."""

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
NEEDED = {
    "serving": PROJECT["project"]["dependencies"],
    "controllers": [*PROJECT["project"]["dependencies"], *EXTRAS["controllers"]],
    "build": PROJECT["build-system"]["requires"],
    "dev": [*PROJECT["project"]["dependencies"], *EXTRAS["controllers"], *EXTRAS["dev"]],
}
"""What pyproject.toml asks for, by the lock that has it."""


def locked(name: str) -> dict[str, tuple[Requirement, int]]:
    """Returns each package of a lock: which version of it, and how many hashes there are."""
    text = (REPOSITORY / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    split = [entry.split(" --hash=sha256:") for entry in entries]
    # Other options in such a file, such as the address of packages, are not requirements.
    items = [(Requirement(words[0]), len(words) - 1) for words in split]
    return {canonicalize_name(one.name): (one, hashes) for one, hashes in items}


def asked(requirements: list[str]) -> dict[str, set[str]]:
    """Returns all packages that these need where the tests run, and which versions of them are installed."""
    versions: dict[str, set[str]] = {}
    waiting, done = [Requirement(each) for each in requirements], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in done if known == name}:
            done.add((name, extra))
            if name == PROJECT["project"]["name"]:
                continue
            versions.setdefault(name, set()).add(metadata.version(name))
            further = map(Requirement, metadata.requires(name) or ())
            waiting += [one for one in further if one.marker is None or one.marker.evaluate({"extra": extra})]
    return versions


@pytest.mark.parametrize("name", NEEDED)
def test_a_lock_has_what_the_project_asks_for_and_what_that_needs(name: str) -> None:
    lock = locked(name)
    here = {key: one for key, (one, _) in lock.items() if one.marker is None or one.marker.evaluate()}
    assert {key: {str(one.specifier)} for key, one in here.items()} == {
        key: {f"=={version}" for version in versions} for key, versions in asked(NEEDED[name]).items()
    }, "make lock"
    for requirement in map(Requirement, NEEDED[name]):
        key = canonicalize_name(requirement.name)
        assert key not in lock or lock[key][0].specifier == requirement.specifier, "make lock"


@pytest.mark.parametrize("name", NEEDED)
def test_every_package_of_a_lock_has_its_hashes_and_is_of_one_version_in_all_locks(name: str) -> None:
    everything = locked("dev")
    for key, (one, hashes) in locked(name).items():
        assert hashes, key
        assert one.specifier == everything[key][0].specifier


@pytest.mark.parametrize("file", ["Makefile", "Dockerfile"])
def test_nothing_is_installed_but_by_its_hash_or_from_this_checkout(file: str) -> None:
    text = (REPOSITORY / file).read_text(encoding="utf-8").replace("\\\n", "")
    assert re.search(r"\bLOCKED ?:?=.*--require-hashes --only-binary :all:", text)
    parts = re.split(r"\n|&&", text)
    installs = [part for part in parts if re.search(r"--requirement|\$\(PIP\) |pip.* install ", part)]
    assert len(installs) >= 4
    assert [part for part in installs if not re.search(r"LOCKED\b|--no-deps|^PIP :=", part)] == []


def test_the_base_image_is_named_by_its_digest() -> None:
    text = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=python:3\.13\.\d+-slim-trixie@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    assert len(stages) == text.count("\nFROM ")
    assert {build_base for build_base, _ in stages} - {name for _, name in stages} == {"${BASE}"}
