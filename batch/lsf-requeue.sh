#!/bin/bash
# A run of any length, in as many jobs as it needs. Each job submits the next one.
# Submit: bsub <lsf-requeue.sh
#BSUB -J partita
#BSUB -nnodes 1
#BSUB -W 4:00
#BSUB -o partita-%J.out
set -euo pipefail

# Load the module of the program here, or use `spack load partita`, or name its folder:
export PATH=$HOME/partita/bin:$PATH

cd "$LS_SUBCWD"
job=$LS_SUBCWD/lsf-requeue.sh # this file; LSF runs a copy of it
# A copy of input-decks/emnist-relay-2.toml in which data/path names the folder of your data. A deck with N stages
# needs N ranks; a multiple of N makes replicas.
deck=$HOME/relay-2.toml
run=$LS_SUBCWD/relay-2

export OMP_NUM_THREADS=8 OMP_PROC_BIND=false
code=0
# bkill may begin with SIGINT, at which Partita ends with code 75; a job that was cancelled must not come back.
trap 'exit 130' INT
# -t makes Partita end early enough to write a checkpoint and to submit the next job. A resource set has one rank with
# eight cores; without --bind=rs, jsrun binds the rank to one core.
jsrun --nrs=2 --tasks_per_rs=1 --cpu_per_rs=8 --bind=rs --exit_on_error=0 \
  partita train "$deck" -d "$run" -r latest checkpoint/every=2000 -t 03:50:00 || code=$?

# If this node may not submit jobs, use: ssh "$LSB_SUB_HOST" "cd '$LS_SUBCWD' && bsub" <"$job"
if [ "$code" -eq 75 ]; then
  bsub <"$job"
  code=0
fi
exit "$code"
