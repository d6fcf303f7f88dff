"""The scripts that developers call: which sources a lint of changes checks."""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import support

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@unittest.skipUnless(shutil.which("git"), "there is no git")
class ChangedSources(support.RunTest):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "clone"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.put(".gitignore", "ignored.cpp\n")
        self.put("src/partita/user.cpp", '#include "partita/old.hpp"\n')
        for name in ("old.hpp", "old.cpp", "staying.cpp", "leaving.cpp"):
            self.put(f"src/partita/{name}", "")
        self.git("init", "--quiet")
        self.commit()

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments):
        """In the clone, even if a hook of another repository runs this test."""
        subprocess.run(["git", "-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false", *arguments],
                       cwd=self.root, check=True, env=self.environment)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "sources")

    def changed(self, commit="HEAD"):
        result = subprocess.run([sys.executable, SCRIPTS / "changed_sources.py", commit], cwd=self.root,
                                capture_output=True, text=True, check=True, env=self.environment)
        return [Path(line).name for line in result.stdout.splitlines()]

    def test_headers_stand_for_sources(self):
        self.assertEqual(self.changed(), [])
        self.put("src/partita/old.hpp", "int changed;\n")
        self.assertEqual(self.changed(), ["old.cpp"])
        (self.root / "src/partita/leaving.cpp").unlink()
        (self.root / "src/partita/old.cpp").unlink()
        self.assertEqual(self.changed(), ["user.cpp"])

    def test_new_files_count(self):
        """Whether git knows them already or not."""
        self.put("src/partita/new.hpp", "")
        self.put("src/partita/caller.cpp", '#include "partita/new.hpp"\n')
        self.put("apps/partita/ignored.cpp", "")
        self.put("apps/partita/new.cpp", "")
        wanted = ["caller.cpp", "new.cpp"]
        self.assertEqual(self.changed(), wanted)
        self.git("add", "--all")
        self.assertEqual(self.changed(), wanted)
        self.commit()
        self.assertEqual(self.changed(), [])
        self.assertEqual(self.changed("HEAD~1"), wanted)

    def test_other_checks_concern_all(self):
        self.put(".clang-tidy", "Checks: '*'\n")
        self.assertEqual(self.changed(), ["leaving.cpp", "old.cpp", "staying.cpp", "user.cpp"])


if __name__ == "__main__":
    support.main()
