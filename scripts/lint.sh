# Formats and lints the sources with the tools of clang 14.

sourceFiles() { find src apps tests perf -name .venv -prune -o -name '*.[ch]pp' -print | sort; }

runFormat() {
  needPackages "${format_packages[@]}"
  local tool
  tool=$(command -v clang-format-14 || command -v clang-format) || fail "clang-format 14 is not installed"
  [[ $("$tool" --version) == *"version 14."* ]] ||
    fail "$tool is not version 14, and other versions format code differently"
  case ${1:-} in
    --check) sourceFiles | xargs "$tool" --dry-run --Werror ;;
    '') sourceFiles | xargs "$tool" -i ;;
    *) fail "format: unknown argument '$1'; --check changes nothing" ;;
  esac
}

# Prints the commit to compare with: where this branch left the main branch, or on the main branch its previous commit.
baseCommit() {
  local main base
  main=$(git rev-parse --verify --quiet origin/HEAD || git rev-parse --verify --quiet main) || return 1
  base=$(git merge-base HEAD "$main") || return 1
  [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse --verify --quiet HEAD~1) || return 1
  echo "$base"
}

# Configures a build whose commands clang can read, with one command per source: no precompiled headers of GCC, no
# sources compiled together, and no second library in double.
lintDatabase() {
  needBuildPackages
  needKokkos "$preset"
  [ -e build/lint/build.ninja ] ||
    step "configuring (lint)" configure -B build/lint -DPARTITA_PRECOMPILE_HEADERS=OFF -DCMAKE_UNITY_BUILD=OFF \
      -DBUILD_TESTING=OFF
  cmake --build build/lint --target partita_version_source >>"$log"
}

# runLint [--changed | REGULAR_EXPRESSION ...]: clang needs options for what GCC does by default: C++17, and the folder
# of omp.h, which clang must search after its own headers.
runLint() {
  needPackages "${lint_packages[@]}"
  local tool base changed files=("${@:-/(src/partita|apps/partita)/}")
  if [ "${1:-}" = --changed ] && base=$(baseCommit); then
    changed=$(python3 scripts/changed_sources.py "$base") || return 1
    mapfile -t files < <(printf '%s' "$changed")
    say "${#files[@]} sources differ from ${base:0:12}, or stand for a header that does"
    [ "${#files[@]}" -gt 0 ] || return 0
  elif [ "${1:-}" = --changed ]; then
    files=('/(src/partita|apps/partita)/')
  fi
  lintDatabase
  tool=$(command -v run-clang-tidy-14 || command -v run-clang-tidy) || fail "clang-tidy 14 is not installed"
  "$tool" -quiet -p build/lint -j "$jobs" -extra-arg=-std=gnu++17 \
    -extra-arg=-idirafter"$("$CXX" -print-file-name=include)" "${files[@]}"
}
