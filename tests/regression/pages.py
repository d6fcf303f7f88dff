"""Man page and shell completion: the copies in the repository are what the program prints, and they work."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

import support
from support import run

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "docs/deck-reference.md": ["--deck"],
    "docs/man/partita.1": ["--man"],
    "completions/partita.bash": ["--completion", "bash"],
}
BASH = """
source "$1"
COMP_WORDBREAKS=$2 COMP_CWORD=$(($# - 3))
shift 2
COMP_WORDS=("$@")
_partita
for reply in "${COMPREPLY[@]}"; do echo "$reply"; done
"""


def checked(*command, folder):
    """The output of a command that must succeed and say nothing to standard error."""
    environment = {**os.environ, "HOME": str(folder), "LC_ALL": "C"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
    if result.returncode != 0 or result.stderr:
        raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout


def need(program):
    if shutil.which(program) is None:
        raise unittest.SkipTest(f"there is no {program}")


class Pages(support.RunTest):
    def test_copies_are_current(self):
        for path, arguments in PAGES.items():
            with self.subTest(path):
                result = run("info", *arguments)
                self.assertDone(result)
                self.assertTrue((ROOT / path).read_text() == result.stdout, f"{path}: run scripts/write_pages.sh")

    def test_several_ranks_print_a_page_once(self):
        for arguments in (["--man"], ["--completion", "bash"]):
            self.assertEqual(run("info", *arguments, ranks=2).stdout, run("info", *arguments).stdout)

    def test_man_page_is_clean(self):
        need("groff")
        page = ROOT / "docs/man/partita.1"
        text = checked("groff", "-man", "-Tascii", "-P-cbou", "-ww", page, folder=self.folder)
        for part in ("SYNOPSIS", "-t, --time-limit HH:MM:SS", "EXIT STATUS", "75 ", "OMP_NUM_THREADS", "deck.toml"):
            self.assertIn(part, text)

    def test_the_shell_can_read_the_script(self):
        need("bash")
        checked("bash", "-n", ROOT / "completions/partita.bash", folder=self.folder)


class BashCompletion(support.RunTest):
    """Words as readline breaks them: at '=' and ':' as well."""

    def setUp(self):
        need("bash")
        super().setUp()
        for name in ("my deck.toml", "last.h5", "notes.txt"):
            self.write(name, "")
        (self.folder / "runs").mkdir()

    def complete(self, *words, breaks=" \t\n\"'><=;|&(:"):
        script = str(ROOT / "completions/partita.bash")
        return set(checked("bash", "--norc", "-c", BASH, "bash", script, breaks, "partita", *words,
                           folder=self.folder).splitlines())

    def test_commands_and_options(self):
        self.assertEqual(self.complete(""), {"train", "evaluate", "export", "info", "plan", "bench"})
        self.assertEqual(self.complete("e"), {"evaluate", "export"})
        self.assertEqual(self.complete("--v"), {"--version"})
        self.assertLessEqual({"-d", "-r", "--restart", "--time-limit", "--help"}, self.complete("train", "-"))
        self.assertEqual(self.complete("train", "--re"), {"--replay", "--restart"})
        self.assertEqual(self.complete("plan", ""),
                         {"calibrate", "predict", "deck", "schedule", "place", "search"})
        self.assertEqual(self.complete("plan", "predict", "--m"), {"--mode"})
        self.assertEqual(self.complete("plan", "predict", "--mode", ""), {"exact", "paper"})
        self.assertEqual(self.complete("plan", "predict", "small.toml", "run/se"), {"run/seed="})

    def test_files(self):
        self.assertEqual(self.complete("train", ""), {"small.toml", "my deck.toml", "runs"})
        self.assertEqual(self.complete("train", "-d", ""), {"runs"})
        self.assertEqual(self.complete("evaluate", ""), {"last.h5", "runs"})
        self.assertEqual(self.complete("export", "last.h5", "-o", "no"), {"notes.txt"})
        self.assertEqual(self.complete("train", "small.toml", "data/path", "=", "ru"), {"runs"})
        self.assertEqual(self.complete("info", "last.h5", ""), set())

    def test_values_of_options(self):
        self.assertEqual(self.complete("train", "-r", "l"), {"latest", "last.h5"})
        self.assertEqual(self.complete("train", "--restart", "=", "lat"), {"latest"})
        self.assertEqual(self.complete("train", "-t", ""), set())
        self.assertEqual(self.complete("info", "--completion", ""), {"bash"})

    def test_keys_of_the_deck(self):
        self.assertEqual(self.complete("train", "small.toml", "strategy/ki"), {"strategy/kind="})
        self.assertEqual(self.complete("train", "small.toml", "-n", "-t", "1", ":", "30", "run/se"), {"run/seed="})
        self.assertEqual(self.complete("train", "-r", "latest", "run/se"), {"run/seed="})
        self.assertEqual(self.complete("evaluate", "runs", "run/se"), {"run/seed="})

    def test_values_of_keys(self):
        kinds = {"joint", "sil", "pipeline", "local-sgd", "hogbatch"}
        self.assertEqual(self.complete("train", "small.toml", "strategy/kind", "="), kinds)
        self.assertEqual(self.complete("train", "small.toml", "strategy/kind", "=", "s"), {"sil"})
        self.assertEqual(self.complete("train", "small.toml", "run/timing", "=", "t"), {"true"})
        self.assertEqual(self.complete("train", "small.toml", "run/seed", "="), set())

    def test_values_where_readline_does_not_break_at_the_equals_sign(self):
        words = ["train", "small.toml", "strategy/kind="]
        kinds = {"strategy/kind=" + kind for kind in ("joint", "sil", "pipeline", "local-sgd", "hogbatch")}
        self.assertEqual(self.complete(*words, breaks=" \t\n"), kinds)


if __name__ == "__main__":
    support.main()
