#!/bin/bash
# One rank per GPU, four GPUs per node. The job requeues itself as often as needed.
# Submit: sbatch slurm-gpu.sh
#SBATCH --job-name=partita-gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=TERM@300
set -euo pipefail

# Load the module of the program here, or use `spack load partita`, or name its folder:
export PATH=$HOME/partita/bin:$PATH

# A copy of input-decks/emnist-relay-4.toml in which data/path names the folder of your data. The 8 ranks are two
# replicas of its four stages.
deck=$HOME/relay-8.toml
run=$SLURM_SUBMIT_DIR/relay-8

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=false
export MPICH_GPU_SUPPORT_ENABLED=1 # for Cray MPICH; other MPI libraries ignore it
code=0
# With --gpus-per-task alone, each rank would see only one GPU, and the ranks of a node could not copy from GPU to GPU.
# With --gpu-bind=none, each rank sees all GPUs and selects the one with its number within the node.
srun --kill-on-bad-exit=0 --wait=8 --cpus-per-task="$SLURM_CPUS_PER_TASK" --gpus-per-task=1 --gpu-bind=none \
  partita train "$deck" -d "$run" -r latest checkpoint/every=2000 || code=$?

if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  code=0
fi
exit "$code"
