# Fuzzing of the readers by libFuzzer: a build of its own, by clang; a Kokkos built by GCC serves it as well.

fuzz_targets=(deck idx libsvm checkpoint)
# What a reader may take for a file of a few KiB: MiB, and seconds until it counts as hanging. How long it may compute
# is in tests/fuzz/fuzz.hpp.
fuzz_limits=(-max_len=16384 -malloc_limit_mb=256 -rss_limit_mb=1024 -timeout=300 -report_slow_units=300)

buildFuzzers() {
  local compiler
  needPackages "${build_packages[@]}" "${fuzz_packages[@]}"
  compiler=$(command -v clang++-14 || command -v clang++) || fail "fuzzing needs clang++, which is not installed"
  needKokkos fuzz
  [ -e "$1/build.ninja" ] || preset=fuzz step "configuring (fuzz)" configure "-DCMAKE_CXX_COMPILER=$compiler"
  step "building the fuzz targets" cmake --build "$1" --target partita_fuzzers -- -j "$jobs"
}

# fuzzTarget FOLDER NAME SECONDS: what was found before in FOLDER/corpus is where the next run starts.
fuzzTarget() {
  local folder=$1 name=$2 dictionary=() more=() asan=
  [ ! -e "$folder/$name.dict" ] || dictionary=(-dict="$folder/$name.dict")
  if [ "$name" = checkpoint ]; then
    # The deck alone, which each has, is 5 KiB; and where HDF5 refuses a file, it forgets some memory and has asked for
    # some that no machine has.
    more=(-max_len=32768 -malloc_limit_mb=1000000)
    asan=detect_leaks=0:allocator_may_return_null=1
  fi
  mkdir -p "$folder/corpus/$name" "$folder/findings"
  ASAN_OPTIONS=$asan "$folder/bin/fuzz_$name" "${fuzz_limits[@]}" "${more[@]}" "${dictionary[@]}" \
    -max_total_time="$3" -print_final_stats=1 -artifact_prefix="$folder/findings/$name-" "$folder/corpus/$name" "$folder/seeds/$name"
}

# runFuzz [SECONDS]: each target for its share of the time.
runFuzz() {
  local folder=$PWD/build/fuzz seconds=${1:-60} name
  buildFuzzers "$folder"
  python3 tests/fuzz/seeds.py "$folder"
  for name in "${fuzz_targets[@]}"; do
    step "fuzzing $name (findings: build/fuzz/findings)" \
      fuzzTarget "$folder" "$name" $(((seconds + ${#fuzz_targets[@]} - 1) / ${#fuzz_targets[@]}))
  done
}
