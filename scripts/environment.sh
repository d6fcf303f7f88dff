# What is right for a run on this machine; a user's own setting always wins.

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
  # OpenBLAS chooses kernels by a list of processors and may give AVX2 ones, half as fast, to one newer than its list.
  if hasFlags avx512f avx512dq avx512bw avx512vl; then
    export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SkylakeX}
  fi
  # Open MPI 4 and 5: more ranks than cores where asked for, none bound to one core, and as root in containers.
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# A setting of the user's stands, but not in silence.
noteSlowBlas() {
  hasFlags avx512f avx512dq avx512bw avx512vl || return 0
  case $OPENBLAS_CORETYPE in
    SkylakeX | Cooperlake | SapphireRapids) return ;;
  esac
  say "note: OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE keeps OpenBLAS from this processor's AVX-512;" \
    "unset it to run matrix products about twice as fast"
}

# onRanks N COMMAND...: ranks x threads is at most the number of cores.
onRanks() {
  local ranks=$1 threads=$((cores / $1))
  shift
  OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))} mpirun -n "$ranks" "$@"
}
