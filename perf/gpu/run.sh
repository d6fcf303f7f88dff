#!/usr/bin/env bash
# Runs all parts of the kit on a GPU node, or those named: see run.py --help. Started again, it continues with the parts
# that have no result yet.
# Usage: ./run.sh [--minutes M] [--out FOLDER] [PART ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export PATH=$PWD/bin:$PATH
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPAL_PREFIX=$PWD OMPI_MCA_mca_base_component_path=$PWD/plugins
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_PROC_BIND=false OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec python3 run.py "$@"
