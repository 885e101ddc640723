"""Builds programs from a ``go.mod``, and caches them by a hash of the files and flags of the build."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

if __package__:
    from testbed.kits import golang, progress
else:  # build.py runs as a script: the folder of this file is the import path
    import golang  # type: ignore[import-not-found,no-redef]
    import progress  # type: ignore[import-not-found,no-redef]
from collections.abc import Callable, Mapping

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ultraserver-webhook"
MARKER = "complete.json"
# The prefix of temporary folders next to the programs.
SCRATCH = ".cluster-tools-"


def required(file: Path, module: str) -> str:
    """Returns the version of ``module`` that a ``go.mod`` requires, for example ``v1.36.3``.

    Raises:
        LookupError: The ``go.mod`` does not require the module.
    """
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.removeprefix("require").split()
        if words[:1] == [module] and len(words) > 1:
            return words[1]
    raise LookupError(f"{file} does not require {module}")


def build_once(
    target: Path,
    missing: Callable[[Path], object],
    build: Callable[[Path, Path, golang.Go], None],
    what: str,
) -> None:
    """Builds a target if it is not complete. A second build of the target waits for the first build.

    Args:
        target: The folder of the programs.
        missing: Returns the parts that the target lacks.
        build: Builds into the target, with a temporary folder next to it.
        what: The name of the target in the message to the user.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{SCRATCH}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not missing(target):
            return
        go = golang.find_toolchain(CACHE / "go-toolchain", progress.say)
        progress.say(f"building {what}, once, with {go.version}")
        for leftover in target.parent.glob(f"{SCRATCH}build-*"):
            shutil.rmtree(leftover)  # left by a killed build: only the holder of the lock builds
        with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}build-", dir=target.parent) as staging:
            build(target, Path(staging), go)


def keep_newest(folder: Path, count: int = 3) -> None:
    """Removes old builds, which are folders named by a hash or commit. A build may have a gigabyte."""
    builds = [path for path in folder.iterdir() if re.fullmatch("[0-9a-f]{16}|[0-9a-f]{40}", path.name)]
    for outdated in sorted(builds, key=lambda path: path.stat().st_mtime)[:-count]:
        shutil.rmtree(outdated)


