"""Each MPI reads its own host file variable and ignores the others', so one row can set them all."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from webhook.rules.load import load_default

pytestmark = pytest.mark.fleet

OWN = {"mpirun.openmpi": "OMPI_MCA_orte_default_hostfile", "mpiexec.hydra": "HYDRA_HOST_FILE"}
"""The launcher of each MPI that can be installed here, and the variable that it reads."""

TRIES = 5
"""MPICH's launcher is ended by SIGPIPE from time to time, where its program ends at once."""

VARIABLES = {
    item["name"]
    for rule in load_default().rules
    if rule.name in {"hostfile", "hostfile-open-mpi-5"}
    for container in rule.add["spec"]["containers"]
    for item in container["env"]
}


def launched(program: str, variables: set[str], missing: Path) -> int:
    """Returns the exit status of a launcher that finds variables pointing to a file that is not there."""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **as_root, **dict.fromkeys(variables, str(missing))}
    for _ in range(TRIES):
        done = subprocess.run(
            [program, "-np", "1", "true"], env=environment, capture_output=True, check=False
        )
        if done.returncode != -signal.SIGPIPE:
            return done.returncode
    return -signal.SIGPIPE


def test_the_packaged_rows_set_a_variable_for_every_mpi() -> None:
    assert set(OWN.values()) < VARIABLES


@pytest.mark.parametrize("program", OWN)
def test_an_mpi_ignores_the_variables_of_the_others(program: str, tmp_path: Path) -> None:
    assert launched(program, VARIABLES - {OWN[program]}, tmp_path / "missing") == 0


@pytest.mark.parametrize("program", OWN)
def test_an_mpi_reads_its_own_variable(program: str, tmp_path: Path) -> None:
    assert launched(program, {OWN[program]}, tmp_path / "missing") != 0
