"""Lists the sources of the library and the program that differ from a commit, one per line; files that git does not
know yet are among them. For a header that differs it lists its own source, or otherwise the first one that includes it:
checking one of them checks the header. Other sources that call what it declares are left to a lint of all sources. If
the checks themselves differ, it lists all.
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


def source_for(header, sources):
    own = header.with_suffix(".cpp")
    return own if own in sources else next((source for source in sources if header in read_with(source)), None)


def git(*arguments):
    """The files that a command of git names."""
    answer = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return {Path(line) for line in answer.stdout.splitlines()}


def main():
    changed = git("diff", "--name-only", sys.argv[1]) | git("ls-files", "--others", "--exclude-standard")
    sources = [source for folder in ("src/partita", "apps/partita") for source in sorted(Path(folder).rglob("*.cpp"))]
    headers = [source_for(path, sources) for path in sorted(changed) if path.suffix == ".hpp" and path.is_file()]
    for source in sources:
        if CHECKS in changed or source in changed or source in headers:
            print(source)


if __name__ == "__main__":
    main()
