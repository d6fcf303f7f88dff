# The commands of bootstrap. They use packages.sh, kokkos.sh and environment.sh.

# configure ARGUMENT...: CI builds once and from scratch, so it compiles several sources together. Developers do not:
# a change to one of these sources would recompile all of them.
configure() {
  local precompile=ON together=OFF
  [ "$preset" != cuda ] || precompile=OFF # nvcc_wrapper does not support them
  [ -z "${CI:-}" ] || together=ON
  cmake --preset "$preset" ${kokkos:+"-DCMAKE_PREFIX_PATH=$kokkos"} -DPARTITA_PRECOMPILE_HEADERS=$precompile \
    -DCMAKE_UNITY_BUILD=$together -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DPARTITA_ENABLE_BENCHMARKS=ON "$@"
}

# chosen: what CMake remembers from the first time on, so that a build for something else starts from scratch.
chosen() {
  printf '%s\n' "CXX=${CXX:-}" "Kokkos=$kokkos" "KokkosKernels_ROOT=${KokkosKernels_ROOT:-}"
}

# Was the build folder configured for this, and not by hand for something else?
isAsChosen() {
  [ -e "$build/chosen" ] && [ "$(chosen)" = "$(<"$build/chosen")" ] &&
    ! grep -qs '^BUILD_TESTING:BOOL=OFF' "$build/CMakeCache.txt"
}

# buildTarget TARGET...: configures if needed, then builds. Ninja does nothing if nothing has changed.
buildTarget() {
  needBuildPackages "${test_packages[@]}"
  needKokkos "$preset"
  if [ -e "$build/build.ninja" ] && ! isAsChosen; then
    say "$build has another compiler or Kokkos, or no tests: it is configured again"
    rm -f "$build/build.ninja"
  fi
  if [ ! -e "$build/build.ninja" ]; then
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles" # also those of a configuration that failed
    step "configuring ($preset)" configure
    chosen >"$build/chosen"
  fi
  step "building $* ($preset)" cmake --build "$build" --target "$@" -- -j "$jobs"
}

# trainDemo NAME RANKS OVERRIDE...
trainDemo() {
  local run=$build/demo/$1 ranks=$2
  shift 2
  rm -rf "$run"
  # One thread per rank in both runs: such a small network gains little from a second thread.
  OMP_NUM_THREADS=1 onRanks "$ranks" "$build/bin/partita" train input-decks/demo.toml "$@" -d "$run"
}

runDemo() {
  buildTarget partita_app
  noteBlasKernels
  step "training the whole network on one rank" trainDemo joint 1 strategy/kind=joint
  step "training two halves on two ranks with synthetic labels" trainDemo sil 2 strategy/kind=sil
  say
  python3 scripts/demo_table.py "$build/demo/joint" "$build/demo/sil"
}

# Some tests compare results with other programs, and are skipped without them.
needTestPython() {
  [ -z "${PARTITA_EXPORT_PYTHON:-}" ] || return 0
  local requirements=tests/regression/requirements.txt folder
  folder=$cache/test-python-$(cksum <$requirements | cut -d ' ' -f 1)
  if [ ! -e "$folder/complete" ]; then
    if ! (needPackages "${venv_packages[@]}") ||
      ! (python3 -m venv --clear "$folder" && "$folder/bin/pip" install --retries 1 -r $requirements &&
      touch "$folder/complete") >>"$log" 2>&1; then
      say "tests of exported networks will be skipped: $requirements could not be installed into $folder (see $log)"
      return 0
    fi
  fi
  export PARTITA_EXPORT_PYTHON=$folder/bin/python
}

runTests() {
  buildTarget all
  needTestPython
  ctest --test-dir "$build" --no-tests=error --output-on-failure -j "$cores" "$@"
}

