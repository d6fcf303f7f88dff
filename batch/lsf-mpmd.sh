#!/bin/bash
# Two builds in one run: rank 0 computes on the GPU, ranks 1 to 3 on cores of the same node.
# Not for strategy/kind = "hogbatch", whose rank 0 computes nothing: there the ranks of the GPU build come last.
# Submit: bsub <lsf-mpmd.sh
#BSUB -J partita-mpmd
#BSUB -nnodes 1
#BSUB -W 4:00
#BSUB -o partita-mpmd-%J.out
set -euo pipefail

cd "$LS_SUBCWD"
job=$LS_SUBCWD/lsf-mpmd.sh # this file; LSF runs a copy of it
# A copy of input-decks/emnist-relay-4.toml in which data/path names the folder of your data.
deck=$HOME/relay-4.toml
run=$LS_SUBCWD/relay-4
export gpu_build=$HOME/partita-cuda/bin/partita
export host_build=$HOME/partita-openmp/bin/partita

export OMP_NUM_THREADS=8 OMP_PROC_BIND=false
code=0
# bkill begins with SIGINT, which makes Partita end with code 75; a job that was cancelled must not come back.
trap 'exit 130' INT
# jsrun starts the same command for all ranks, so each rank selects its build.
# shellcheck disable=SC2016
jsrun --nrs=1 --tasks_per_rs=4 --cpu_per_rs=32 --gpu_per_rs=1 --bind=packed:8 --exit_on_error=0 \
  bash -c 'if [ "$OMPI_COMM_WORLD_RANK" -eq 0 ]; then exec "$gpu_build" "$@"; fi; exec "$host_build" "$@"' partita \
  train "$deck" -d "$run" -r latest checkpoint/every=2000 -t 03:50:00 || code=$?

if [ "$code" -eq 75 ]; then
  bsub <"$job"
  code=0
fi
exit "$code"
