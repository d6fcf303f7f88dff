#!/bin/bash
#PBS -N scaling-@RANKS@
#PBS -l select=@RANKS@:ncpus=1:mpiprocs=1:ompthreads=1
#PBS -l walltime=01:00:00
#PBS -j oe
set -euo pipefail
cd "$PBS_O_WORKDIR"
export OMP_NUM_THREADS=1 OMP_PROC_BIND=false
mpiexec -n @RANKS@ @TRAIN@
