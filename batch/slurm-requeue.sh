#!/bin/bash
# A run of any length, in as many turns of one job as it needs: sbatch slurm-requeue.sh
#SBATCH --job-name=partita
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
# Five minutes before the end the ranks get SIGTERM, write a checkpoint and end with code 75. With "B:" in front only
# this shell would get it.
#SBATCH --signal=TERM@300
set -euo pipefail

deck=$HOME/relay-2.toml
run=$SLURM_SUBMIT_DIR/relay-2

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=false
code=0
# Ranks end a moment after one another: the first code 75 must not make Slurm kill the others, whatever its default.
srun --kill-on-bad-exit=0 --wait=8 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  partita train "$deck" -d "$run" -r latest || code=$?

# scancel ends this shell as well, so that a cancelled job does not come back.
if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  code=0
fi
exit "$code"
