"""Everything that the recipes of containers/ name exists, and both recipes build and keep the same.

No image is built here. The tests check the files and commands of ./bootstrap that the recipes use, that the packages of
the image have every library of the program, and that installed files are where the recipes look for them.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import support

ROOT = Path(__file__).resolve().parents[2]
DOCKER = (ROOT / "containers" / "Dockerfile").read_text()
APPTAINER = (ROOT / "containers" / "partita.def").read_text()
BASE_LIBRARIES = {"libc6", "libgcc-s1", "libstdc++6"}  # of every image of Debian


def packages(text):
    listed = re.search(r"apt-get install -y --no-install-recommends \\\s*([^&\n]+?)\s*(\\|\n)", text)[1]
    return listed.split()


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def with_dependencies(names):
    told = output("apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
                  "--no-breaks", "--no-replaces", "--no-enhances", "--installed", *names)
    return set(re.findall(r"^(\w[\w.+-]*)", told, re.MULTILINE))


def packages_of_libraries(program):
    """The package of each library of a program. With a merged /usr it may know the file under either name."""
    paths = [os.path.realpath(path) for path in re.findall(r"=> (/\S+)", output("ldd", program))]
    both = [name for path in paths for name in (path, path.removeprefix("/usr"), "/usr" + path)]
    told = subprocess.run(["dpkg", "-S", *both], capture_output=True, text=True).stdout
    found = {os.path.realpath(path): name for name, path in re.findall(r"^([\w.+-]+)[^/\n]*: (/\S+)$", told, re.MULTILINE)}
    return {path: found.get(path, "no package") for path in paths}


class Containers(support.RunTest):
    def test_both_are_the_same(self):
        self.assertEqual(packages(DOCKER), packages(APPTAINER))
        for image in ("debian:bookworm", "debian:bookworm-slim"):
            self.assertRegex(DOCKER, f"(?m)^FROM {image}( AS build)?$")
            self.assertRegex(APPTAINER, f"(?m)^From: {image}$")

    def test_commands_and_files(self):
        usage = output("bash", ROOT / "bootstrap", "--help")
        for text in (DOCKER, APPTAINER):
            for command in re.findall(r"\./bootstrap (\w+)", text):
                self.assertRegex(usage, f"(?m)^  {command} ")
            self.assertIn("cmake --install build/openmp --prefix /opt/partita", text)
            self.assertNotRegex(text.replace("bookworm-slim", ""), r"(?i)\btodo\b|--privileged")
        self.assertRegex((ROOT / "CMakePresets.json").read_text(), '"name": "openmp"')
        self.assertIn("COPY . /src", DOCKER)
        self.assertIn("  . /src", APPTAINER)
        deck = re.search(r"/opt/partita/share/partita/(\S+)", APPTAINER)[1]
        self.assertTrue((ROOT / deck).is_file(), deck)

    @support.unittest.skipUnless(shutil.which("dpkg") and shutil.which("apt-cache") and shutil.which("ldd"), "not Debian")
    def test_packages_hold_the_libraries(self):
        if not re.search("VERSION_CODENAME=bookworm", Path("/etc/os-release").read_text()):
            self.skipTest("not bookworm")
        needed = packages_of_libraries(support._app)
        if "libmpich12" in needed.values():
            self.skipTest("the recipes build with Open MPI, unlike this build")
        self.assertIn("libopenmpi3", needed.values())
        # A build links CBC where it finds it; the images do not install it.
        held = BASE_LIBRARIES | with_dependencies(packages(DOCKER))
        missing = {path: name for path, name in needed.items() if name not in held and not name.startswith("coinor-")}
        self.assertEqual(missing, {})


if __name__ == "__main__":
    support.main()
