#!/bin/bash
# flux: --job-name=partita-scaling-@RANKS@
# flux: --nslots=@RANKS@
# flux: --cores-per-slot=1
# flux: --time-limit=1h
set -euo pipefail
export OMP_NUM_THREADS=1 OMP_PROC_BIND=false
flux run --ntasks=@RANKS@ --cores-per-task=1 -o cpu-affinity=per-task @TRAIN@
