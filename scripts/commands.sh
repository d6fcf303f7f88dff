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

# buildTarget TARGET...: configures if needed, then builds. Ninja does nothing if nothing has changed.
buildTarget() {
  needBuildPackages "${test_packages[@]}"
  needKokkos "$preset"
  [ -e "$build/build.ninja" ] || step "configuring ($preset)" configure
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
  local requirements=tests/regression/requirements.txt folder
  folder=$cache/test-python-$(cksum <$requirements | cut -d ' ' -f 1)
  if [ ! -e "$folder/complete" ]; then
    needPackages "${venv_packages[@]}"
    if ! (python3 -m venv --clear "$folder" && "$folder/bin/pip" install --retries 1 -r $requirements &&
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
  ctest --test-dir "$build" --output-on-failure -j "$cores" "$@"
}

# The sanitizers find memory errors of the library. Leaks are Open MPI's own, so they are not reported
# (tests/CMakeLists.txt).
runSanitized() {
  buildTarget all partita_sanitized_tests
  needTestPython
  ctest --test-dir "$build" -C sanitized -L sanitized --output-on-failure -j "$cores" "$@"
}

# PyTorch is optional: a machine without network access or a suitable Python still measures Partita.
needPeer() {
  [ ! -x "$peer/bin/python" ] || return 0
  needPackages "${venv_packages[@]}"
  if ! (python3 -m venv "$peer" && "$peer/bin/pip" install -r perf/peers/requirements.txt) >>"$log" 2>&1; then
    rm -rf "$peer"
    return 1
  fi
}

# resultFile ARGUMENT...: the file that --json names, or nothing.
resultFile() {
  while [ $# -gt 0 ]; do
    case $1 in
      --json) printf '%s\n' "${2:-}" ;;
      --json=*) printf '%s\n' "${1#--json=}" ;;
    esac
    shift
  done
}

# measureThreads FOLDER ARGUMENT...: times a perceptron with one and two threads, in float and bf16, in Partita and
# PyTorch, alternating.
measureThreads() {
  local folder=$1 name=mlp256_b1024 turn threads arguments=()
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --json | --only) shift ;;
      --json=* | --only=*) ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  rm -rf "$folder"
  mkdir -p "$folder"
  for turn in 1 2 3; do
    for threads in 1 2; do
      OMP_NUM_THREADS=$threads onRanks 1 "$build/bin/partita" bench --only $name \
        --json "$folder/partita_${threads}_$turn.json" "${arguments[@]}"
      [ -z "$peer" ] || "$peer/bin/python" perf/peers/train_mlp.py --only $name --threads "$threads" \
        --json "$folder/pytorch_${threads}_$turn.json"
    done
  done
}

runBench() {
  local peer=perf/peers/.venv results=$build/bench script json
  buildTarget partita_app
  noteBlasKernels
  mkdir -p "$results"
  json=$(resultFile "$@")
  if [ -z "$json" ]; then
    json=$results/partita.json
    set -- --json "$json" "$@"
  fi
  OMP_NUM_THREADS=1 onRanks 1 "$build/bin/partita" bench "$@"
  rm -f "$results"/train_*.json
  if needPeer; then
    for script in perf/peers/train_*.py; do
      step "measuring PyTorch" "$peer/bin/python" "$script" --json "$results/$(basename "$script" .py).json"
    done
  else
    say "PyTorch skipped: it could not be installed into $peer (see $log)"
    peer=
  fi
  python3 scripts/bench_table.py "$json" "$results"/train_*.json
  if [ "$cores" -gt 1 ]; then
    step "comparing one and two threads" measureThreads "$results/threads" "$@"
    python3 scripts/bench_table.py --threads "$results/threads"
  fi
  say
  say "two stages on two ranks compared with the whole network on one, with one thread per rank (perf/README.md):"
  PARTITA_MPIEXEC=$(launcher) \
    python3 perf/sil/speedup.py "$build/bin/partita" input-decks/demo.toml --json "$results/speedup.json"
}
