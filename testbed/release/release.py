"""Writes a release: ``python -m testbed.release.release [--dirty [--keep] | --before] [--key FILE]``.

A release is a folder with all that an installation needs, without a clone: wheel and sdist,
the kubectl plugin as one file, the two images as archives, the bill of materials, the chart, a file for
``kubectl apply`` of its default and of each recommended set of values, what all this was made of, checksums
``kubectl apply`` of its default and of each recommended set of values, provenance, checksums
and their signature. The same commit gives the same files, except for the images, whose Debian is that of the
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from testbed import chart
from testbed.images import product
from testbed.kits import kit, progress
from testbed.plane.process import ClusterError, end_as_by_ctrl_c
from testbed.release import installs, provenance, record, signature, source
from testbed.release.pyz import write as plugin

DIST = product.REPOSITORY / "dist"
BILL = DIST / "sbom.cdx.json"
SUMS = "SHA256SUMS"
ABOUT = "release.json"
BEFORE = "61684e23369530e2b72a7f2ba1622156889b0023"
"""The commit of the release before this one: 0.2.0."""


def folder(version: str) -> Path:
    """Returns where the release of this checkout is, or will be."""
    return DIST / f"release-{version}"


def before() -> Path:
    """Returns where the release before this one is, or will be."""
    return kit.CACHE / "releases" / BEFORE


def not_held() -> str:
    """Returns why this clone cannot have the release before; empty where it can."""
    if source.held(BEFORE) or not source.shallow():
        return ""
    return f"this clone is shallow, and lacks the commit of the release before, {BEFORE}"


def stale() -> str:
    """Returns why ``dist`` has no release that installs what this checkout would; empty where it has."""
    about = folder(product.version()) / ABOUT
    if not about.is_file():
        return "there is no release of this checkout: make release"
    made = json.loads(about.read_text(encoding="utf-8"))
    try:
        with source.checkout() as now:
            if made.get("installed") == installed(now):
                return ""
        way_out = "make release DIRTY=1" if source.changes() else "make release"
    except source.ReleaseError as error:
        return str(error)
    return f"{about.parent} is of another state of this checkout: {way_out}"


def installed(state: source.Source) -> list[str]:
    """Returns Git's names of all that decides what is installed."""
    return state.part([*product.context(), "manifests", "examples"])


class Writer:
    """Writes the files of a release.

    Args:
        state: what it is made of.
        files: the files of that.
        out: the folder to write into.
        report: gets every step.
    """

    def __init__(self, state: source.Source, files: Path, out: Path, report: progress.Progress) -> None:
        self._state, self._files, self._out, self._report = state, files, out, report
        self._env = {**os.environ, "SOURCE_DATE_EPOCH": state.date()}

    def packages(self) -> None:
        """Writes wheel and sdist."""
        command = [sys.executable, "-m", "hatchling", "build", "--directory", str(self._out)]
        self._report.phase("wheel, sdist", command, cwd=self._files, env=self._env)

    def plugin(self) -> None:
        """Writes the kubectl plugin as one file, and its manifest for krew."""
        plugin.write(self._files, self._out, product.version(self._files), int(self._state.date()))

    def manifests(self) -> None:
        """Writes the chart with the images' digests, and what Helm renders from it."""
        installs.write(self._files, self._out, self.archives(), int(self._state.date()))

    def archives(self) -> dict[str, Path]:
        """Returns where the archives of the product's images are, by name and tag of the image."""
        version = product.version(self._files)
        return {f"{name}:{version}": self._out / f"{name}-{version}.tar" for name in product.TARGETS.values()}

    def images(self, built: Path) -> None:
        """Copies the archives of the product's images from the folder that they were built in."""
        for target, path in zip(product.TARGETS, self.archives().values(), strict=True):
            shutil.copyfile(built / f"{target}.tar", path)

    def provenance(self) -> None:
        """Writes the provenance of all files."""
        dirty = self._state.tree != source.committed(self._state.commit).tree
        made = provenance.statement(self._out.iterdir(), self.archives(), self._state, dirty=dirty)
        (self._out / provenance.NAME).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")

    def about(self) -> None:
        """Writes the version and the commit, and what they install."""
        about = {
            "version": product.version(self._files),
            "commit": self._state.commit,
            "tree": self._state.tree,
            "installed": installed(self._state),
        }
        (self._out / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    def sums(self) -> Path:
        """Returns the checksums of all files, as ``sha256sum --check`` reads them."""
        lines = [f"{provenance.sha256(path)}  {path.name}\n" for path in sorted(self._out.iterdir())]
        (self._out / SUMS).write_text("".join(lines), encoding="utf-8")
        return self._out / SUMS


def write(state: source.Source, soak: Path | None = None, key: Path | None = None) -> Path:
    """Writes the release of this checkout, whose images and bill of materials are there.

    Args:
        state: what it is made of.
        soak: the record of its soak, which goes with it; None for one to try out.
        key: what its checksums are signed with; None for no signature.

    Raises:
        ReleaseError: The key does not sign, or is not trusted; one to try out may have any key.
    """
    target = folder(product.version())
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=DIST) as scratch:
        files, out = state.export(Path(scratch) / "source"), Path(scratch) / "out"
        out.mkdir()
        writer = Writer(state, files, out, progress.Progress(1))
        writer.images(product.directory())
        writer.packages()
        progress.say("chart and manifests")
        writer.manifests()
        writer.plugin()
        progress.say("bill of materials, provenance and checksums")
        shutil.copyfile(BILL, out / BILL.name)
        if soak:
            shutil.copyfile(soak, out / "soak.json")
        writer.about()
        writer.provenance()
        sums = writer.sums()
        if key:
            signature.sign(sums, key)
            if soak and (why := signature.refused(sums)):
                raise source.ReleaseError(f"its public half is not in {why}")
        else:
            progress.say("no signature: RELEASE_KEY names no key")
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)
    return target


