"""How tests run the two containers and the job in a fleet."""

from subprocess import CompletedProcess

from tests.initscript.stages import VARIABLE, Stage, command
from tests.plane.initscript.harness import Fleet
from webhook.initscript import text

OUT = "/root/ultraserver_init"
OVER = "/root/over"
# Sourced by the container's bash: its own clock says that the time is over as soon as the file is there.
CLOCK = f'sleep() {{ [[ ! -e {OVER} ]] || SECONDS=$limit; command sleep "$@"; }}'
# One write a rank, so that lines of several ranks cannot mix.
VALUES = '$(env | grep -E "^NEURON_(GLOBAL|RT)_")'
SHOW = f'echo "$(printf "%s|" RANK=${{OMPI_COMM_WORLD_RANK-$PMI_RANK}} HOST=$(hostname) {VALUES})"'


def settings(fleet: Fleet, **more: str) -> dict[str, str]:
    """Returns the environment that the webhook gives the init containers."""
    return {
        "NEURON_ULTRASERVER_NODE_CONFIG": "4",
        "ULTRASERVER_WORKERS": str(len(fleet.workers)),
        "ULTRASERVER_WAIT_SECONDS": "90",
        VARIABLE: text(),
        **more,
    }


def container(fleet: Fleet, stage: Stage, **more: str) -> CompletedProcess[str]:
    """Runs an init container in the launcher."""
    return fleet.run(command(stage), settings(fleet, **more))


def errors_of(printed: str) -> list[str]:
    """Returns the lines from the first error on."""
    return printed[printed.index("ERROR: ") :].splitlines()


def given_up(fleet: Fleet, after: str, **more: str) -> tuple[list[str], list[str]]:
    """Runs the container that waits, and lets its time be over once it has said something.

    So what it has to have seen by then does not depend on how fast the machine is.

    Args:
        fleet: Where.
        after: What a line of its output has to contain.
        more: More variables of its environment.

    Returns:
        The lines that it printed, and those from the first error on.
    """
    fleet.write(fleet.launcher, "/root/clock", CLOCK)
    run = fleet.spawn(command("wait"), settings(fleet, BASH_ENV="/root/clock", **more))
    assert run.stdout is not None
    lines = []
    while after not in (line := run.stdout.readline()):
        assert line, lines
        lines.append(line.rstrip())
    fleet.write(fleet.launcher, OVER, "")
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 1, printed
    lines += [line.rstrip(), *printed.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("ERROR: "))
    return lines[:first], lines[first:]


def mpirun(fleet: Fleet, env: dict[str, str] | None = None, *arguments: str) -> list[dict[str, str]]:
    """Runs a program that shows its host and variables.

    Args:
        fleet: Where.
        env: More of the main container's environment, after the operator's own.
        arguments: Arguments of mpirun.

    Returns:
        What each rank showed, by rank.
    """
    operator = {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    return show(fleet, ["mpirun", *arguments], {**operator, **(env or {})})


def hydra(fleet: Fleet, ranks: int, hostfile: str) -> list[dict[str, str]]:
    """Returns the same with MPICH's launcher, which Intel MPI shares.

    Args:
        fleet: Where.
        ranks: How many.
        hostfile: What HYDRA_HOST_FILE is.

    Returns:
        What each rank showed, by rank.
    """
    return show(fleet, ["mpiexec.hydra", "-n", str(ranks)], {"HYDRA_HOST_FILE": hostfile})


def show(fleet: Fleet, launcher: list[str], env: dict[str, str]) -> list[dict[str, str]]:
    """Runs the program that shows its host and variables, and takes apart what it says."""
    done = fleet.run([*launcher, "sh", "-c", SHOW], env)
    assert not done.returncode, done.stderr
    shown = [line.strip("|").split("|") for line in done.stdout.splitlines() if line.startswith("RANK=")]
    ranks = [dict(pair.split("=", 1) for pair in pairs) for pairs in shown]
    return sorted(ranks, key=lambda rank: int(rank.pop("RANK")))