@dataclass(frozen=True)
class Kit:
    """The programs and files that are built from one ``go.mod``.

    Attributes:
        name: The name of the kit's folder in the cache.
        folder: The folder of the ``go.mod``.
        main: The Go module whose version is the version of the kit.
        programs: The Go package of each program.
        stamps: Variables of Go packages, with the values that the linker sets, such as the version.
        variable: The environment variable by which a user can choose another folder of built programs.
        edited: The Go module of which one file is edited before the build; empty for none.
        file: The path of this file in the module.
        edits: For each text that occurs once in the file, its replacement.
        carried: A file or folder of the edited module that is copied next to the programs, so that tests need
            no Go and no network.
        more: Further folders that are copied: for each name, the module and the path in the module.
    """

    name: str
    folder: Path
    main: str
    programs: Mapping[str, str]
    stamps: Mapping[str, str]
    variable: str
    edited: str = ""
    file: str = ""
    edits: Mapping[str, str] = field(default_factory=dict)
    carried: str = ""
    more: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def version(self) -> str:
        """Returns the release that ``go.mod`` names, for example ``v1.36.3``."""
        return required(self.folder / "go.mod", self.main)

    def build_flags(self) -> list[str]:
        """Returns the flags of ``go build``, with the version that the programs report."""
        version = self.version()
        major, minor, _ = version.removeprefix("v").split(".")
        values = {"version": version, "major": major, "minor": minor}
        stamps = [f"-X {variable}={value.format(**values)}" for variable, value in self.stamps.items()]
        # By default, Go would write the commit of this repository into programs of other repositories.
        return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *stamps])]

    def contents(self) -> list[str]:
        """Returns the names in a complete directory: the programs, and the copied files and folders."""
        return [*self.programs, *([Path(self.carried).name] if self.carried else []), *self.more]

    def recipe(self) -> str:
        """Returns the hash of all files and flags that decide the contents of the directory."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        parts = [self.build_flags(), self.programs, self.edits, Path(self.carried).name]
        parts += [self.more] if self.more else []
        digest.update(json.dumps(parts).encode())
        return digest.hexdigest()[:16]

    def directory(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Returns the folder of the programs, from ``variable`` or in the cache. It may not exist yet."""
        chosen = environ.get(self.variable)
        return Path(chosen).expanduser().absolute() if chosen else CACHE / self.name / self.recipe()

    def program(self, name: str) -> Path:
        """Returns the built program or, if it was not built, the program on the machine's PATH.

        Raises:
            FileNotFoundError: There is no such program.
        """
        built = self.directory() / name
        path = str(built) if built.exists() else shutil.which(name)
        if path is None:
            raise FileNotFoundError(f"there is no {name}: make cluster-tools")
        return Path(path)

    def missing(self, target: Path) -> list[str]:
        """Returns the names that ``target`` lacks: all names if another recipe has built the target."""
        try:
            marker = json.loads((target / MARKER).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
            return self.contents()
        if marker.get("recipe") != self.recipe():
            return self.contents()
        return [name for name in self.contents() if not (target / name).exists()]

    def build(self) -> None:
        """Builds the programs if they are missing, and prints where they are."""
        start = time.monotonic()
        target = self.directory()
        if not self.missing(target):
            progress.say(f"{self.name} are ready in {target}")
            return
        build_once(target, self.missing, self._build_into, f"{self.main} {self.version()}")
        progress.say(f"{self.name} are ready in {target} after {time.monotonic() - start:.0f} s")

    def _build_into(self, target: Path, staging: Path, go: golang.Go) -> None:
        """Builds every program in ``staging`` and moves them to ``target``, the marker last."""
        report = progress.Progress(len(self.programs) + 1)
        modules = go.command("list", "-deps", "-f", "{{.ImportPath}}", "tool")
        report.phase("modules", modules, cwd=self.folder, env=go.env, counted=progress.PACKAGES)
        out = staging / "out"
        out.mkdir()
        flags = self.build_flags()
        if self.edited:
            source = self._prepare_edited_source(go, staging)
            flags.insert(0, f"-modfile={staging / 'modfile' / 'go.mod'}")
            copy = shutil.copytree if (source / self.carried).is_dir() else shutil.copyfile
            copy(source / self.carried, out / Path(self.carried).name)
        for name, package in self.programs.items():
            command = go.command("build", "-v", *flags, "-o", str(out / name), package)
            report.phase(name, command, cwd=self.folder, env=go.env, counted=progress.PACKAGES)
        for name, (module, path) in self.more.items():
            # The copies get new permissions, because files in the module cache are read-only.
            shutil.copytree(self._source(go, module) / path, out / name, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(out):
            Path(folder).chmod(0o755)
        target.mkdir(parents=True, exist_ok=True)
        (target / MARKER).unlink(missing_ok=True)
        for built in out.iterdir():
            if (target / built.name).is_dir():
                shutil.rmtree(target / built.name)
            built.replace(target / built.name)
        marker = staging / MARKER
        marker.write_text(json.dumps({"recipe": self.recipe(), "version": self.version()}), encoding="utf-8")
        marker.replace(target / MARKER)

    def _prepare_edited_source(self, go: golang.Go, staging: Path) -> Path:
        """Copies the source of ``edited``, edits it, and writes a go.mod that builds from the copy.

        The source is copied, because Go's ``-overlay`` does not replace files in the module cache.
        """
        copy = staging / "source"
        shutil.copytree(self._source(go, self.edited), copy, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(copy):
            # The copy must be writable, so that it can be removed.
            Path(folder).chmod(0o755)
        edited = copy / self.file
        text = edited.read_text(encoding="utf-8")
        for old, new in self.edits.items():
            if text.count(old) != 1:
                raise LookupError(f"{self.file} of {self.edited} no longer has exactly one {old!r}")
            text = text.replace(old, new)
        edited.write_text(text, encoding="utf-8")
        modfile = staging / "modfile" / "go.mod"
        modfile.parent.mkdir()
        replacement = f"\nreplace {self.edited} => {copy}\n"
        go_mod = (self.folder / "go.mod").read_text(encoding="utf-8")
        modfile.write_text(go_mod + replacement, encoding="utf-8")
        shutil.copyfile(self.folder / "go.sum", modfile.with_name("go.sum"))
        return copy

    def _source(self, go: golang.Go, module: str) -> Path:
        """Returns the folder of a module in the module cache."""
        return Path(go.output("list", "-m", "-f", "{{.Dir}}", module, folder=self.folder))
