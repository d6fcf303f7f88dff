# What is right for a run on this machine.

# nproc would answer with OMP_NUM_THREADS where that is set.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)

# hasFlags FLAG...: whether this processor has all of them.
hasFlags() {
  local flag flags
  flags=" $(sed -n 's/^flags.*: //p;T;q' /proc/cpuinfo) "
  for flag in "$@"; do
    [[ $flags == *" $flag "* ]] || return 1
  done
}

setEnvironment() {
  export CXX=${CXX:-g++}
  export OMP_PROC_BIND=${OMP_PROC_BIND:-false} # ranks share cores and have a thread for the data besides
  chooseBlasKernels
  # Open MPI 4 and 5: more ranks than cores where asked for, none bound to one core, and as root in containers.
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# OpenBLAS gives AVX2 kernels, half as fast, to a processor newer than its list, or where the environment asks for them.
chooseBlasKernels() {
  hasFlags avx512f avx512dq avx512bw avx512vl || return 0
  case ${OPENBLAS_CORETYPE:-} in
    SkylakeX | Cooperlake | SapphireRapids) return 0 ;;
    ?*) blas_note="note: OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE would leave AVX-512 unused; taking SkylakeX instead" ;;
  esac
  export OPENBLAS_CORETYPE=SkylakeX
}

# What was chosen against the environment is said.
noteBlasKernels() {
  [ -z "${blas_note:-}" ] || say "$blas_note"
}

# onRanks N COMMAND...: ranks x threads is at most the number of cores.
onRanks() {
  local ranks=$1 threads=$((cores / $1))
  shift
  OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))} mpirun -n "$ranks" "$@"
}
