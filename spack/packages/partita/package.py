# SPDX-License-Identifier: BSD-3-Clause

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Partita(CMakePackage, CudaPackage, ROCmPackage):
    """Training of neural networks that are cut into stages, one stage per rank, on Kokkos, MPI and parallel HDF5."""

    # The recipe is part of the sources, and builds the clone that contains it.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    homepage = git

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("openmp", default=True, description="Threads on the host")
    variant("precision", default="float", values=("float", "double"), multi=False,
            description="Type of parameters and activations")

    variant("onednn", default=True, description="Products and convolutions by oneDNN, on hosts")

    variant("cbc", default=False, description="CBC as one more engine for operator schedules")

    variant("cudnn", default=True, when="+cuda", description="Convolutions by cuDNN, on NVIDIA GPUs")
    variant("nccl", default=True, when="+cuda", description="Sums of gradients by NCCL, between NVIDIA GPUs")

    # Kokkos can be built for only one GPU, while the base classes allow several.
    variant("cuda_arch", default="none", values=("none",) + CudaPackage.cuda_arch_values, multi=False, sticky=True,
            when="+cuda", description="The NVIDIA GPU to build for")
    variant("amdgpu_target", default="none", values=("none",) + ROCmPackage.amdgpu_targets, multi=False, sticky=True,
            when="+rocm", description="The AMD GPU to build for")
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPU: partita +cuda cuda_arch=90")
    conflicts("amdgpu_target=none", when="+rocm", msg="name the GPU: partita +rocm amdgpu_target=gfx90a")
    conflicts("+cuda", when="+rocm", msg="a build has one device: +cuda or +rocm; runs may mix builds rank by rank")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.16:", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10.3:+mpi")
    depends_on("zlib-api")
    depends_on("cli11")
    depends_on("tomlplusplus")
    depends_on("nlohmann-json")
    depends_on("cbc", when="+cbc")
    depends_on("catch2", type="test")
    depends_on("python@3.9:", type="test")

    # Both scalars are needed: the gradient tests compute in double for every precision. All matrices are row-major.
    depends_on("kokkos@3.4:5")
    depends_on("kokkos-kernels@3.4:5 scalars=float,double layouts=right")

    depends_on("kokkos+openmp", when="+openmp")
    depends_on("kokkos-kernels+openmp+execspace_openmp", when="+openmp")
    depends_on("kokkos+serial", when="~openmp")
    depends_on("kokkos-kernels+serial+execspace_serial", when="~openmp")

    # Without these, matrix products use Kokkos Kernels' own loops, which are at least ten times slower. BLAS is also a
    # direct dependency, because a recipe can require threads only of its own dependencies. A rank with several threads
    # needs a BLAS with threads.
    depends_on("kokkos-kernels+blas", when="~cuda~rocm")
    depends_on("blas", when="~cuda~rocm")
    depends_on("openblas threads=openmp", when="+openmp~cuda~rocm ^[virtuals=blas] openblas")
    # It computes in float, and in host memory. Its threads must be those of Kokkos.
    depends_on("onednn@2.6:3", when="+onednn~cuda~rocm precision=float")
    depends_on("onednn cpu_runtime=omp", when="+onednn+openmp~cuda~rocm precision=float")
    depends_on("onednn cpu_runtime=seq", when="+onednn~openmp~cuda~rocm precision=float")
    depends_on("kokkos-kernels+cublas+execspace_cuda+memspace_cudaspace", when="+cuda")
    depends_on("cudnn@9:", when="+cuda+cudnn")
    depends_on("nccl@2.13:", when="+cuda+nccl")
    depends_on("kokkos-kernels+rocblas", when="+rocm")

    depends_on("kokkos+cuda_lambda", when="+cuda ^kokkos@:4")
    depends_on("kokkos+wrapper", when="+cuda")
    depends_on("kokkos@4:", when="+rocm")
    conflicts("^kokkos+alloc_async", when="+cuda", msg="MPI cannot send memory of cudaMallocAsync")
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos+cuda cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
        depends_on(f"kokkos-kernels+cuda cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
    for target in ROCmPackage.amdgpu_targets:
        depends_on(f"kokkos+rocm amdgpu_target={target}", when=f"+rocm amdgpu_target={target}")

    # An MPI that reads device memory avoids copies to the host. Partita also works without it.
    for mpi in ("openmpi", "mpich"):
        depends_on(f"{mpi}+cuda", when=f"+cuda ^[virtuals=mpi] {mpi}")
    depends_on("openmpi+rocm", when="+rocm ^[virtuals=mpi] openmpi@5:")
    depends_on("mpich+rocm", when="+rocm ^[virtuals=mpi] mpich")

    sanity_check_is_file = [join_path("bin", "partita")]

    def cmake_args(self):
        arguments = [
            self.define("BUILD_TESTING", self.run_tests),
            self.define_from_variant("PARTITA_PRECISION", "precision"),
            self.define("PARTITA_ENABLE_ONEDNN", self.spec.satisfies("+onednn~cuda~rocm precision=float")),
            self.define_from_variant("PARTITA_ENABLE_CBC", "cbc"),
            self.define("PARTITA_ENABLE_HIGHS", False),  # Spack has no package of it
            self.define("PARTITA_ENABLE_CUBLASLT", self.spec.satisfies("+cuda")),
            self.define("PARTITA_ENABLE_CUDNN", self.spec.satisfies("+cuda+cudnn")),
            self.define("PARTITA_ENABLE_CUDNN_FRONTEND", False),  # Spack has no package of it
            self.define("PARTITA_ENABLE_NCCL", self.spec.satisfies("+cuda+nccl")),
        ]
        if self.spec.satisfies("+cuda"):
            arguments.append(self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx))
        if self.spec.satisfies("+rocm"):
            arguments.append(self.define("CMAKE_CXX_COMPILER", self.spec["hip"].hipcc))
        return arguments + self.cray_device_libraries()

    def cray_device_libraries(self):
        """Cray MPICH reads device memory through a separate library, which only its compiler wrapper would add."""
        if not self.spec.satisfies("^[virtuals=mpi] cray-mpich"):
            return []
        library = {"+cuda": "mpi_gtl_cuda", "+rocm": "mpi_gtl_hsa"}
        folder = join_path(self.spec["cray-mpich"].prefix, "..", "..", "..", "gtl", "lib")
        return [
            self.define("CMAKE_EXE_LINKER_FLAGS", f"-L{folder} -Wl,-rpath,{folder} -l{name}")
            for device, name in library.items()
            if self.spec.satisfies(device)
        ]

    def test_train_demo(self):
        """check the installed demo deck, then train it for one epoch on a few samples"""
        partita = which(join_path(self.prefix.bin, "partita"), required=True)
        deck = join_path(self.prefix.share, "partita", "input-decks", "demo.toml")
        partita("train", deck, "-n")
        few = ["run/epochs=1", "data/samples=600", "data/test_samples=200"]
        told = partita("train", deck, *few, output=str.split, error=str.split)
        assert "test accuracy" in told
