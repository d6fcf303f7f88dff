# Builds Kokkos and Kokkos Kernels once, into a cache outside the clone, from Debian's source package trilinos, which
# contains both. An installation that Kokkos_ROOT names has priority.

kokkos_version=3.4.01
cache=$(realpath -m "${PARTITA_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/partita}")

# Kokkos' name for this processor; empty if only the compiler's default is safe.
kokkosArchitecture() {
  if [ "$(uname -m)" = aarch64 ]; then
    echo ARMV80
  elif hasFlags avx512f avx512dq avx512bw avx512vl; then
    echo SKX
  elif hasFlags avx2 fma; then
    echo HSW
  fi
}

# Downloads with apt's own checks but with separate package lists, so it needs no root and leaves the system unchanged.
downloadTrilinos() {
  local work=$1 file
  mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -e "$file" ] && sed -n 's/^deb /deb-src /p' "$file" >"$work/parts/${file##*/}.list"
  done
  local apt=(apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts"
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=)
  # Some repositories offer no sources, and the update then fails. The download of trilinos decides.
  "${apt[@]}" update || true
  (cd "$work" && "${apt[@]}" source --download-only --only-source trilinos/bookworm)
}

kokkosSources() {
  local sources=$1 work
  [ -d "$sources" ] && return
  work=$(mktemp -d "$cache/partial.XXXXXX")
  downloadTrilinos "$work"
  mkdir "$work/packages"
  tar -xzf "$work"/trilinos_*.orig.tar.gz -C "$work/packages" --strip-components=2 --wildcards \
    '*/packages/kokkos' '*/packages/kokkos-kernels'
  mv "$work/packages" "$sources"
  rm -rf "$work"
}

# configureAndInstall SOURCE BUILD PREFIX OPTION...
configureAndInstall() {
  local source=$1 build=$2 prefix=$3
  shift 3
  cmake -G Ninja -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib "$@"
  cmake --build "$build" --target install -- -j "$cores"
}

# ADD_DEFAULT_ETI=OFF: no template is instantiated in advance, since Partita's calls go to BLAS and it compiles the rest
# itself. F77_BLAS_MANGLE avoids the search for a Fortran compiler.
buildKokkos() {
  local backend=$1 architecture=$2 destination=$3 sources=$cache/kokkos-$kokkos_version-sources work blas
  exec 9>"$cache/lock" && flock 9
  [ -d "$destination" ] && return # another bootstrap has built it in the meantime
  rm -rf "$cache"/partial.*
  kokkosSources "$sources"
  work=$(mktemp -d "$cache/partial.XXXXXX")
  blas=$(dirname "$(ls /usr/lib/*/openblas-openmp/libopenblas.so | head -n 1)")
  configureAndInstall "$sources/kokkos" "$work/kokkos" "$work/install" -DKokkos_ENABLE_SERIAL=ON \
    -DKokkos_ENABLE_OPENMP="$([ "$backend" = openmp ] && echo ON || echo OFF)" \
    ${architecture:+-DKokkos_ARCH_$architecture=ON}
  configureAndInstall "$sources/kokkos-kernels" "$work/kernels" "$work/install" -DKokkos_ROOT="$work/install" \
    -DKokkosKernels_ADD_DEFAULT_ETI=OFF -DKokkosKernels_ENABLE_TPL_BLAS=ON -DKokkosKernels_ENABLE_TPL_LAPACK=OFF \
    -DBLAS_LIBRARIES=openblas -DBLAS_LIBRARY_DIRS="$blas" -DF77_BLAS_MANGLE='(name,NAME) name ## _'
  find "$work/install/lib/cmake" -name '*.cmake' -exec sed -i "s|$work/install|$destination|g" {} +
  mv "$work/install" "$destination" # last, so that a folder of this name is complete
  rm -rf "$work"
}

# needKokkos PRESET: sets $kokkos to the installation for the preset, and builds it if it is missing.
needKokkos() {
  local backend=openmp architecture
  kokkos=${Kokkos_ROOT:-}
  [ -z "$kokkos" ] || return 0
  [ "$1" != serial ] || backend=serial
  [ "$1" != cuda ] || fail "the cuda preset needs Kokkos_ROOT: an installation of Kokkos and Kokkos Kernels with CUDA"
  onBookworm || return 0
  architecture=$(kokkosArchitecture)
  kokkos=$cache/kokkos-$kokkos_version-$backend-${architecture:-generic}-${CXX##*/}-$("$CXX" -dumpfullversion -dumpversion)
  [ ! -d "$kokkos" ] || return 0
  mkdir -p "$cache"
  step "building Kokkos $kokkos_version ($backend), once" buildKokkos "$backend" "$architecture" "$kokkos"
}
