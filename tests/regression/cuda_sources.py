"""Everything with a kernel, and what calls the libraries of NVIDIA, compiles for a device: nvcc reads it, if it is
installed, and finds no call that only a host can make. PARTITA_CUDA_KOKKOS_ROOT names a Kokkos with CUDA for this.
Without it, the Kokkos of the build is used, whose functions are declared for host and device alike; no code is run.
PARTITA_CUDA_PROGRAM may name a program built with CUDA, whose kernels must need no stack.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import support

ROOT = Path(__file__).resolve().parents[2]
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
CUDA_KOKKOS = os.environ.get("PARTITA_CUDA_KOKKOS_ROOT")
KERNEL = re.compile(r"KOKKOS_(LAMBDA|CLASS_LAMBDA|FUNCTION|INLINE_FUNCTION)\b")
DEVICE_MACROS = """
#define KOKKOS_IMPL_FUNCTION __host__ __device__
#define KOKKOS_IMPL_INLINE_FUNCTION inline __host__ __device__
#define KOKKOS_IMPL_FORCEINLINE_FUNCTION __forceinline__ __host__ __device__
#define KOKKOS_LAMBDA [=] __host__ __device__
#define KOKKOS_CLASS_LAMBDA [=, *this] __host__ __device__
"""
# What core/gpu.hpp declares in a build with CUDA.
STREAM = """
#include "partita/core/types.hpp"
#include <cuda_runtime_api.h>
namespace partita {
inline cudaStream_t streamOf(const ExecSpace&) { return nullptr; }
}
"""
# Files of src/partita, and the header that they need.
LIBRARIES = {"kernels/cublaslt.cpp": "cublasLt.h", "kernels/cudnn.cpp": "cudnn.h",
             "kernels/cudnn_convolve.cpp": "cudnn.h", "kernels/cudnn_graphs.cpp": "cudnn.h",
             "kernels/cudnn_attend.cpp": "cudnn.h", "comm/nccl.cpp": "nccl.h"}


def build_flags():
    """Include paths and macros of the build; all but our own headers are the system's, and nvcc is silent on those."""
    commands = json.loads((Path(sys.argv[1]).resolve().parents[1] / "compile_commands.json").read_text())
    command = next(shlex.split(entry["command"]) for entry in commands if "/partita.dir/" in entry["command"])
    paths, flags = [], []
    for word, after in zip(command, command[1:]):
        if word.startswith("-I"):
            paths.append(word[2:])
        elif word == "-isystem":
            paths.append(after)
        elif word.startswith("-D"):
            flags.append(word)
    if CUDA_KOKKOS:
        paths.insert(0, f"{CUDA_KOKKOS}/include")
        flags.append("-DPARTITA_DEVICE")
    elif "-fopenmp" in command:
        flags.append("-Xcompiler=-fopenmp")
    return flags + [word for path in paths if Path(path) != ROOT / "src" for word in ("-isystem", path)]


def complaints(source, flags):
    """What nvcc says of our code in one file; its front end sees all of it, and -ptx leaves the host compiler out."""
    with tempfile.TemporaryDirectory() as folder:
        command = [NVCC, "-std=c++17", "--expt-extended-lambda", "-x", "cu", "-ptx", "-o", f"{folder}/out.ptx", *flags,
                   f"-I{ROOT / 'src'}", source]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    lines = (result.stdout + result.stderr).splitlines()
    ours = [line for line in lines if re.search(r"\(\d+\): (warning #2001\d|error)|: fatal error", line)
            and (result.returncode or line.startswith((str(Path(source).parent), str(ROOT / "src"))))]
    return ours or (lines[-5:] if result.returncode else [])


