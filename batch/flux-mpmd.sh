#!/bin/bash
# Two builds in one run: rank 0 computes on the GPU, ranks 1 to 3 on cores of the same node.
# Not for strategy/kind = "hogbatch", whose rank 0 computes nothing: there the ranks of the GPU build come last.
# Submit: flux batch flux-mpmd.sh
# flux: --job-name=partita-mpmd
# flux: --nodes=1
# flux: --exclusive
# flux: --nslots=4
# flux: --cores-per-slot=8
# flux: --time-limit=4h
# flux: --output=partita-mpmd-{{id}}.out
set -euo pipefail

job=$HOME/flux-mpmd.sh # this file
# A copy of input-decks/emnist-relay-4.toml in which data/path names the folder of your data.
deck=$HOME/relay-4.toml
run=/scratch/$USER/relay-4 # on the parallel file system
export gpu_build=$HOME/partita-cuda/bin/partita
export host_build=$HOME/partita-openmp/bin/partita

export OMP_NUM_THREADS=8 OMP_PROC_BIND=false
code=0
# flux run starts the same command for all tasks, so each task selects its build.
# shellcheck disable=SC2016
flux run --ntasks=4 --cores-per-task=8 -o cpu-affinity=per-task -o gpu-affinity=off \
  bash -c 'if [ "$FLUX_TASK_RANK" -eq 0 ]; then exec "$gpu_build" "$@"; fi; exec "$host_build" "$@"' partita \
  train "$deck" -d "$run" -r latest checkpoint/every=2000 -t 03:50:00 || code=$?

if [ "$code" -eq 75 ]; then
  flux --parent batch "$job"
  code=0
fi
exit "$code"
