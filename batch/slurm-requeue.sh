#!/bin/bash
# A run of any length: the job requeues itself as often as needed.
# Submit: sbatch slurm-requeue.sh
#SBATCH --job-name=partita
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
# Five minutes before the end, the ranks get SIGTERM, write a checkpoint and end with code 75. With the prefix "B:",
# only this shell would get the signal.
#SBATCH --signal=TERM@300
set -euo pipefail

# Load the module of the program here, or use `spack load partita`, or name its folder:
export PATH=$HOME/partita/bin:$PATH

# A copy of input-decks/emnist-relay-2.toml in which data/path names the folder of your data. A deck with N stages
# needs N ranks; a multiple of N makes replicas.
deck=$HOME/relay-2.toml
run=$SLURM_SUBMIT_DIR/relay-2

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=false
code=0
# Ranks do not end at exactly the same time. These options keep Slurm from killing the others after the first code 75,
# whatever the site's default is.
srun --kill-on-bad-exit=0 --wait=8 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  partita train "$deck" -d "$run" -r latest checkpoint/every=2000 || code=$?

# scancel also ends this shell, so a cancelled job does not come back.
if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  code=0
fi
exit "$code"
