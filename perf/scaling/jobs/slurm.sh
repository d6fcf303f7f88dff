#!/bin/bash
#SBATCH --job-name=partita-scaling-@RANKS@
#SBATCH --ntasks=@RANKS@
#SBATCH --cpus-per-task=1
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=false
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores @TRAIN@
