# Environment variables for runs on this machine.

# If OMP_NUM_THREADS or OMP_THREAD_LIMIT is set, nproc would print that value.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)

# hasFlags FLAG...: does this processor have all of these flags?
hasFlags() {
  local flag flags
  flags=" $(sed -n 's/^flags.*: //p;T;q' /proc/cpuinfo) "
  for flag in "$@"; do
    [[ $flags == *" $flag "* ]] || return 1
  done
}

setEnvironment() {
  export CXX=${CXX:-g++}
  export OMP_PROC_BIND=${OMP_PROC_BIND:-false} # ranks share cores, and each has one more thread for the data
  chooseBlasKernels
  # For Open MPI 4 and 5: allow more ranks than cores, bind no rank to a core, and allow root, as in containers.
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# On a processor newer than those it knows, OpenBLAS uses AVX2 kernels, which are half as fast. The environment may also
# request them.
chooseBlasKernels() {
  hasFlags avx512f avx512dq avx512bw avx512vl || return 0
  case ${OPENBLAS_CORETYPE:-} in
    SkylakeX | Cooperlake | SapphireRapids) return 0 ;;
    ?*) blas_note="note: OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE would leave AVX-512 unused; using SkylakeX instead" ;;
  esac
  export OPENBLAS_CORETYPE=SkylakeX
}

# Reports a choice that overrides the environment.
noteBlasKernels() {
  [ -z "${blas_note:-}" ] || say "$blas_note"
}

# launcher: what starts ranks with the MPI library of the build, which need not be that of mpirun.
launcher() {
  sed -n 's/^MPIEXEC_EXECUTABLE:[^=]*=//p' "$build/CMakeCache.txt"
}

# onRanks N COMMAND...
onRanks() {
  local ranks=$1
  shift
  "$(launcher)" -n "$ranks" "$@"
}
