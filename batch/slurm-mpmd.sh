#!/bin/bash
# Two builds in one run: rank 0 computes on the GPU, ranks 1 to 3 on cores of the same node.
# Not for strategy/kind = "hogbatch", whose rank 0 computes nothing: there the ranks of the GPU build come last.
# Submit: sbatch slurm-mpmd.sh
#SBATCH --job-name=partita-mpmd
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=8
#SBATCH --gpus=1
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=TERM@300
set -euo pipefail

# A copy of input-decks/emnist-relay-4.toml in which data/path names the folder of your data.
deck=$HOME/relay-4.toml
run=$SLURM_SUBMIT_DIR/relay-4
gpu_build=$HOME/partita-cuda/bin/partita
host_build=$HOME/partita-openmp/bin/partita

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=false
programs=$SLURM_SUBMIT_DIR/programs-$SLURM_JOB_ID.conf
cat >"$programs" <<TXT
0   $gpu_build train $deck -d $run -r latest checkpoint/every=2000
1-3 $host_build train $deck -d $run -r latest checkpoint/every=2000
TXT
code=0
srun --kill-on-bad-exit=0 --wait=8 --cpus-per-task="$SLURM_CPUS_PER_TASK" --gpu-bind=none \
  --multi-prog "$programs" || code=$?
rm -f "$programs"

if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  code=0
fi
exit "$code"
