#!/usr/bin/env bash
# Packs what a GPU node without a network, MPI or HDF5 needs for run.sh: the program, its tests, decks, PyTorch
# scripts, Open MPI and all libraries beyond those of CUDA and of the C library.
# Usage: perf/gpu/pack.sh [BUILD] [FILE]    a finished build with tests (build/cuda), the archive (build/gpu-kit.tar.xz)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build/cuda} archive=${2:-build/gpu-kit.tar.xz}
[ -x "$build/bin/partita" ] || { echo "pack.sh: $build has no bin/partita; build it first" >&2; exit 2; }
# A kernel whose arrays do not fit into registers is slow; report this before the node is used.
if grep -q libcudart <<<"$(ldd "$build/bin/partita")"; then
  python3 perf/gpu/resources.py --rows 0 "$build/bin/partita" >&2 || true
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
kit=$folder/gpu-kit
mkdir -p "$kit"/{bin,lib,decks}

for program in partita partita_unit_tests partita_gradient_tests partita_mpi_tests; do
  [ ! -x "$build/bin/$program" ] || cp "$build/bin/$program" "$kit/bin"
done
strip "$kit"/bin/*
cp input-decks/*.toml "$kit/decks"
mkdir "$kit/source" # what tests read: decks, reference numbers, sources
git ls-files -z | xargs -0 cp --parents -t "$kit/source"
cp perf/gpu/{run.sh,run.py,peer.py} "$kit"

# Open MPI finds its plugins and texts through the variables that run.sh sets.
cp "$(readlink -f "$(command -v mpirun)")" "$kit/bin/mpirun"
cp "$(readlink -f "$(command -v orted)")" "$kit/bin/orted"
library=$(awk '/libmpi\.so\.40/ {print $NF; exit}' <<<"$(PATH=$PATH:/sbin:/usr/sbin && ldconfig -p)")
plugins=$(find "$(dirname "$(readlink -f "$library")")" -name mca_btl_self.so -print -quit)
cp -rL "$(dirname "$plugins")" "$kit/plugins"
mkdir -p "$kit/share"
cp -rL /usr/share/openmpi "$kit/share"

cuda=${CUDA_ROOT:-/usr/local/cuda}
cupti=$cuda/extras/CUPTI
if [ -f "$cuda/include/cupti.h" ] || [ -f "$cupti/include/cupti.h" ]; then
  ${CXX:-g++} -std=c++17 -O2 -fPIC -shared -I"$cuda/include" -I"$cupti/include" perf/gpu/kernel_times.cpp \
    -o "$kit/lib/libkernel_times.so" -L"$cuda/lib64" -L"$cuda/lib" -L"$cupti/lib64" -lcupti
fi

# The libraries of programs and plugins. Those of the driver and of CUDA come with the node.
find "$kit/bin" "$kit/plugins" -type f \( -perm -u+x -o -name '*.so' \) -print0 | xargs -0 ldd 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|ld-linux-x86-64|libcuda|libcudart|libcupti|libcublas|libcublasLt|libcudnn[^/]*|libnccl|libnvrtc|libnvidia[^/]*)\.so' |
  xargs -I{} cp -L {} "$kit/lib"

tar -C "$folder" -I "xz -2 -T0" -cf "$archive" gpu-kit
size=$(($(stat -c %s "$archive") / 1048576))
echo "$archive: $size MiB"
[ "$size" -lt 50 ] || { echo "pack.sh: more than 50 MiB" >&2; exit 1; }
