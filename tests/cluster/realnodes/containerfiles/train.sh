#!/bin/sh
# One rank of the job: says which it is, where it runs, and what it was told about the UltraServer.
echo "rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK} host=$(hostname) $(env | grep '^NEURON_' | sort | tr '\n' ' ')"
