"""Mutation testing of what decides: changes it in small ways and looks which changes no test notices.

    .venv/bin/python -m tests.soak.mutation [--sample N] [--seed S] [--slowest SECONDS] [--write FILE]

mutmut makes the mutants and switches between them. This imports the mutated modules, collects the tests of
the quick tier once, notes which test calls which function, and then forks for each mutant of the
sample and runs in the fork the tests that call its function, quick ones first, until one fails.
The sample is the same for the same seed and the same product, so that two states of the tests compare.

What survives and why it may is in ``SURVIVORS.md``. Ends with 1 where less than `LEAST` is noticed.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import pickle
import random
import resource
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from math import ceil, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, ModuleType

    Seconds = dict[int, float]
    """Processor time of tests, by their number."""
    Calls = dict[str, set[int]]
    """The numbers of the tests that call a function."""

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]
DECIDING = next(each for each in CONTRACTS if each["name"].startswith("Deciding about placement"))
"""The import contract of what decides about placement: import-linter refuses a module in it that is gone."""

PACKAGES = {
    "engine": sorted(
        file for room in ("objects", "rows", "engine") for file in ROOT.glob(f"webhook/{room}/*.py")
    ),
    "placement": sorted(
        file
        for name in DECIDING["source_modules"]
        for file in (*ROOT.glob(f"{name.replace('.', '/')}.py"), *ROOT.glob(f"{name.replace('.', '/')}/*.py"))
    ),
    "certs": [ROOT / f"certs/{name}.py" for name in ("decide", "inputs", "objects")],
}
"""What is mutated, by package."""

TESTS = ["tests/engine", "tests/rules", "tests/placement", "tests/certs"]
LEFT_OUT = ["tests/engine/test_cost.py"]
"""Counts calls, and so those of what switches between mutants."""

LEAST = 85.0
"""Per cent of the mutants that tests have to notice."""

MEMORY = 4 * 1024**3
"""Bytes of address space that a mutant may use."""

# Examples enough to notice; no shrinking, for no one reads what they found; no complaint of a slow machine.
settings.register_profile(
    "mutants",
    settings(
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=25,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    ),
)


@dataclass(frozen=True)
class Mutant:
    """One small change of the product.

    Attributes:
        package: a key of `PACKAGES`.
        name: as mutmut switches it on.
        file: the module with all its mutants.
    """

    package: str
    name: str
    file: MutatedFile

    @property
    def function(self) -> str:
        """Which function it changes, as mutmut notes that one is called."""
        return self.name.rpartition("__mutmut_")[0]

    @property
    def change(self) -> str:
        """The lines that it takes out and puts in."""
        lines = self.file.code.splitlines()
        texts = []
        for name in (f"{self.function.rpartition('.')[2]}__mutmut_orig", self.name.rpartition(".")[2]):
            span = self.file.line_span_by_function_name[name]
            texts.append([line.replace(name, "it") for line in lines[span.start - 1 : span.end]])
        result = list(difflib.unified_diff(*texts, lineterm="", n=0))[2:]
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in result if not line.startswith("@@"))


class Importer(SourceFileLoader):
    """Imports modules with all their mutants in them, none of them switched on."""

    files: dict[str, tuple[str, Path]]
    mutants: list[Mutant]

    @classmethod
    def install(cls, packages: Sequence[str], only: Sequence[str] | None) -> None:
        """Makes imports of the modules in scope go this way."""
        cls.mutants = []
        cls.files = {
            ".".join(path.relative_to(ROOT).with_suffix("").parts): (package, path)
            for package, paths in PACKAGES.items()
            for path in paths
            if package in packages and path.stem != "__init__"
        }
        if only:
            modules = {name.rpartition(".")[0] for name in only}
            cls.files = {name: cls.files[name] for name in modules}
        sys.meta_path.insert(0, cls)  # type: ignore[arg-type]

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the import system's question for a module."""
        spec = PathFinder.find_spec(fullname, path, target)
        if fullname in cls.files and spec and spec.origin:
            spec.loader = cls(fullname, spec.origin)
            return spec
        return None

    def get_code(self, fullname: str) -> CodeType:
        """Compiles the module with its mutants, and notes them."""
        package, path = self.files[fullname]
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        self.mutants += (Mutant(package, f"{fullname}.{name}", mutated) for name in mutated.mutant_names)
        return compile(mutated.code, str(path), "exec", dont_inherit=True)


