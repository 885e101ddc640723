"""Runs one rank of the job: computes a sum over all ranks with MPI, and prints the NEURON_ variables.

It calls the C library of the MPI that started it, so the image needs no compiler.
"""

import ctypes
import os
import socket
import sys
from ctypes import byref, c_int

if "OMPI_COMM_WORLD_RANK" in os.environ:
    # In Open MPI's mpi.h, the handles are addresses of these variables.
    mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
    names = ("ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum")
    world, number, add = (byref(ctypes.c_char.in_dll(mpi, name)) for name in names)
else:
    # In MPICH's mpi.h, the handles are numbers.
    mpi = ctypes.CDLL("libmpich.so.12", ctypes.RTLD_GLOBAL)
    world, number, add = 0x44000000, 0x4C000405, 0x58000003

mpi.MPI_Init(None, None)
rank, sum_of_all = c_int(), c_int()
mpi.MPI_Comm_rank(world, byref(rank))
mpi.MPI_Allreduce(byref(c_int(rank.value + 1)), byref(sum_of_all), 1, number, add, world)
variables = (f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NEURON_"))
line = f"rank={rank.value} host={socket.gethostname()} sum={sum_of_all.value} {' '.join(variables)}\n"
sys.stdout.write(line)
sys.stdout.flush()
mpi.MPI_Finalize()