# The sanitizers find memory errors of the library. Leaks are Open MPI's own, so they are not reported
# (tests/CMakeLists.txt).
runSanitized() {
  buildTarget all partita_sanitized_tests
  needTestPython
  ctest --test-dir "$build" -C sanitized -L sanitized --no-tests=error --output-on-failure -j "$cores" "$@"
}

# PyTorch is optional: a machine without network access or a suitable Python still measures Partita.
needPeer() {
  [ ! -e "$peer/complete" ] || return 0
  (needPackages "${venv_packages[@]}") || return 1 # in a shell of its own, which it ends if it fails
  if ! (python3 -m venv --clear "$peer" && "$peer/bin/pip" install -r perf/peers/requirements.txt &&
    touch "$peer/complete") >>"$log" 2>&1; then
    rm -rf "$peer"
    return 1
  fi
}

# readBenchArguments ARGUMENT...: sets json and only to the values of these options, and arguments to the others.
readBenchArguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --json | --only)
        [ $# -gt 1 ] || fail "$1 needs a value"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
      --json=*) json=${1#--json=} ;;
      --only=*) only=${1#--only=} ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
}

# peerOf NAME: the script that measures the models whose names begin so.
peerOf() {
  case $1 in
    mlp*) printf %s train_mlp.py ;;
    gpt* | attention*) printf %s train_gpt.py ;;
    *) printf %s train_conv.py ;;
  esac
}

# measureTurn FOLDER TURN NAME THREADS ARGUMENT...: times models in Partita, and right after that in PyTorch.
measureTurn() {
  local end="$3_$4_$2" folder=$1 name=$3 threads=$4
  shift 4
  OMP_NUM_THREADS=$threads onRanks 1 "$build/bin/partita" bench --only "$name" --json "$folder/partita_$end.json" "$@"
  [ -z "$peer" ] || "$peer/bin/python" "perf/peers/$(peerOf "$name")" --only "$name" --threads "$threads" --seconds 1 \
    --json "$folder/pytorch_$end.json"
}

# Programs that are compared take turns, because the speed of a shared machine changes within minutes.
runBench() {
  local peer=perf/peers/.venv results=$build/bench json='' only='' arguments=() names name turns=5 turn threads
  readBenchArguments "$@"
  names=(mlp lenet resnet conv gpt attention)
  [ -z "$only" ] || names=("$only")
  [[ " ${arguments[*]} " != *" --quick "* ]] || turns=1
  [ -z "$json" ] || : >>"$json" # first, so that a bad path is reported before minutes of measuring
  buildTarget partita_app
  noteBlasKernels
  if [[ " ${arguments[*]}" == *" optimiser/"* ]]; then
    say "PyTorch skipped: it would train with another optimiser"
    peer=
  elif ! needPeer; then
    say "PyTorch skipped: it could not be installed into $peer (see $log)"
    peer=
  fi
  rm -rf "$results"
  mkdir -p "$results"
  OMP_NUM_THREADS=1 onRanks 1 "$build/bin/partita" info | sed '/^Kokkos Version/,$d'
  for turn in $(seq $turns); do
    for name in "${names[@]}"; do
      step "turn $turn of $turns: $name" measureTurn "$results" $turn "$name" 1 "${arguments[@]}"
    done
  done
  python3 scripts/bench_table.py "$results" --json "${json:-$results/medians.json}"
  say "($log has the phases of each step)"
  if [ "$cores" -gt 1 ]; then
    name=mlp256_b1024
    for turn in $(seq $turns); do
      for threads in 1 2; do
        step "turn $turn of $turns: $name, threads: $threads" \
          measureTurn "$results" $turn $name $threads "${arguments[@]}"
      done
    done
    python3 scripts/bench_table.py "$results" --threads $name
  fi
  say
  say "two stages on two ranks compared with the whole network on one, with one thread per rank (perf/README.md):"
  PARTITA_MPIEXEC=$(launcher) \
    python3 perf/sil/speedup.py "$build/bin/partita" input-decks/demo.toml --json "$results/speedup.json"
}
