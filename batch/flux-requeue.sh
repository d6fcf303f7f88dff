#!/bin/bash
# A run of any length, in as many jobs as it needs. Each job submits the next one.
# Submit: flux batch flux-requeue.sh
# flux: --job-name=partita
# flux: --nslots=2
# flux: --cores-per-slot=8
# flux: --time-limit=4h
# flux: --output=partita-{{id}}.out
set -euo pipefail

# Load the module of the program here, or use `spack load partita`, or name its folder:
export PATH=$HOME/partita/bin:$PATH

job=$HOME/flux-requeue.sh # this file
# A copy of input-decks/emnist-relay-2.toml in which data/path names the folder of your data. A deck with N stages
# needs N ranks; a multiple of N makes replicas.
deck=$HOME/relay-2.toml
run=/scratch/$USER/relay-2 # on the parallel file system

export OMP_NUM_THREADS=8 OMP_PROC_BIND=false
code=0
# -t makes Partita end early enough to write a checkpoint and to submit the next job. For GPUs, add --gpus-per-slot=1
# above, and here --gpus-per-task=1 -o gpu-affinity=off: each rank then sees all GPUs of its node and selects its own.
flux run --ntasks=2 --cores-per-task=8 -o cpu-affinity=per-task \
  partita train "$deck" -d "$run" -r latest checkpoint/every=2000 -t 03:50:00 || code=$?

# A job is a Flux instance of its own. The next job goes to the parent instance, not into this one.
if [ "$code" -eq 75 ]; then
  flux --parent batch "$job"
  code=0
fi
exit "$code"
