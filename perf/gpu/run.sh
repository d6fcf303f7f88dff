#!/usr/bin/env bash
# Runs all parts of the kit on a GPU node, or those named: see run.py --help. Started again, it continues with the parts
# that have no result yet.
# Usage: ./run.sh [--minutes M] [--out FOLDER] [PART ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export PARTITA_NODE_LIBRARIES=${LD_LIBRARY_PATH:-} # for Python, which has libraries of its own
# CUDA's libraries may be those of the system, or wheels beside PyTorch.
wheels=$(python3 -c 'import glob, sys; print(*sum((glob.glob(p + "/nvidia/*/lib") for p in sys.path if p), []), sep=":")')
for folder in "$PWD/lib" /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 "$wheels" "${LD_LIBRARY_PATH:-}"; do
  [ -z "$folder" ] || libraries=${libraries:+$libraries:}$folder
done
export PATH=$PWD/bin:$PATH LD_LIBRARY_PATH=$libraries PARTITA_SOURCE_DIR=$PWD/source
missing=$(ldd bin/partita | awk '/not found/ {print $1}' | sort -u | tr '\n' ' ')
[ -z "$missing" ] || { echo "run.sh: this node lacks $missing(add their folder to LD_LIBRARY_PATH)" >&2; exit 2; }
export OPAL_PREFIX=$PWD OMPI_MCA_mca_base_component_path=$PWD/plugins OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
export OMPI_MCA_btl_vader_single_copy_mechanism=none # which virtual machines may refuse
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PMIX_MCA_pcompress_base_silence_warning=1 # where the plugins of another PMIx are found first
export ASAN_OPTIONS=detect_leaks=0 # of a build for hosts, whose gradient tests have sanitizers
export OMPI_MCA_hwloc_base_binding_policy=none OMP_PROC_BIND=false OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec python3 run.py "$@"
