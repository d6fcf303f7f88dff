#!/bin/bash
# One run in one job. For a run that may exceed the time limit, use slurm-requeue.sh.
# Submit: sbatch slurm-plain.sh
#SBATCH --job-name=partita
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#SBATCH --output=%x-%j.out
set -euo pipefail

# Load the module of the program here, or use `spack load partita`, or name its folder:
export PATH=$HOME/partita/bin:$PATH

# A copy of input-decks/emnist-relay-2.toml in which data/path names the folder of your data. A deck with N stages
# needs N ranks; a multiple of N makes replicas.
deck=$HOME/relay-2.toml
run=$SLURM_SUBMIT_DIR/relay-2

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=false
exec srun --cpus-per-task="$SLURM_CPUS_PER_TASK" partita train "$deck" -d "$run"