def write_before() -> Path:
    """Builds the release before this one from its commit, once; it is kept in the cache.

    Raises:
        ReleaseError: this clone does not have it.
    """
    if not source.held(BEFORE):
        raise source.ReleaseError(
            f"this clone is whole and has no commit {BEFORE}, of which the release before this one is made: "
            f"BEFORE in {Path(__file__).name} has to name it as it is called now"
        )
    commit = source.committed(BEFORE)
    with product.building() as scratch:
        if before().is_dir():
            return before()
        progress.say(f"building the release before this one, of commit {BEFORE[:12]}, once")
        files, built, out = commit.export(scratch / "source"), scratch / "built", scratch / "out"
        built.mkdir()
        out.mkdir()
        report = progress.Progress(9 + product.new_steps())
        builder = product.Builder(built, report)
        builder.below()
        builder.product(files)
        writer = Writer(commit, files, out, report)
        writer.images(built)
        writer.packages()
        installs.write(files, out, writer.archives(), int(commit.date()), sets={"install": {}})
        writer.about()
        writer.sums()
        before().parent.mkdir(exist_ok=True)
        out.rename(before())
        kit.keep_newest(before().parent)
    return before()


def main() -> int:
    """Writes one release and says where it is."""
    parser = argparse.ArgumentParser(prog="python -m testbed.release.release")
    parser.add_argument("--dirty", action="store_true", help="of the checkout as it is, committed or not")
    parser.add_argument(
        "--before", action="store_true", help="the release before, which a test upgrades from"
    )
    parser.add_argument(
        "--keep", action="store_true", help="do nothing where there is one that installs the same"
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="sign the checksums with this key of SSH")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    start = time.monotonic()
    if options.before and not_held():
        progress.say(f"{not_held()}: it is not built, and the test of an upgrade is left out")
        return 0
    if options.keep and not stale():
        return 0
    if options.before:
        target = write_before()
    elif options.dirty:
        with source.checkout() as state:
            target = write(state, key=options.key)
    else:
        state = source.clean()
        target = write(state, record.of(state.commit).path(), options.key)
    progress.say(f"the release is in {target} after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (
        progress.PhaseError,
        ClusterError,
        chart.ChartError,
        source.ReleaseError,
        FileNotFoundError,
    ) as error:
        sys.exit(f"release: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
