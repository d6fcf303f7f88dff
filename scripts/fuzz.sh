# Fuzzes the readers with libFuzzer, in a separate build with clang, which can use a Kokkos that GCC built.

fuzz_targets=(deck idx libsvm placement search checkpoint)
# Limits of a reader for a file of a few KiB: memory in MiB, and seconds until it counts as hanging. The limit on its
# computing time is in tests/fuzz/fuzz.hpp.
fuzz_limits=(-max_len=16384 -malloc_limit_mb=256 -rss_limit_mb=1024 -timeout=300 -report_slow_units=300)

buildFuzzers() {
  local compiler
  needBuildPackages "${fuzz_packages[@]}"
  compiler=$(command -v clang++-14 || command -v clang++) || fail "fuzzing needs clang++, which is not installed"
  needKokkos fuzz
  [ -e "$1/build.ninja" ] || preset=fuzz step "configuring (fuzz)" configure "-DCMAKE_CXX_COMPILER=$compiler"
  step "building the fuzz targets" cmake --build "$1" --target partita_fuzzers -- -j "$jobs"
}

# fuzzTarget FOLDER NAME SECONDS: starts from FOLDER/corpus, which earlier runs have filled.
fuzzTarget() {
  local folder=$1 name=$2 dictionary=() more=() asan=
  [ ! -e "$folder/$name.dict" ] || dictionary=(-dict="$folder/$name.dict")
  if [ "$name" = checkpoint ]; then
    # Every checkpoint includes a deck, which alone takes 5 KiB. When HDF5 refuses a file, it leaks some memory, and may
    # have requested more memory than any machine has.
    more=(-max_len=32768 -malloc_limit_mb=1000000)
    asan=detect_leaks=0:allocator_may_return_null=1
  fi
  mkdir -p "$folder/corpus/$name" "$folder/findings"
  ASAN_OPTIONS=$asan "$folder/bin/fuzz_$name" "${fuzz_limits[@]}" "${more[@]}" "${dictionary[@]}" \
    -max_total_time="$3" -print_final_stats=1 -artifact_prefix="$folder/findings/$name-" "$folder/corpus/$name" "$folder/seeds/$name"
}

# runFuzz [SECONDS]: runs each target for an equal share of the time.
runFuzz() {
  local folder=$PWD/build/fuzz seconds=${1:-60} name
  buildFuzzers "$folder"
  python3 tests/fuzz/seeds.py "$folder"
  for name in "${fuzz_targets[@]}"; do
    step "fuzzing $name (findings: build/fuzz/findings)" \
      fuzzTarget "$folder" "$name" $(((seconds + ${#fuzz_targets[@]} - 1) / ${#fuzz_targets[@]}))
  done
}
