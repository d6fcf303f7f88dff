# Layout and lint of the sources, both by clang 14.

sourceFiles() { find src apps tests perf -name .venv -prune -o -name '*.[ch]pp' -print | sort; }

runFormat() {
  needPackages "${format_packages[@]}"
  local tool
  tool=$(command -v clang-format-14 || command -v clang-format) || fail "clang-format 14 is not installed"
  [[ $("$tool" --version) == *"version 14."* ]] || fail "$tool is not version 14, and others lay out code differently"
  if [ "${1:-}" = --check ]; then
    sourceFiles | xargs "$tool" --dry-run --Werror
  else
    sourceFiles | xargs "$tool" -i
  fi
}

# The commit to compare with: where this branch left the main one, or on that one the commit before.
baseCommit() {
  local main base
  main=$(git rev-parse --verify --quiet origin/HEAD || git rev-parse --verify --quiet main) || return 1
  base=$(git merge-base HEAD "$main") || return 1
  [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse --verify --quiet HEAD~1) || return 1
  echo "$base"
}

# changedSources BASE: sources that differ from a commit, or include a header that does, by what the compiler told Ninja
# in the last build; all of them where the checks themselves differ.
changedSources() {
  local changed
  changed=$(git diff --name-only "$1")
  ! grep -qx '\.clang-tidy' <<<"$changed" || changed=$(git ls-files src apps)
  ninja -C "$build" -t deps | awk -v changed="$changed" '
    BEGIN { count = split(changed, list, "\n"); for (i = 1; i <= count; i++) wanted[list[i]] = 1 }
    /^[^ ]/ { source = ""; next }
    { sub(".*/src/partita/", "src/partita/"); sub(".*/apps/partita/", "apps/partita/"); sub("^ *", "") }
    source == "" { source = $0 }
    $0 in wanted && source ~ /^(src|apps)\/partita\// { print source }' | sort -u
}

# Commands that clang can read, and one a source: no precompiled headers of GCC, no second library in double.
lintDatabase() {
  needPackages "${build_packages[@]}"
  needKokkos "$preset"
  [ -e build/lint/build.ninja ] ||
    step "configuring (lint)" configure -B build/lint -DPARTITA_PRECOMPILE_HEADERS=OFF -DBUILD_TESTING=OFF
  cmake --build build/lint --target partita_version_source >>"$log"
}

# runLint [--changed | REGULAR_EXPRESSION ...]: clang needs to be told what GCC does by default: C++17, and where omp.h
# is (behind clang's own headers).
runLint() {
  needPackages "${lint_packages[@]}"
  local tool base files=("${@:-/(src/partita|apps/partita)/}")
  if [ "${1:-}" = --changed ] && base=$(baseCommit); then
    buildTarget all # so that Ninja knows who includes what
    mapfile -t files < <(changedSources "$base")
    say "${#files[@]} sources differ from ${base:0:12}, or include what does"
    [ "${#files[@]}" -gt 0 ] || return 0
  elif [ "${1:-}" = --changed ]; then
    files=('/(src/partita|apps/partita)/')
  fi
  lintDatabase
  tool=$(command -v run-clang-tidy-14 || command -v run-clang-tidy) || fail "clang-tidy 14 is not installed"
  "$tool" -quiet -p build/lint -j "$jobs" -extra-arg=-std=gnu++17 \
    -extra-arg=-idirafter"$("$CXX" -print-file-name=include)" "${files[@]}"
}
