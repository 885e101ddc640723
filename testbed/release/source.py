"""The sources of a release: a commit of this repository, or the checkout with its changes."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class ReleaseError(RuntimeError):
    """A release cannot be built from this checkout."""


@dataclass(frozen=True)
class Source:
    """The sources of a release.

    Attributes:
        commit: The last commit.
        tree: The Git hash of the tree with all files.
        env: Environment variables with which git finds the changes that are not committed.
    """

    commit: str
    tree: str
    env: Mapping[str, str] = field(default_factory=dict, compare=False)

    def date(self) -> str:
        """Returns the date of the commit, in seconds since 1970."""
        return git("show", "--no-patch", "--format=%ct", self.commit)

    def part(self, paths: Iterable[str]) -> list[str]:
        """Returns the ``git ls-tree`` lines of some files and folders of the sources."""
        return git("ls-tree", self.tree, "--", *paths, env=self.env).splitlines()

    def export(self, folder: Path) -> Path:
        """Writes the files of the sources into a new folder."""
        folder.mkdir()
        archive = folder.with_suffix(".tar")
        git("archive", f"--output={archive}", self.tree, env=self.env)
        subprocess.run(["tar", "--extract", f"--file={archive}", f"--directory={folder}"], check=True)
        archive.unlink()
        return folder


def git(*args: str, env: Mapping[str, str] | None = None) -> str:
    """Returns the output of git in this repository.

    Args:
        args: The command line after ``git``.
        env: Additional environment variables.

    Raises:
        ReleaseError: There is no git, or the command has failed.
    """
    # The clone may not belong to root, who runs this program. Without locks, `git status` writes no files.
    options = ["--no-optional-locks", "-c", f"safe.directory={REPOSITORY}"]
    command = ["git", "-C", str(REPOSITORY), *options, *args]
    try:
        result = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, **(env or {})}
        )
    except FileNotFoundError as error:
        raise ReleaseError("a release is built from a commit, and there is no git on this machine") from error
    if result.returncode:
        raise ReleaseError(f"git {' '.join(args)}: {result.stderr.strip()}")
    return result.stdout.strip()


def source_of(name: str = "HEAD") -> Source:
    """Returns the sources of a commit.

    Raises:
        ReleaseError: This repository does not have the commit.
    """
    return Source(git("rev-parse", f"{name}^{{commit}}"), git("rev-parse", f"{name}^{{tree}}"))


def is_shallow() -> bool:
    """Returns whether this clone is shallow, so that it lacks older commits."""
    return git("rev-parse", "--is-shallow-repository") == "true"


def has_commit(commit: str) -> bool:
    """Returns whether this clone has a commit."""
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except ReleaseError:
        return False
    return True


@contextlib.contextmanager
def checkout() -> Iterator[Source]:
    """Yields the checkout with the changes that are not committed and not ignored.

    Nothing is written into the repository, because it may belong to another user than root. That user could
    no longer commit if ``.git`` had folders of root.
    """
    with tempfile.TemporaryDirectory() as folder:
        objects = git("rev-parse", "--path-format=absolute", "--git-path", "objects")
        env = {
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        git("read-tree", "HEAD", env=env)
        git("add", "--all", env=env)
        yield Source(source_of().commit, git("write-tree", env=env), env)


def changes() -> list[str]:
    """Returns the changes to the commit that is checked out, as ``git status`` prints them."""
    return git("status", "--porcelain").splitlines()


def clean() -> Source:
    """Returns the sources of the commit that is checked out.

    Raises:
        ReleaseError: The checkout has changes.
    """
    if changed := changes():
        listing = "\n".join(f"  {line}" for line in changed[:10])
        raise ReleaseError(
            f"a release needs a commit, but {len(changed)} files of this checkout differ:\n{listing}\n"
            "Commit or remove them. For a trial: make release DIRTY=1"
        )
    return source_of()