def sampled(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """Returns as many mutants by chance, from each module in proportion."""
    modules = defaultdict(list)
    for mutant in mutants:
        modules[mutant.name.rpartition(".")[0]].append(mutant)
    part = min(1.0, size / len(mutants))
    chosen = []
    for name, members in sorted(modules.items()):
        members.sort(key=lambda mutant: mutant.name)
        chosen += random.Random(f"{seed} {name}").sample(members, round(part * len(members)))  # noqa: S311 - no secret
    # In no order, so that what was tried until someone stops it is a sample as well.
    random.Random(seed).shuffle(chosen)  # noqa: S311 - as above
    return chosen


class Loop:
    """A pytest plugin that runs tests once for each mutant in place of once."""

    limit = 0.0
    """Seconds of processor time that a test may take; 0 for any."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self._wanted = wanted
        self.result: dict[str, object] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Takes away limits of time: a mutant has its own, of processor time."""
        for item in items:
            item.own_markers = [mark for mark in item.own_markers if mark.name != "timeout"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Ends a test that is too slow to run for each mutant."""
        signal.setitimer(signal.ITIMER_VIRTUAL, self.limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the tests of each mutant of the sample."""
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        terminal = session.config.pluginmanager.getplugin("terminalreporter")
        self._say = partial(terminal.write_line, flush=True)
        at_import = set(state()._stats)  # noqa: SLF001 - mutmut has no other way to it
        set_mutant_under_test("")
        for module in Importer.files:
            importlib.import_module(module)
        seconds: dict[int, float] = {}
        calls: dict[str, set[int]] = defaultdict(set)
        for took, called in reached(session.items, self._wanted):
            seconds |= took
            for function, numbers in called.items():
                calls[function] |= numbers
        self._say(
            f"{len(seconds)} of {len(session.items)} tests pass unchanged, in {sum(seconds.values()):.0f} s"
        )
        quick = {number: took for number, took in seconds.items() if took <= self._wanted.slowest}
        tests = {
            function: sorted(numbers & quick.keys(), key=lambda number: quick[number])
            for function, numbers in calls.items()
        }
        sample = sampled(Importer.mutants, self._wanted.sample, self._wanted.seed)
        if self._wanted.only:
            sample = [mutant for mutant in Importer.mutants if mutant.name in self._wanted.only]
        self._say(f"{len(sample)} of {len(Importer.mutants)} mutants; {len(quick)} tests")
        survivors = []
        begin = time.monotonic()
        for done, (mutant, survived) in enumerate(self._judged(session.items, sample, tests, quick), 1):
            if survived:
                survivors.append(mutant)
                note = " (called at import)" if mutant.function in at_import else ""
                how = f"{len(tests.get(mutant.function, ()))} tests{note}"
                self._say(f"survived {mutant.name} {how}\n{mutant.change}")
            if done % 25 == 0:
                self._say(f"{done} of {len(sample)} in {time.monotonic() - begin:.0f} s")
        self.result = summary(self._wanted, sample, survivors)
        return True

    def _judged(
        self,
        items: list[pytest.Item],
        sample: list[Mutant],
        tests: dict[str, list[int]],
        seconds: dict[int, float],
    ) -> Iterator[tuple[Mutant, bool]]:
        """Yields each mutant and whether it survived, as they end; one at a time for each processor."""
        running: dict[int, Mutant] = {}
        for mutant in [*sample, None]:
            while running and (mutant is None or len(running) >= self._wanted.processes):
                process, status = os.wait()
                yield running.pop(process), status == 0
            if mutant is not None:
                chosen = [(items[number], seconds[number]) for number in tests.get(mutant.function, ())]
                running[forked(lambda m=mutant, c=chosen: all_pass(m, c))] = mutant


def forked(work: Callable[[], bool]) -> int:
    """Starts a process that does something and ends with 0 if that is true."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return process


def reached(items: list[pytest.Item], wanted: argparse.Namespace) -> Iterator[tuple[Seconds, Calls]]:
    """Yields the tests that pass, and the functions they call, from other processes with their own caches."""
    files = sorted({item.path for item in items})
    pipes = []
    for part in range(wanted.processes):
        members = [
            number for number, item in enumerate(items) if files.index(item.path) % wanted.processes == part
        ]
        reader, writer = os.pipe()
        pipes.append((reader, forked(partial(send_reached, items, members, wanted.slowest, writer))))
        os.close(writer)
    for reader, process in pipes:
        with os.fdopen(reader, "rb") as pipe:
            content = pipe.read()
        os.waitpid(process, 0)
        yield pickle.loads(content)  # noqa: S301 - it comes from this program


def send_reached(items: list[pytest.Item], numbers: list[int], slowest: float, writer: int) -> bool:
    """Runs tests; sends the processor time of each that passes, and by function the tests that call it."""
    seconds: Seconds = {}
    calls = defaultdict(set)
    set_mutant_under_test("stats")
    signal.signal(signal.SIGVTALRM, too_slow)
    for number in numbers:
        state()._stats.clear()  # noqa: SLF001 - mutmut has no other way to it
        begin = time.process_time()
        Loop.limit = 5 * slowest  # noting what is called takes time as well
        if passes(items[number], None):
            seconds[number] = time.process_time() - begin
            for function in state()._stats:  # noqa: SLF001 - as above
                calls[function].add(number)
        else:
            sys.__stderr__.write(f"left out, it fails or is too slow: {items[number].nodeid}\n")
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump((seconds, dict(calls)), pipe)
    return True


def too_slow(*_: object) -> None:
    """Ends a test that is not to run for each mutant."""
    pytest.fail("takes too long")


def all_pass(mutant: Mutant, tests: list[tuple[pytest.Item, float]]) -> bool:
    """Returns whether no test notices a mutant; runs in its own process, which ends if it takes too long."""
    set_mutant_under_test(mutant.name)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number, (item, seconds) in enumerate(tests):
        limit = 5 + 5 * seconds
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + limit), resource.RLIM_INFINITY))
        signal.alarm(ceil(60 + 20 * seconds))
        if not passes(item, tests[number + 1][0] if number + 1 < len(tests) else None):
            return False
    return True


def passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Returns whether a test passes."""
    return not any(report.failed for report in runtestprotocol(item, nextitem=following, log=False))


def summary(wanted: argparse.Namespace, sample: list[Mutant], survivors: list[Mutant]) -> dict[str, object]:
    """Returns the scores, with what a sample of this size leaves open, and the survivors."""
    sizes, alive = (Counter(mutant.package for mutant in some) for some in (sample, survivors))
    scores = {package: scored(size, alive[package]) for package, size in sizes.items()}
    return {
        "sample": len(sample),
        "of": len(Importer.mutants),
        "seed": wanted.seed,
        "slowest test": wanted.slowest,
        "score": scored(len(sample), len(survivors)),
        "packages": scores,
        "survivors": [{"mutant": each.name, "change": each.change} for each in survivors],
    }


def scored(size: int, survived: int) -> dict[str, float]:
    """Returns the share of mutants that are noticed, and half the width of its 95 % interval, in per cent."""
    share = 1 - survived / size
    return {
        "mutants": size,
        "survived": survived,
        "noticed": round(100 * share, 1),
        "give or take": round(196 * sqrt(share * (1 - share) / size), 1),
    }


def main() -> int:
    """Returns runs, prints the scores, and writes them where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=500, help="how many mutants (500)")
    parser.add_argument("--seed", type=int, default=17, help="of the sample (17)")
    parser.add_argument(
        "--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES), help="what is changed"
    )
    parser.add_argument("--only", nargs="+", metavar="MUTANT", help="these mutants and no sample")
    parser.add_argument("--slowest", type=float, default=1.0, help="seconds of a test that still runs (1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="where the tests are")
    parser.add_argument("--write", type=Path, help="a file for the result, as JSON")
    wanted = parser.parse_args()
    Importer.install(wanted.packages, wanted.only)
    set_mutant_under_test("stats")
    loop = Loop(wanted)
    options = ["--hypothesis-profile=mutants", "-p", "no:cacheprovider", "-q", "--rootdir", str(ROOT)]
    options += [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]  # this imports Hypothesis before pytest does
    options += [f"--ignore={path}" for path in LEFT_OUT]
    pytest.main([*options, *wanted.tests], plugins=[loop])
    if not loop.result:
        return 1
    result = loop.result
    for package, score in {**result["packages"], "all": result["score"]}.items():
        share = f"{score['noticed']} % (+-{score['give or take']})"
        sys.stdout.write(f"{package}: {share} of {score['mutants']} mutants noticed\n")
    if wanted.write:
        wanted.write.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if result["score"]["noticed"] >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