class CudaSources(support.RunTest):
    def setUp(self):
        super().setUp()
        if NVCC is None:
            self.skipTest("there is no nvcc")
        self.flags = build_flags()
        self.flags.append("-DPARTITA_ROW_TEAMS")  # the kernels of devices, whatever Kokkos the build has
        if not CUDA_KOKKOS:
            self.flags += ["-include", str(self.write("device.hpp", DEVICE_MACROS))]

    def test_sources_with_kernels(self):
        kernels = sorted(path for path in (ROOT / "src/partita").rglob("*.[ch]pp") if KERNEL.search(path.read_text()))
        self.assertGreater(len(kernels), 20)
        everything = self.write("kernels.cpp", "".join(f'#include "{path}"\n' for path in kernels))
        self.assertEqual(complaints(everything, self.flags), [])

    def test_libraries_of_nvidia(self):
        flags = [*self.flags, "-DPARTITA_HAVE_CUBLASLT", "-DPARTITA_HAVE_CUDNN", "-DPARTITA_HAVE_NCCL"]
        if not CUDA_KOKKOS:
            flags += ["-include", str(self.write("stream.hpp", STREAM))]
        installed = {header for header in set(LIBRARIES.values())
                     if not complaints(self.write("header.cpp", f"#include <{header}>\n"), flags)}
        sources = [ROOT / "src/partita" / name for name, header in LIBRARIES.items() if header in installed]
        for source in sources:
            self.assertEqual(complaints(source, flags), [], source.name)
        if sources:
            typed = self.write("call.cpp", f'#include "{sources[0]}"\nint wrong = "text";\n')
            self.assertNotEqual(complaints(typed, flags), [], "mistakes in host code are seen")

    def test_frontend_of_cudnn(self):
        """The host's compiler reads it."""
        cuda = Path(NVCC).parents[1]
        frontend = Path(os.environ.get("cudnn_frontend_ROOT", cuda)) / "include"
        source = ROOT / "src/partita/kernels/cudnn_frontend.cpp"

        def compiled(path):
            command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-DPARTITA_HAVE_CUDNN_FRONTEND",
                       f"-I{ROOT / 'src'}", "-isystem", frontend, "-isystem", cuda / "include", path]
            return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)

        if compiled(self.write("header.cpp", "#include <cudnn_frontend.h>\n")).returncode:
            self.skipTest("there is no frontend of cuDNN; cudnn_frontend_ROOT may name one")
        result = compiled(source)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotEqual(compiled(self.write("call.cpp", f'#include "{source}"\nint wrong = "text";\n')).returncode, 0)

    def test_stack_of_kernels(self):
        """perf/gpu/resources.py finds arrays that do not fit into registers."""
        if not (shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")):
            self.skipTest("there is no cuobjdump")
        script = ROOT / "perf/gpu/resources.py"
        source = """
            __global__ void small(float* x) { x[threadIdx.x] *= 2; }
            #ifdef LARGE
            __global__ void large(float* x, int n) {
              float values[100];
              for (int i = 0; i < 100; ++i) values[i] = x[i];
              for (int i = 0; i < n; ++i) x[i] = values[(7 * i) % 100];
            }
            #endif"""
        for flags, expected in ((), 0), (("-DLARGE",), 1):
            cubin = self.folder / "out.cubin"
            subprocess.run([NVCC, "-arch=sm_90", "-cubin", "-o", cubin, *flags, self.write("kernels.cu", source)],
                           check=True, timeout=300)
            done = subprocess.run([sys.executable, script, cubin], capture_output=True, text=True)
            self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
            self.assertIn("small", done.stdout)
        self.assertIn("1 of 2 kernels use more than 64 bytes of stack", done.stderr)
        program = os.environ.get("PARTITA_CUDA_PROGRAM")
        if program:
            done = subprocess.run([sys.executable, script, program], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_a_device_cannot_call_is_seen(self):
        source = self.write("bad.cpp", """
            #include "partita/core/loops.hpp"
            double onHost(double x) { return x; }
            void work(const partita::ExecSpace& space, partita::Matrix matrix) {
              partita::forEachElement(space, "work", 2, 2, KOKKOS_LAMBDA(std::int64_t row, std::int64_t column) {
                matrix(row, column) = onHost(1.0);
              });
            }""")
        self.assertIn("onHost", "".join(complaints(source, self.flags)))


if __name__ == "__main__":
    support.main()
