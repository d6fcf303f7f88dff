#!/bin/bash
# A run of any length, in as many jobs as it needs. Each job submits the next one.
# Submit: qsub pbs-requeue.sh
#PBS -N partita
#PBS -l select=2:ncpus=8:mpiprocs=1:ompthreads=8
#PBS -l walltime=04:00:00
#PBS -j oe
set -euo pipefail

# Load the module of the program here, or use `spack load partita`, or name its folder:
export PATH=$HOME/partita/bin:$PATH

cd "$PBS_O_WORKDIR"
job=$PBS_O_WORKDIR/pbs-requeue.sh # this file; PBS runs a copy of it
# A copy of input-decks/emnist-relay-2.toml in which data/path names the folder of your data. A deck with N stages
# needs N ranks; a multiple of N makes replicas.
deck=$HOME/relay-2.toml
run=$PBS_O_WORKDIR/relay-2

export OMP_NUM_THREADS=8 OMP_PROC_BIND=false
code=0
# PBS gives no reliable warning, so -t makes Partita end early enough to write a checkpoint and to submit the next job.
# --bind-to is an option of Open MPI, which otherwise binds each rank to one core.
mpiexec -n 2 --bind-to none partita train "$deck" -d "$run" -r latest checkpoint/every=2000 -t 03:50:00 || code=$?

# If compute nodes may not submit jobs, use: ssh "$PBS_O_HOST" "cd '$PBS_O_WORKDIR' && qsub '$job'"
if [ "$code" -eq 75 ]; then
  qsub "$job"
  code=0
fi
exit "$code"
