# Debian packages: root installs missing ones; for other users their names are printed.

build_packages=(g++ cmake ninja-build pkg-config git python3 libopenblas-openmp-dev libdnnl-dev libcli11-dev
  libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev)
openmpi_packages=(openmpi-bin libopenmpi-dev libhdf5-openmpi-dev)
mpich_packages=(mpich libmpich-dev libhdf5-mpich-dev) # both can be installed; mpirun stays Open MPI's
test_packages=(catch2)
format_packages=(clang-format-14)
lint_packages=(clang-tidy-14)
fuzz_packages=(clang-14 libclang-rt-14-dev libomp-14-dev)
venv_packages=(python3-venv)

onBookworm() {
  [ -r /etc/os-release ] && (. /etc/os-release && [ "${ID:-}" = debian ] && [ "${VERSION_CODENAME:-}" = bookworm ])
}

missingPackages() {
  local package
  for package in "$@"; do
    case "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" in
      ii*) ;;
      *) printf '%s ' "$package" ;;
    esac
  done
}

aptInstall() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update
  apt-get install -y --no-install-recommends "$@"
}

# Installs packages only on Debian bookworm. On other systems CMake reports what it does not find.
needPackages() {
  onBookworm || return 0
  local missing
  missing=$(missingPackages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -eq 0 ]; then
    # shellcheck disable=SC2086
    step "installing packages" aptInstall $missing
  else
    say "missing packages; ask root to run: apt-get install $missing"
  fi
}

# needBuildPackages PACKAGE...: what every build needs, the MPI library of the preset, and the packages named.
needBuildPackages() {
  local mpi=("${openmpi_packages[@]}")
  [ "$preset" != mpich ] || mpi=("${mpich_packages[@]}")
  needPackages "${build_packages[@]}" "${mpi[@]}" "$@"
}
