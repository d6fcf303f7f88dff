"""A serial HDF5 would link too, but corrupt what several ranks write: CMake must refuse it."""

import shutil
import subprocess
import unittest
from pathlib import Path

import support

MODULES = Path(__file__).resolve().parents[2] / "cmake"
PROJECT = f"""
cmake_minimum_required(VERSION 3.16)
project(look_for_hdf5 LANGUAGES C)
list(APPEND CMAKE_MODULE_PATH "{MODULES}")
find_package(ParallelHDF5 1.10.3 QUIET)
message(STATUS "answer: ${{ParallelHDF5_FOUND}}")
"""
# What an installed HDF5 tells CMake of itself.
PACKAGE = """
add_library(hdf5-shared SHARED IMPORTED)
set_target_properties(hdf5-shared PROPERTIES IMPORTED_CONFIGURATIONS RELEASE IMPORTED_LOCATION_RELEASE /libhdf5.so)
set(HDF5_ENABLE_PARALLEL {parallel})
set(HDF5_INCLUDE_DIR "${{CMAKE_CURRENT_LIST_DIR}}")
set(HDF5_FOUND TRUE)
"""


class Refusal(support.RunTest):
    def answer(self, parallel, version="1.14.0"):
        folder = self.folder / f"parallel-{parallel}-{version}"
        folder.mkdir()
        (folder / "hdf5-config.cmake").write_text(PACKAGE.format(parallel=parallel))
        (folder / "hdf5-config-version.cmake").write_text(f"set(PACKAGE_VERSION {version})\n")
        (folder / "CMakeLists.txt").write_text(PROJECT)
        result = subprocess.run(["cmake", "-S", folder, "-B", folder / "build", f"-DHDF5_DIR={folder}"],
                                capture_output=True, text=True, timeout=support.HANGS)
        self.assertEqual(result.returncode, 0, result.stderr)
        return next(line.split()[-1] for line in result.stdout.splitlines() if "answer:" in line)

    @unittest.skipUnless(shutil.which("cmake"), "there is no cmake")
    def test_serial_hdf5_counts_as_not_found(self):
        self.assertEqual(self.answer("ON"), "TRUE")
        self.assertEqual(self.answer("OFF"), "FALSE")
        self.assertEqual(self.answer("ON", "1.10.2"), "FALSE")


if __name__ == "__main__":
    support.main()
