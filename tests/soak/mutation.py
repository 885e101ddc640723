"""Mutation testing: makes small changes to the code that decides, and prints those that no test notices.

    .venv/bin/python -m tests.soak.mutation [--sample N] [--seed S] [--slowest SECONDS] [--write FILE]

mutmut makes the mutants and switches between them. This program imports the mutated modules, collects the
tests once, and records which test calls which function. Then it forks for each mutant of the sample. The fork
runs the tests that call the mutant's function, the fastest test first, until a test fails.
The seed and the product determine the sample, so that two states of the tests can be compared.

``SURVIVORS.md`` has the surviving mutants and the reasons. The exit code is 1 if tests notice less than
`MIN_NOTICED` per cent.
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
    """Processor time of tests, by the number of the test."""
    Calls = dict[str, set[int]]
    """The numbers of the tests that call a function."""

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]
DECIDING = next(contract for contract in CONTRACTS if contract["name"].startswith("Deciding about placement"))
"""The import contract of the modules that decide about placement. import-linter reports missing modules."""

PACKAGES = {
    "engine": sorted(
        file for folder in ("objects", "rows", "engine") for file in ROOT.glob(f"webhook/{folder}/*.py")
    ),
    "placement": sorted(
        file
        for name in DECIDING["source_modules"]
        for file in (*ROOT.glob(f"{name.replace('.', '/')}.py"), *ROOT.glob(f"{name.replace('.', '/')}/*.py"))
    ),
    "certs": [ROOT / f"certs/{name}.py" for name in ("decide", "inputs", "objects")],
}
"""The files that are mutated, by package."""

TESTS = ["tests/engine", "tests/rules", "tests/placement", "tests/certs"]
LEFT_OUT = ["tests/engine/test_cost.py"]
"""These tests count calls, and would also count the calls that switch between mutants."""

MIN_NOTICED = 85.0
"""Minimum percentage of the mutants that tests must notice."""

MEMORY = 4 * 1024**3
"""Bytes of address space that a mutant may use."""

# Enough examples to notice a mutant. Shrinking is off, because the examples are not shown.
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
        package: A key of `PACKAGES`.
        name: The name with which mutmut switches the mutant on.
        file: The module with all its mutants.
    """

    package: str
    name: str
    file: MutatedFile

    @property
    def function(self) -> str:
        """The function that it changes, by the name that mutmut records when the function is called."""
        return self.name.rpartition("__mutmut_")[0]

    @property
    def change(self) -> str:
        """The lines that it removes and adds."""
        lines = self.file.code.splitlines()
        texts = []
        for name in (f"{self.function.rpartition('.')[2]}__mutmut_orig", self.name.rpartition(".")[2]):
            span = self.file.line_span_by_function_name[name]
            texts.append([line.replace(name, "it") for line in lines[span.start - 1 : span.end]])
        result = list(difflib.unified_diff(*texts, lineterm="", n=0))[2:]
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in result if not line.startswith("@@"))


class Importer(SourceFileLoader):
    """Imports modules with all their mutants, which are switched off."""

    files: dict[str, tuple[str, Path]]
    mutants: list[Mutant]

    @classmethod
    def install(cls, packages: Sequence[str], only: Sequence[str] | None) -> None:
        """Makes Python import the modules of these packages with this class."""
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
        """Returns the spec with which Python imports a mutated module; None for other modules."""
        spec = PathFinder.find_spec(fullname, path, target)
        if fullname in cls.files and spec and spec.origin:
            spec.loader = cls(fullname, spec.origin)
            return spec
        return None

    def get_code(self, fullname: str) -> CodeType:
        """Compiles a module with its mutants, and adds these to ``mutants``."""
        package, path = self.files[fullname]
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        self.mutants += (Mutant(package, f"{fullname}.{name}", mutated) for name in mutated.mutant_names)
        return compile(mutated.code, str(path), "exec", dont_inherit=True)


def draw_sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """Returns about this many random mutants: the same proportion from each module."""
    modules = defaultdict(list)
    for mutant in mutants:
        modules[mutant.name.rpartition(".")[0]].append(mutant)
    part = min(1.0, size / len(mutants))
    chosen = []
    for name, members in sorted(modules.items()):
        members.sort(key=lambda mutant: mutant.name)
        chosen += random.Random(f"{seed} {name}").sample(members, round(part * len(members)))  # noqa: S311 - no secret
    # In random order, so that the mutants of an interrupted run are a sample, too.
    random.Random(seed).shuffle(chosen)  # noqa: S311 - as above
    return chosen


