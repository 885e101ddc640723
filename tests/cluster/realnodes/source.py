"""What a release is made of: a commit of this repository, or the checkout as it is."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORY = Path(__file__).resolve().parents[3]


class ReleaseError(RuntimeError):
    """There is no release to make of this checkout."""


@dataclass(frozen=True)
class Source:
    """What a release is made of.

    Attributes:
        commit: the last one in it.
        tree: git's name of all that is in it.
    """

    commit: str
    tree: str

    def date(self) -> str:
        """When the commit was made, in seconds since 1970."""
        return git("show", "--no-patch", "--format=%ct", self.commit)

    def part(self, paths: Iterable[str]) -> str:
        """Git's names of some of its files and folders."""
        return git("ls-tree", self.tree, "--", *paths)

    def export(self, folder: Path) -> Path:
        """Writes its files into a new folder."""
        folder.mkdir()
        archive = folder.with_suffix(".tar")
        git("archive", f"--output={archive}", self.tree)
        subprocess.run(["tar", "--extract", f"--file={archive}", f"--directory={folder}"], check=True)
        archive.unlink()
        return folder


def git(*args: str, index: Path | None = None) -> str:
    """What git prints, asked in this repository.

    Raises:
        ReleaseError: there is no git, no repository, or not what was asked for.
    """
    # The clone may belong to somebody else than root.
    command = ["git", "-C", str(REPOSITORY), "-c", f"safe.directory={REPOSITORY}", *args]
    env = {**os.environ, **({"GIT_INDEX_FILE": str(index)} if index else {})}
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    except FileNotFoundError as error:
        raise ReleaseError("a release is made of a commit, and there is no git on this machine") from error
    if done.returncode:
        raise ReleaseError(f"git {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout.strip()


def committed(name: str = "HEAD") -> Source:
    """A commit.

    Raises:
        ReleaseError: this repository does not have it.
    """
    return Source(git("rev-parse", f"{name}^{{commit}}"), git("rev-parse", f"{name}^{{tree}}"))


def shallow() -> bool:
    """Whether this clone lacks what came before."""
    return git("rev-parse", "--is-shallow-repository") == "true"


def held(commit: str) -> bool:
    """Whether this clone has a commit."""
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except ReleaseError:
        return False
    return True


def checkout() -> Source:
    """The checkout as it is, with what is not committed and not ignored."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        git("read-tree", "HEAD", index=index)
        git("add", "--all", index=index)
        return Source(committed().commit, git("write-tree", index=index))


def clean() -> Source:
    """The commit that is checked out.

    Raises:
        ReleaseError: the checkout has changes.
    """
    changes = git("status", "--porcelain").splitlines()
    if changes:
        shown = "\n".join(f"  {line}" for line in changes[:10])
        raise ReleaseError(
            f"a release is made of a commit, and {len(changes)} files of this checkout differ:\n{shown}\n"
            "Commit or remove them. To try things out: make release DIRTY=1"
        )
    return committed()
