"""What a release is made of: a commit of this repository, or the checkout as it is."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class ReleaseError(RuntimeError):
    """There is no release to make of this checkout."""


@dataclass(frozen=True)
class Source:
    """The sources of a release.

    Attributes:
        commit: the last one in it.
        tree: git's name of all that is in it.
        env: where git has what is not committed.
    """

    commit: str
    tree: str
    env: Mapping[str, str] = field(default_factory=dict, compare=False)

    def date(self) -> str:
        """Returns when the commit was made, in seconds since 1970."""
        return git("show", "--no-patch", "--format=%ct", self.commit)

    def part(self, paths: Iterable[str]) -> list[str]:
        """Returns Git's names of some of its files and folders."""
        return git("ls-tree", self.tree, "--", *paths, env=self.env).splitlines()

    def export(self, folder: Path) -> Path:
        """Writes its files into a new folder."""
        folder.mkdir()
        archive = folder.with_suffix(".tar")
        git("archive", f"--output={archive}", self.tree, env=self.env)
        subprocess.run(["tar", "--extract", f"--file={archive}", f"--directory={folder}"], check=True)
        archive.unlink()
        return folder


def git(*args: str, env: Mapping[str, str] | None = None) -> str:
    """Returns what git prints, asked in this repository.

    Args:
        args: the command line after ``git``.
        env: variables that this process does not have.

    Raises:
        ReleaseError: there is no git, no repository, or not what was asked for.
    """
    # The clone may belong to another user than root. Without locks `git status` does not write the index.
    own = ["--no-optional-locks", "-c", f"safe.directory={REPOSITORY}"]
    command = ["git", "-C", str(REPOSITORY), *own, *args]
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, **(env or {})}
        )
    except FileNotFoundError as error:
        raise ReleaseError("a release is made of a commit, and there is no git on this machine") from error
    if done.returncode:
        raise ReleaseError(f"git {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout.strip()


def committed(name: str = "HEAD") -> Source:
    """Returns a commit.

    Raises:
        ReleaseError: this repository does not have it.
    """
    return Source(git("rev-parse", f"{name}^{{commit}}"), git("rev-parse", f"{name}^{{tree}}"))


def shallow() -> bool:
    """Returns whether this clone lacks what came before."""
    return git("rev-parse", "--is-shallow-repository") == "true"


def held(commit: str) -> bool:
    """Returns whether this clone has a commit."""
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except ReleaseError:
        return False
    return True


@contextlib.contextmanager
def checkout() -> Iterator[Source]:
    """Yields the checkout as it is, with what is not committed and not ignored.

    Nothing is written into the repository, which may belong to another user: they could not commit any more
    where git has folders of root's.
    """
    with tempfile.TemporaryDirectory() as folder:
        held = git("rev-parse", "--path-format=absolute", "--git-path", "objects")
        env = {
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": held,
        }
        git("read-tree", "HEAD", env=env)
        git("add", "--all", env=env)
        yield Source(committed().commit, git("write-tree", env=env), env)


def changes() -> list[str]:
    """Returns what differs from the commit that is checked out, as ``git status`` says it."""
    return git("status", "--porcelain").splitlines()


def clean() -> Source:
    """Returns the commit that is checked out.

    Raises:
        ReleaseError: the checkout has changes.
    """
    if differ := changes():
        shown = "\n".join(f"  {line}" for line in differ[:10])
        raise ReleaseError(
            f"a release is made of a commit, and {len(differ)} files of this checkout differ:\n{shown}\n"
            "Commit or remove them. To try things out: make release DIRTY=1"
        )
    return committed()