class Loop:
    """A pytest plugin that runs the tests once for each mutant."""

    limit = 0.0
    """Maximum processor time of a test, in seconds; 0 for no limit."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.result: dict[str, object] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Removes the time limits of tests, because each mutant has a limit of processor time."""
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
        for took, called in trace_tests(session.items, self._arguments):
            seconds |= took
            for function, numbers in called.items():
                calls[function] |= numbers
        self._say(
            f"{len(seconds)} of {len(session.items)} tests pass unchanged, in {sum(seconds.values()):.0f} s"
        )
        quick = {number: took for number, took in seconds.items() if took <= self._arguments.slowest}
        tests = {
            function: sorted(numbers & quick.keys(), key=lambda number: quick[number])
            for function, numbers in calls.items()
        }
        sample = draw_sample(Importer.mutants, self._arguments.sample, self._arguments.seed)
        if self._arguments.only:
            sample = [mutant for mutant in Importer.mutants if mutant.name in self._arguments.only]
        self._say(f"{len(sample)} of {len(Importer.mutants)} mutants; {len(quick)} tests")
        survivors = []
        begin = time.monotonic()
        for done, (mutant, survived) in enumerate(self._results(session.items, sample, tests, quick), 1):
            if survived:
                survivors.append(mutant)
                note = " (called at import)" if mutant.function in at_import else ""
                how = f"{len(tests.get(mutant.function, ()))} tests{note}"
                self._say(f"survived {mutant.name} {how}\n{mutant.change}")
            if done % 25 == 0:
                self._say(f"{done} of {len(sample)} in {time.monotonic() - begin:.0f} s")
        self.result = summary(self._arguments, sample, survivors)
        return True

    def _results(
        self,
        items: list[pytest.Item],
        sample: list[Mutant],
        tests: dict[str, list[int]],
        seconds: dict[int, float],
    ) -> Iterator[tuple[Mutant, bool]]:
        """Yields each mutant when its tests end, with whether it survived. Runs several mutants at a time."""
        running: dict[int, Mutant] = {}
        for mutant in [*sample, None]:
            while running and (mutant is None or len(running) >= self._arguments.processes):
                process, status = os.wait()
                yield running.pop(process), status == 0
            if mutant is not None:
                chosen = [(items[number], seconds[number]) for number in tests.get(mutant.function, ())]
                running[fork(lambda m=mutant, c=chosen: all_pass(m, c))] = mutant


def fork(work: Callable[[], bool]) -> int:
    """Starts a process that calls ``work``, and ends with 0 if the result is true."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return process


def trace_tests(items: list[pytest.Item], arguments: argparse.Namespace) -> Iterator[tuple[Seconds, Calls]]:
    """Yields the time of passing tests and the functions that they call, measured in other processes."""
    files = sorted({item.path for item in items})
    pipes = []
    for part in range(arguments.processes):
        members = [
            number
            for number, item in enumerate(items)
            if files.index(item.path) % arguments.processes == part
        ]
        reader, writer = os.pipe()
        pipes.append((reader, fork(partial(send_trace, items, members, arguments.slowest, writer))))
        os.close(writer)
    for reader, process in pipes:
        with os.fdopen(reader, "rb") as pipe:
            content = pipe.read()
        os.waitpid(process, 0)
        yield pickle.loads(content)  # noqa: S301 - it comes from this program


def send_trace(items: list[pytest.Item], numbers: list[int], slowest: float, writer: int) -> bool:
    """Runs tests; sends the processor time of each passing test, and the tests that call each function."""
    seconds: Seconds = {}
    calls = defaultdict(set)
    set_mutant_under_test("stats")
    signal.signal(signal.SIGVTALRM, too_slow)
    for number in numbers:
        state()._stats.clear()  # noqa: SLF001 - mutmut has no other way to it
        begin = time.process_time()
        Loop.limit = 5 * slowest  # recording the calls takes time, too
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
    """Fails a test that is too slow to run for each mutant."""
    pytest.fail("takes too long")


def all_pass(mutant: Mutant, tests: list[tuple[pytest.Item, float]]) -> bool:
    """Returns whether no test notices a mutant. Runs in its own process, which ends if it takes too long."""
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


def summary(
    arguments: argparse.Namespace, sample: list[Mutant], survivors: list[Mutant]
) -> dict[str, object]:
    """Returns the scores with their uncertainty, and the survivors."""
    sizes, alive = (Counter(mutant.package for mutant in mutants) for mutants in (sample, survivors))
    scores = {package: score_of(size, alive[package]) for package, size in sizes.items()}
    return {
        "sample": len(sample),
        "of": len(Importer.mutants),
        "seed": arguments.seed,
        "slowest test": arguments.slowest,
        "score": score_of(len(sample), len(survivors)),
        "packages": scores,
        "survivors": [{"mutant": mutant.name, "change": mutant.change} for mutant in survivors],
    }


def score_of(size: int, survived: int) -> dict[str, float]:
    """Returns the percentage of noticed mutants, and half the width of its 95 % interval."""
    share = 1 - survived / size
    return {
        "mutants": size,
        "survived": survived,
        "noticed": round(100 * share, 1),
        "give or take": round(196 * sqrt(share * (1 - share) / size), 1),
    }


def main() -> int:
    """Runs the tests, prints the scores, and writes them to a file if requested; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=500, help="number of mutants (500)")
    parser.add_argument("--seed", type=int, default=17, help="seed of the sample (17)")
    parser.add_argument(
        "--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES), help="packages that are mutated"
    )
    parser.add_argument("--only", nargs="+", metavar="MUTANT", help="these mutants in place of a sample")
    parser.add_argument("--slowest", type=float, default=1.0, help="maximum seconds of a test (1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="number of parallel processes")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="where the tests are")
    parser.add_argument("--write", type=Path, help="a file for the result, as JSON")
    arguments = parser.parse_args()
    Importer.install(arguments.packages, arguments.only)
    set_mutant_under_test("stats")
    loop = Loop(arguments)
    options = ["--hypothesis-profile=mutants", "-p", "no:cacheprovider", "-q", "--rootdir", str(ROOT)]
    options += [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]  # this imports Hypothesis before pytest does
    options += [f"--ignore={path}" for path in LEFT_OUT]
    pytest.main([*options, *arguments.tests], plugins=[loop])
    if not loop.result:
        return 1
    result = loop.result
    for package, score in {**result["packages"], "all": result["score"]}.items():
        share = f"{score['noticed']} % (+-{score['give or take']})"
        sys.stdout.write(f"{package}: {share} of {score['mutants']} mutants noticed\n")
    if arguments.write:
        arguments.write.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if result["score"]["noticed"] >= MIN_NOTICED else 1


if __name__ == "__main__":
    sys.exit(main())
