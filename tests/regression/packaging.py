"""The Spack recipe and environments fit the project.

Spack itself is not needed: tests/support/fake_spack.py runs the recipe and says what is checked. If Spack is found
in PATH or SPACK_ROOT, it concretises the recipe as well, which takes some minutes. The smoke test of the recipe
runs for real, on the program that was built.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import support

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.dont_write_bytecode = True
import fake_spack  # noqa: E402

SPACK = ROOT / "spack"
# Options of CMake that a package has no use for, and why.
NOT_IN_RECIPE = {
    "CMAKE_BUILD_TYPE": "Spack's own variant build_type sets it",
    "PARTITA_ENABLE_BENCHMARKS": "a benchmark that is run from the sources, by those who change schedules",
    "PARTITA_ENABLE_FUZZING": "fuzzers are run from the sources, and need another compiler",
    "PARTITA_INSTALL": "for projects that Partita is a part of; a package is always installed",
    "PARTITA_PRECOMPILE_HEADERS": "for those who build from nothing again and again; a package is built once",
}


def cmake_text(*folders):
    below = (path for folder in folders for path in sorted((ROOT / folder).rglob("CMakeLists.txt")))
    ours = (path for path in below if not any(part.startswith(".") for part in path.relative_to(ROOT).parts))
    files = [ROOT / "CMakeLists.txt", *ours]  # what lies in hidden folders (a Python environment) is not
    return "\n".join(path.read_text() for path in [*files, *sorted((ROOT / "cmake").glob("*.cmake"))])


def cmake_options():
    """What a user may set; what the tests alone read is set where they are."""
    text = cmake_text("src", "apps", "perf")
    optional = {f"PARTITA_ENABLE_{name}" for name in re.findall(r"partita_find_optional\(([A-Z]\w+)", text)}
    return optional | set(re.findall(r"^\s*option\((\w+)", text, re.MULTILINE)) | set(
        re.findall(r"set\((\w+) [^)]*\bCACHE\b", text))


class SpackRecipe(support.RunTest):
    @classmethod
    def setUpClass(cls):
        cls.package, cls.recipe = fake_spack.load(SPACK / "packages" / "partita" / "package.py")

    def arguments(self, run_tests=False, **chosen):
        package = self.package(self.recipe.values(**chosen), run_tests=run_tests)
        return dict(re.fullmatch(r"-D(\w+):\w+=(.*)", argument).groups() for argument in package.cmake_args())

    def test_versions(self):
        text = (ROOT / "CMakeLists.txt").read_text()
        self.assertEqual(self.recipe.versions, ["main"])  # not a release: the recipe builds what the clone contains
        cmake = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", text)[1]
        self.assertEqual(self.recipe.asked_of("cmake", {}), {f"@{cmake}:"})
        bounds = re.search(r"VERSION_LESS ([\d.]+) OR NOT Kokkos_VERSION VERSION_LESS (\d+)", cmake_text())
        kokkos = f"@{bounds[1]}:{int(bounds[2]) - 1}"
        for package in ("kokkos", "kokkos-kernels"):
            self.assertIn(kokkos, self.recipe.asked_of(package, self.recipe.values()))

    def test_it_builds_the_clone_it_lies_in(self):
        self.assertEqual(self.package.git, f"file://{ROOT}")

    def test_options_exist_and_none_is_forgotten(self):
        options, passed = cmake_options(), set()
        for chosen in ({}, {"cuda": True}, {"rocm": True}, {"cuda": True, "mpi": "cray-mpich"}):
            passed |= set(self.arguments(**chosen))
        self.assertIn("PARTITA_PRECISION", options & passed)
        self.assertEqual({name for name in passed - options if not name.startswith("CMAKE_")}, set())
        self.assertEqual(options - passed - set(NOT_IN_RECIPE), set(), "neither in the recipe nor in NOT_IN_RECIPE")

    def test_packages_that_cmake_wants(self):
        wanted = set(re.findall(r"partita_require(?:_headers)?\(([^$ )]\w+)(?: (\w+))?", cmake_text()))
        names = {second if first.startswith("partita_") else first for first, second in wanted}
        spack_names = {"Kokkos": "kokkos", "KokkosKernels": "kokkos-kernels", "MPI": "mpi", "ParallelHDF5": "hdf5",
                       "ZLIB": "zlib-api", "tomlplusplus": "tomlplusplus", "CLI11": "cli11",
                       "nlohmann_json": "nlohmann-json"}
        self.assertEqual(names - {"Threads", "name", "target"}, set(spack_names))
        named = {fake_spack.parts(spec)[0]["package"] for spec, condition, _ in self.recipe.dependencies if not condition}
        self.assertLessEqual({*spack_names.values(), "c", "cxx", "cmake"}, named)
        self.assertIn("+mpi", self.recipe.asked_of("hdf5", {}))
        self.assertIn(("catch2", "", "test"), self.recipe.dependencies)

    def test_host(self):
        values = self.recipe.values()
        self.assertIn("+openmp", self.recipe.asked_of("kokkos", values))
        self.assertLessEqual({"+openmp", "+execspace_openmp", "+blas", "scalars=float,double", "layouts=right"},
                             self.recipe.asked_of("kokkos-kernels", values))
        self.assertIn("+serial", self.recipe.asked_of("kokkos", self.recipe.values(openmp=False)))
        without = {f"PARTITA_ENABLE_{name}": "OFF"
                   for name in ("CBC", "CUBLASLT", "CUDNN", "CUDNN_FRONTEND", "HIGHS", "NCCL")}
        self.assertEqual(self.arguments(), {"BUILD_TESTING": "OFF", "PARTITA_PRECISION": "float",
                                            "PARTITA_ENABLE_ONEDNN": "ON", **without})
        self.assertEqual(self.arguments(run_tests=True, precision="double"),
                         {"BUILD_TESTING": "ON", "PARTITA_PRECISION": "double",
                          "PARTITA_ENABLE_ONEDNN": "OFF", **without})

    def test_onednn(self):
        self.assertEqual(self.recipe.asked_of("onednn", self.recipe.values()), {"@2.6:3", "cpu_runtime=omp"})
        self.assertEqual(self.recipe.asked_of("onednn", self.recipe.values(openmp=False)), {"@2.6:3", "cpu_runtime=seq"})
        for without in ({"onednn": False}, {"precision": "double"}, {"cuda": True, "cuda_arch": "90"}):
            self.assertEqual(self.recipe.asked_of("onednn", self.recipe.values(**without)), set())
            self.assertEqual(self.arguments(**without)["PARTITA_ENABLE_ONEDNN"], "OFF")

    def test_cbc(self):
        for wanted in (True, False):
            self.assertIn(("cbc", "+cbc", ""), self.recipe.dependencies)
            self.assertEqual(self.arguments(cbc=wanted)["PARTITA_ENABLE_CBC"], "ON" if wanted else "OFF")

    def test_cuda(self):
        values = self.recipe.values(cuda=True, cuda_arch="90")
        kokkos, kernels = (self.recipe.asked_of(package, values) for package in ("kokkos", "kokkos-kernels"))
        self.assertEqual(kokkos, {"@3.4:5", "+openmp", "+cuda", "cuda_arch=90", "+wrapper"})
        self.assertLessEqual({"+cuda", "cuda_arch=90", "+cublas", "+execspace_cuda", "+memspace_cudaspace",
                              "scalars=float,double"}, kernels)
        self.assertNotIn("+blas", kernels)
        self.assertEqual(self.arguments(cuda=True)["CMAKE_CXX_COMPILER"], "/kokkos/bin/nvcc_wrapper")

    def test_libraries_of_nvidia(self):
        for library, version in (("cudnn", "@9:"), ("nccl", "@2.13:")):
            for wanted in (True, False):
                chosen = {"cuda": True, "cuda_arch": "90", library: wanted}
                asked, arguments = self.recipe.asked_of(library, self.recipe.values(**chosen)), self.arguments(**chosen)
                self.assertEqual(asked, {version} if wanted else set())
                self.assertEqual(arguments["PARTITA_ENABLE_CUBLASLT"], "ON")
                self.assertEqual(arguments[f"PARTITA_ENABLE_{library.upper()}"], "ON" if wanted else "OFF")
            self.assertEqual(self.recipe.asked_of(library, self.recipe.values()), set())

    def test_rocm(self):
        values = self.recipe.values(rocm=True, amdgpu_target="gfx90a")
        self.assertLessEqual({"+rocm", "amdgpu_target=gfx90a"}, self.recipe.asked_of("kokkos", values))
        self.assertIn("+rocblas", self.recipe.asked_of("kokkos-kernels", values))
        self.assertEqual(self.arguments(rocm=True)["CMAKE_CXX_COMPILER"], "/hip/bin/hipcc")

    def test_cray_libraries(self):
        self.assertNotIn("CMAKE_EXE_LINKER_FLAGS", self.arguments(mpi="cray-mpich"))
        self.assertIn("-lmpi_gtl_cuda", self.arguments(mpi="cray-mpich", cuda=True)["CMAKE_EXE_LINKER_FLAGS"])
        self.assertIn("-lmpi_gtl_hsa", self.arguments(mpi="cray-mpich", rocm=True)["CMAKE_EXE_LINKER_FLAGS"])

    def test_conflicts(self):
        def refused(**chosen):
            return self.recipe.refused(self.recipe.values(**chosen))

        self.assertFalse(refused())
        self.assertFalse(refused(cuda=True, cuda_arch="90"))
        self.assertTrue(refused(cuda=True))
        self.assertTrue(refused(rocm=True))
        self.assertTrue(refused(cuda=True, cuda_arch="90", rocm=True, amdgpu_target="gfx90a"))
        self.assertIn(("^kokkos+alloc_async", "+cuda"), self.recipe.conflicts)

    def test_smoke_test(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "partita").symlink_to(support._app)
        (self.folder / "share" / "partita").mkdir(parents=True)
        (self.folder / "share" / "partita" / "input-decks").symlink_to(support.DECKS)
        self.package({}, prefix=self.folder).test_train_demo()


class FakeSpack(support.RunTest):
    """It does find mistakes."""

    def check(self, *lines):
        text = "from spack.package import *\nclass Partita:\n" + "".join(f"    {line}\n" for line in lines)
        return fake_spack.load(self.write("package.py", text))

    def test_mistakes(self):
        for line in ('depends_on("kokkos++cuda")', 'depends_on("kokkos", wen="+cuda")', 'depends_on("mpi", when="+kuda")',
                     'variant("x", default=True)', 'conflicts("+cuda", when="+rocm")', 'depends_on("kokkos @ 4")'):
            with self.subTest(line=line), self.assertRaises(ValueError):
                self.check(line)
        self.check('depends_on("openblas threads=openmp", when="~cuda~rocm ^[virtuals=blas] openblas")')


class SpackFiles(support.RunTest):
    def read(self, path):
        try:
            import yaml
        except ImportError:
            self.skipTest("there is no PyYAML")
        return yaml.safe_load(path.read_text())

    def test_repository(self):
        self.assertEqual(self.read(SPACK / "repo.yaml"), {"repo": {"namespace": "partita"}})

    def test_environments(self):
        _, recipe = fake_spack.load(SPACK / "packages" / "partita" / "package.py")
        files = sorted((SPACK / "environments").glob("*/spack.yaml"))
        self.assertGreaterEqual(len(files), 2)
        for path in files:
            environment = self.read(path)["spack"]
            self.assertEqual([(path.parent / repo).resolve() for repo in environment["repos"]], [SPACK])
            for spec in environment["specs"]:
                self.assertEqual(fake_spack.parts(spec)[0]["package"], "partita")
                chosen = {match["name"] or match["key"]: match["flag"] == "+" if match["name"] else match["value"]
                          for match in fake_spack.CONDITION.finditer(spec)}
                self.assertLessEqual(chosen.keys(), recipe.variants.keys())
                self.assertFalse(recipe.refused(recipe.values(**chosen)), spec)


class Spack(support.RunTest):
    """What the recipes of others make of ours: `spack spec` knows them all."""

    def setUp(self):
        super().setUp()
        name = shutil.which("spack") or Path(os.environ.get("SPACK_ROOT", ""), "bin", "spack")
        if not os.access(name, os.X_OK):
            self.skipTest("there is no Spack: neither in PATH nor in SPACK_ROOT")
        self.command = name
        version = self.spack("--version")
        if tuple(map(int, version.split(".")[:2])) < (1, 0):
            self.skipTest(f"the recipe is for Spack 1.0 and newer, this is {version}")

    def spack(self, *arguments):
        result = subprocess.run([self.command, *arguments], capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_all_wishes_can_be_met(self):
        scope = self.folder / "scope"
        scope.mkdir()
        (scope / "repos.yaml").write_text(f"repos:\n  partita: {SPACK}\n")
        for spec, wanted in (
                ("partita", {"kokkos": r"\+openmp", "kokkos-kernels": "layouts=right", "hdf5": r"\+mpi",
                             "openblas": "threads=openmp"}),
                ("partita ~openmp precision=double", {"kokkos": r"\+serial", "kokkos-kernels": r"\+execspace_serial"}),
                ("partita +cuda cuda_arch=90", {"kokkos": "cuda_arch:?=90", "kokkos-kernels": r"\+cublas"}),
                ("partita +rocm amdgpu_target=gfx90a", {"kokkos": "amdgpu_target:?=gfx90a",
                                                        "kokkos-kernels": r"\+rocblas"})):
            with self.subTest(spec=spec):
                lines = self.spack("-C", scope, "spec", *spec.split()).splitlines()
                for package, part in wanted.items():
                    found = [line for line in lines if f"^{package}@" in line]
                    self.assertEqual(len(found), 1, package)
                    self.assertRegex(found[0], part)

    def test_environments_can_be_made(self):
        for path in sorted((SPACK / "environments").glob("*/spack.yaml")):
            with self.subTest(environment=path.parent.name):
                copy = self.folder / path.parent.name
                copy.mkdir()
                (copy / "spack.yaml").write_text(path.read_text().replace("../..", str(SPACK)))
                self.assertIn("partita@", self.spack("-e", copy, "concretize"))


class DeviceBuild(support.RunTest):
    """CMake refuses what would silently compute slowly."""

    def configured(self, devices, options=""):
        """What CMake prints, on one line, with a copy of this build's Kokkos that says to have these devices."""
        cache = Path(support._app).resolve().parents[1] / "CMakeCache.txt"
        if not cache.exists():
            self.skipTest("the program is not in its build folder")
        folders = {package: Path(re.search(rf"^{package}_DIR:PATH=(.*)$", cache.read_text(), re.M)[1])
                   for package in ("Kokkos", "KokkosKernels")}
        prefix = folders["Kokkos"].parents[2]
        if folders["KokkosKernels"].parents[2] != prefix:
            self.skipTest("Kokkos Kernels is installed elsewhere")
        header = prefix / "include" / "KokkosKernels_config.h"
        if not header.exists() or "#define KOKKOSKERNELS_ENABLE_TPL_CUBLAS" in header.read_text():
            self.skipTest("these Kokkos Kernels have cuBLAS, or their configuration lies elsewhere")
        copy = self.folder / "kokkos"
        libraries = folders["Kokkos"].parents[1]
        (copy / libraries.name).mkdir(parents=True)
        for path in [*prefix.iterdir(), *libraries.iterdir()]:
            if path.name not in (libraries.name, "cmake"):
                (copy / path.relative_to(prefix)).symlink_to(path)
        shutil.copytree(libraries / "cmake", copy / libraries.name / "cmake")
        settings = copy / libraries.name / "cmake" / "Kokkos" / "KokkosConfigCommon.cmake"
        text, found = re.subn(r"(?i)(set\(Kokkos_DEVICES) [^)]*", rf"\1 {devices}", settings.read_text())
        self.assertEqual(found, 1)
        text, found = re.subn(r"(?i)(set\(Kokkos_OPTIONS) ", rf"\1 {options};", text)
        self.assertEqual(found, 1)
        settings.write_text(text)
        result = subprocess.run(["cmake", "-S", ROOT, "-B", self.folder / "build", f"-DKokkos_ROOT={copy}",
                                 f"-DKokkosKernels_ROOT={copy}", "-DBUILD_TESTING=OFF"], capture_output=True, text=True)
        return result.returncode, " ".join((result.stdout + result.stderr).split())

    def test_cuda_without_cublas(self):
        code, told = self.configured("CUDA;OPENMP")
        self.assertNotEqual(code, 0)
        self.assertRegex(told, "was built without CUBLAS, and its own products are at least ten times slower")

    def test_hip_without_rocblas(self):
        _, told = self.configured("HIP;OPENMP")
        self.assertIn("CMake Warning", told)
        self.assertIn("was built without ROCBLAS", told)

    def test_another_back_end(self):
        code, told = self.configured("SYCL;OPENMP")
        self.assertNotEqual(code, 0)
        self.assertIn("Partita does not support Kokkos' back end SYCL", told)

    def test_unified_memory(self):
        code, told = self.configured("OPENMP;SERIAL", "CUDA_UVM")
        self.assertNotEqual(code, 0)
        self.assertRegex(told, "needs separate memories of host and device, .* was built with CUDA_UVM")


if __name__ == "__main__":
    support.main()
