"""Lists the sources of the library and the program that differ from a commit, or include a header that differs, one per
line. If the checks themselves differ, it lists all sources.
Usage: changed_sources.py COMMIT, in the root of the repository.
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

CHECKS = Path(".clang-tidy")


@functools.lru_cache(None)
def included(path):
    """Our own headers that a file includes directly, relative to src or to the folder of the file."""
    names = re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text(), re.MULTILINE)
    places = [(Path("src") / name, path.parent / name) for name in names]
    return [place for pair in places for place in pair if place.is_file()]


def read_with(source):
    """The file and all headers that it includes, directly or not."""
    found, left = {source}, [source]
    while left:
        new = [path for path in included(left.pop()) if path not in found]
        found.update(new)
        left += new
    return found


def main():
    answer = subprocess.run(["git", "diff", "--name-only", sys.argv[1]], capture_output=True, text=True, check=True)
    changed = {Path(line) for line in answer.stdout.splitlines()}
    for folder in ("src/partita", "apps/partita"):
        for source in sorted(Path(folder).rglob("*.cpp")):
            if CHECKS in changed or changed & read_with(source):
                print(source)


if __name__ == "__main__":
    main()
