#!/bin/bash
# Two builds in one run: rank 0 computes on the GPU, ranks 1 to 3 on cores of the same node.
# Not for strategy/kind = "hogbatch", whose rank 0 computes nothing: there the ranks of the GPU build come last.
# Submit: qsub pbs-mpmd.sh
#PBS -N partita-mpmd
#PBS -l select=1:ncpus=32:mpiprocs=4:ompthreads=8:ngpus=1
#PBS -l walltime=04:00:00
#PBS -j oe
set -euo pipefail

cd "$PBS_O_WORKDIR"
job=$PBS_O_WORKDIR/pbs-mpmd.sh # this file; PBS runs a copy of it
# A copy of input-decks/emnist-relay-4.toml in which data/path names the folder of your data.
deck=$HOME/relay-4.toml
run=$PBS_O_WORKDIR/relay-4
gpu_build=$HOME/partita-cuda/bin/partita
host_build=$HOME/partita-openmp/bin/partita

export OMP_NUM_THREADS=8 OMP_PROC_BIND=false
code=0
train=(train "$deck" -d "$run" -r latest checkpoint/every=2000 -t 03:50:00)
mpiexec --bind-to none -n 1 "$gpu_build" "${train[@]}" : -n 3 "$host_build" "${train[@]}" || code=$?

if [ "$code" -eq 75 ]; then
  qsub "$job"
  code=0
fi
exit "$code"
