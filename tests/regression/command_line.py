"""The command line: what is requested is printed once, and mistakes are refused in one line, on any number of ranks."""

import os
import subprocess
import sys
import time
from pathlib import Path

import support
from support import contents, run

COMMANDS = ("train", "evaluate", "export", "info", "plan", "bench")


class Answers(support.RunTest):
    def check_once(self, text, *arguments):
        for ranks in (1, 2):
            with self.subTest(arguments=arguments, ranks=ranks):
                result = run(*arguments, ranks=ranks)
                self.assertDone(result)
                self.assertEqual(result.stdout.count(text), 1, result.stdout)

    def test_help(self):
        self.check_once("Usage: partita", "--help")
        self.check_once("Usage: partita", "-h")
        for command in COMMANDS:
            self.check_once(f"Usage: partita {command}", command, "--help")

    def test_help_is_ours_alone_wherever_it_is_asked_for(self):
        """Kokkos would answer to --help as well, on every rank."""
        for arguments in (["--help", "train", self.deck], ["train", self.deck, "run/seed=3", "-h"],
                          ["train", self.deck, "--kokkos-threads=1", "--help"], ["evaluate", self.folder, "--help"]):
            with self.subTest(arguments=arguments):
                result = run(*arguments, ranks=2)
                self.assertDone(result)
                self.assertEqual(result.stdout.count("Usage: partita"), 1, result.stdout)
                self.assertNotIn("threads", result.stdout + result.stderr)

    def test_help_fits_a_screen(self):
        for command in ([], *([command] for command in COMMANDS)):
            lines = run(*command, "--help").stdout.splitlines()
            self.assertLessEqual(len(lines), 30, command)
            self.assertLessEqual(max(map(len, lines)), 80, command)

    def test_version(self):
        self.check_once("partita 0.", "--version")

    def test_deck_reference(self):
        self.check_once("prefetch", "info", "--deck")

    def test_info(self):
        self.check_once("command_line", "info")

    def test_training_prints_its_result_once(self):
        self.check_once("test accuracy", "train", self.deck)


class Refusals(support.RunTest):
    def check(self, parts, *arguments, ranks=(1, 2, 3)):
        for count in ranks:
            with self.subTest(arguments=arguments, ranks=count):
                begin = time.monotonic()
                self.assertRefused(run(*arguments, ranks=count), *parts)
                self.assertLess(time.monotonic() - begin, support.within(30))

    def test_command(self):
        self.check(["a command is required: train, evaluate, export, info, plan or bench; see `partita --help`"])
        self.check(["unknown argument 'trian'"], "trian", self.deck, ranks=(1, 2))

    def test_flags(self):
        self.check(["unknown argument '--dry'; see `partita train --help`"], "train", self.deck, "--dry")
        self.check(["unknown argument '--bogus'"], "--bogus", "train", self.deck, ranks=(1,))
        self.check(["--ranks"], "train", self.deck, "-n", "--ranks", "0", ranks=(1, 2))
        self.check(["--ranks"], "train", self.deck, "--ranks", "2", ranks=(1, 2))
        self.check(["--overwrite requires --directory"], "train", self.deck, "--overwrite", ranks=(1, 2))
        self.check(["DECK is required"], "train", ranks=(1, 2))
        self.check(["RUN is required"], "evaluate", ranks=(1, 2))
        self.check(["--completion: 'tcsh' is not a choice here; valid: 'bash'"], "info", "--completion", "tcsh", ranks=(1,))
        self.check(["--directory: its value is missing"], "train", "x.toml", "-d")
        self.check(["--directory: is given more than once"], "train", "x.toml", "-d", "a", "-d", "b")
        for number in ("x", "0", "2.5", "16777217", "-1", "1e3", "00", "99999999999999999999"):
            self.check([f"'{number}' is not a whole number from 1 to 16777216"], "train", "x.toml", "-n", f"--ranks={number}",
                       ranks=(1,))
        self.check(["excludes --man"], "info", "--deck", "--man", ranks=(1,))
        for words in (["--quick"], ["--noise", "5"]):
            self.check([f"--from excludes {words[0]}"], "plan", "calibrate", "--from", "run", *words, ranks=(1,))
        self.check(["must end in .onnx or .npz"], "export", self.folder, "-o", "network.txt", ranks=(1, 2))
        self.check(["--output is required"], "export", self.folder, ranks=(1,))

    def test_time_limit(self):
        for text in ("5x", "0", "0:00", "1:75", "1:2:3:4", "1:", ":5", "1::2", "1.5", "99999999999999999999"):
            self.check([f"--time-limit: '{text}' is not a time"], "train", self.deck, "-t", text, ranks=(1,))
        self.check(["--time-limit"], "train", self.deck, "-t", ranks=(1, 2))
        for text in ("90", "90:00", "1:00:00", "100:00:59"):
            self.assertDone(run("train", self.deck, "-n", "-t", text))

    def test_restart(self):
        self.check(["needs the run directory, -d"], "train", self.deck, "-r", "latest", ranks=(1, 2))
        self.check(["needs the run directory, -d"], "train", "run/seed=3", "--restart=latest", ranks=(1,))
        self.check(["--restart"], "train", self.deck, "-r", ranks=(1,))

    def test_decks(self):
        self.check(["nothing.toml", "no such deck"], "train", self.folder / "nothing.toml")
        self.check(["run/seed=2: no such deck; the deck comes first"], "train", "run/seed=2", self.deck)
        typo = self.write("typo.toml", support.SMALL_DECK.replace("batch = 40", "bacth = 40"))
        self.check([f"{typo}:14:1: training/bacth: unknown key", "'batch'"], "train", typo)
        broken = self.write("broken.toml", "[run\nseed = 1\n")
        self.check([f"{broken}:1:"], "train", broken, ranks=(1, 2))

    def test_all_mistakes_of_a_deck_at_once(self):
        deck = self.write("bad.toml", support.SMALL_DECK.replace("seed = 3", "sed = 3").replace("epochs = 2", "epochs = 0"))
        for ranks in (1, 2):
            result = run("train", deck, ranks=ranks)
            self.assertEqual(result.returncode, 2)
            self.assertEqual([line.split(": ")[2] for line in support.complaints(result)], ["run/sed", "run/epochs"])

    def test_overrides(self):
        self.check(["'bogus'", "section/key=value"], "train", self.deck, "bogus")
        self.check(["run/sed", "'seed'"], "train", self.deck, "run/sed=1", ranks=(1, 2))
        self.check(["run/seed"], "train", self.deck, "run/seed=first", ranks=(1, 2))
        self.check(["strategy/cuts"], "train", self.deck, "strategy/cuts=[9]", ranks=(1, 2))

    def test_values_that_no_float_holds(self):
        for key in ("strategy/kappa", "strategy/cut_gain", "strategy/temperature", "strategy/noise", "strategy/later_rate",
                    "strategy/recovery_rate", "optimiser/learning_rate", "optimiser/weight_decay", "optimiser/clip_norm",
                    "optimiser/epsilon"):
            self.check([key, "is out of range"], "train", self.deck, f"{key}=1e300", ranks=(1,))
            self.check([key, "1e400 is beyond the range of a double"], "train", self.deck, f"{key}=1e400", ranks=(1,))
        for key in ("strategy/kappa", "strategy/cut_gain", "optimiser/learning_rate", "optimiser/epsilon"):
            self.check([key, "is out of range"], "train", self.deck, f"{key}=1e-300", ranks=(1,))

    def test_number_of_ranks(self):
        self.check(["3 ranks do not fit 2 stages"], "train", self.deck, ranks=(3,))
        self.check(["not fit 2 stages x 2 replicas"], "train", self.deck, "strategy/replicas=2", ranks=(1, 3))

    def test_batch_larger_than_the_data(self):
        self.check(["training/batch", "601", "600"], "train", self.deck, "training/batch=601", ranks=(1, 2))

    def test_missing_runs(self):
        self.check(["nowhere"], "evaluate", self.folder / "nowhere", ranks=(1, 2))
        self.check(["nowhere"], "info", self.folder / "nowhere", ranks=(1, 2))
        self.check([self.folder, "parameters.h5"], "evaluate", self.folder, ranks=(1, 2))
        self.check([self.deck], "evaluate", self.deck, ranks=(1, 2))

    def test_folders_that_cannot_be_made(self):
        self.check([self.deck], "train", self.deck, "-d", self.deck / "run", ranks=(1, 2))

    def test_a_mistake_that_one_rank_meets_in_the_middle_ends_the_job(self):
        folder = self.folder / "no-such-folder"
        overrides = ["strategy/input=frozen", f"strategy/cache_directory={folder}"]
        self.check([folder, "strategy/cache_directory"], "train", self.deck, *overrides, ranks=(1, 2))

    def test_a_mistake_leaves_an_earlier_run_as_it_is(self):
        folder = self.folder / "run"
        self.assertDone(run("train", self.deck, "checkpoint/every=10", "-d", folder))
        before = contents(folder)
        wrong = ["strategy/input=frozen", f"strategy/cache_directory={self.folder / 'nowhere'}"]
        for words in (["--overwrite"], ["-r", "latest"]):
            result = run("train", self.deck, *wrong, "-d", folder, *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("strategy/cache_directory", result.stderr)
            self.assertEqual(contents(folder), before)


class DryRuns(support.RunTest):
    """A dry run refuses what the run would refuse at its start, and leaves nothing behind."""

    FROZEN = ["strategy/input=frozen"]
    OFFLOAD = ["optimiser/offload=file", "optimiser/offload_bucket=1000"]
    DECISIONS = "number,worker,epoch,first,count,row,total,read,applied,rate,decay,in_place,check"

    def test_folders(self):
        nowhere = self.folder / "nowhere"
        before = sorted(self.folder.rglob("*"))
        for words, key in ((self.FROZEN, "strategy/cache_directory"), (self.OFFLOAD, "optimiser/offload_directory")):
            for ranks in (1, 2):
                result = run("train", self.deck, *words, f"{key}={nowhere}", "-n", ranks=ranks)
                self.assertEqual(result.returncode, 0, result.stderr)  # the nodes of the job may have it
                self.assertIn(f"{key}: this machine has no folder '{nowhere}'", result.stderr)
                result = run("train", self.deck, *words, f"{key}=/proc", "-n", ranks=ranks)
                self.assertRefused(result, f"{key}: cannot create a file in '/proc'")
            self.assertDone(run("train", self.deck, *words, f"{key}={self.folder}", "-n"))
            self.assertDone(run("train", self.deck, *words, f"{key}={nowhere}", f"{key}=", "-n"))
            self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_the_run_directory_stands_for_folders_that_are_not_named(self):
        """Until it exists, the folder in which it would be created is used instead."""
        before = sorted(self.folder.rglob("*"))
        for words in (self.FROZEN, self.OFFLOAD):
            self.assertDone(run("train", self.deck, *words, "-n", "-d", self.folder / "new" / "run"))
            self.assertRefused(run("train", self.deck, *words, "-n", "-d", self.deck / "run"),
                               f"cannot create a file in '{self.deck}'")
            result = run("train", self.deck, *words, "-n", "-d", "/no-such-file-system/run")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("this machine has no folder '/no-such-file-system'", result.stderr)
            self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_the_log_of_a_replay(self):
        log = self.write("decisions.csv", support.checked_log([self.DECISIONS.split(","),
                                                               "0,1,0,0,40,0,40,0,0,0.1,0,1,".split(",")]))
        words = ["train", self.deck, "strategy/kind=hogbatch", "optimiser/kind=sgd", "optimiser/momentum=0", "--replay", log]
        for dry in ([], ["-n"]):
            self.assertRefused(run(*words, *dry), f"{log}: has 1 step, but the deck has 30")
        self.assertDone(run(*words, "-n", "run/steps=1"))


class NamesOfDecks(support.RunTest):
    """With -r the first word may be an override of the stored deck, or a deck with '=' in its name."""

    def setUp(self):
        super().setUp()
        self.assertDone(run("train", self.deck, "-d", self.folder / "run"))

    def dry_run(self, word):
        command = [os.path.abspath(sys.argv[1]), "train", word, "-r", "run/parameters.h5", "-n"]
        return subprocess.run(command, capture_output=True, text=True, timeout=support.HANGS, cwd=self.folder)

    def test_a_file_is_a_deck(self):
        for name in ("seed=9.toml", "run/seed-is=9.toml", "./run.seed=9.toml"):
            self.write(name, support.SMALL_DECK.replace("seed = 3", "seed = 9"))
            for word in (name, str(self.folder / name)):
                with self.subTest(word):
                    result = self.dry_run(word)
                    self.assertDone(result)
                    self.assertIn("seed = 9 ", result.stdout)

    def test_anything_else_is_an_override(self):
        result = self.dry_run("run/seed=9")
        self.assertDone(result)
        self.assertIn("seed = 9 ", result.stdout)
        self.assertRefused(self.dry_run("seed=9.toml"), "'seed=9.toml': expected section/key=value")
        self.assertRefused(self.dry_run("rum/seed=9"), "did you mean 'run'?")

    def test_what_may_be_either_is_refused(self):
        for name in ("run/seed=9", "run.seed=9.toml"):
            self.write(name, support.SMALL_DECK)
            self.assertRefused(self.dry_run(name), f"'{name}' is an override and also a file; write ./{name} for the file")


class Ends(support.RunTest):
    def test_nothing_outlives_kokkos(self):
        """Kokkos reports memory that is freed after its end, and aborts."""
        folder = self.folder / "run"
        self.assertDone(run("train", self.deck, "-d", folder))
        commands = [(0, ["train", self.deck, "strategy/kind=joint"]), (0, ["evaluate", folder]), (0, ["info"]),
                    (0, ["export", folder, "-o", self.folder / "network.npz"]),
                    (2, ["train", self.deck, "training/batch=600", "strategy/replicas=2"]),
                    (2, ["evaluate", folder, "data/image_size=14"])]
        for code, arguments in commands:
            with self.subTest(arguments=arguments):
                result = run(*arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertNotRegex(result.stderr, "Kokkos|terminate|abort")


class KokkosFlags(support.RunTest):
    def test_they_pass(self):
        self.assertDone(run("train", self.deck, "--kokkos-threads=1"))
        self.assertDone(run("--kokkos-threads=1", "train", self.deck))
        self.assertRefused(run("train", self.deck, "--kokkos-treads=1"), "unknown argument '--kokkos-treads=1'")

    def test_numbers_of_threads(self):
        """As the banner reports them, whatever this Kokkos calls its flag."""
        for flag in ("--kokkos-threads=2", "--kokkos-num-threads=2"):
            self.assertRegex(run("info", flag).stdout, r"threads +2\b")
        for flag in ("threads", "num-threads"):
            for value in ("=0", "=abc", "", "=", "=-1", "=513", "=99999999999"):
                self.assertRefused(run("train", self.deck, f"--kokkos-{flag}{value}"), f"'--kokkos-{flag}{value}'",
                                   "1 to 512")
        self.assertRefused(run("train", self.deck, "--kokkos-device-id=abc"), "expected a number")
        for name, value in (("OMP_NUM_THREADS", "600"), ("KOKKOS_NUM_THREADS", "600"), ("KOKKOS_NUM_THREADS", "abc"),
                            ("KOKKOS_NUM_THREADS", "0")):
            for ranks in (1, 2):
                self.assertRefused(run("train", self.deck, environment={name: value}, ranks=ranks), f"{name}={value}",
                                   "1 to 512")
        self.assertRefused(run("train", self.deck, "--kokkos-threads=1", environment={"KOKKOS_NUM_THREADS": "2"}),
                           "contradicts")
        for flag in ("num-devices", "ndevices"):
            for value in ("=abc", "=", "", "=1,x"):
                self.assertRefused(run("train", self.deck, f"--kokkos-{flag}{value}"), "expected a number")

    def test_advice_if_half_of_the_cores_are_idle(self):
        cores = sorted(os.sched_getaffinity(0))
        lists = [Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") for core in cores]
        count = len({path.read_text() if path.exists() else path.name for path in lists})
        if min(count, support.processor_time()) < 2:
            self.skipTest("there is one core")
        if "(OpenMP)" not in run("info").stdout:
            self.skipTest("the program does not use threads of a host")
        advice = "the launcher binds the ranks of a node to 1 of "
        for bound, threads, advised in ((cores[:1], "", True), (cores[:1], "1", False), (cores, "", False)):
            with self.subTest(bound=bound, threads=threads):
                result = support.finish(support.start("train", self.deck, "run/steps=1", environment={"OMP_NUM_THREADS": threads},
                                                      before=lambda: os.sched_setaffinity(0, bound)))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(advice in result.stderr, advised, result.stderr)

    def test_a_dry_run_does_not_start_kokkos(self):
        """It would answer to this flag."""
        plain, asked = run("train", self.deck, "-n"), run("train", self.deck, "-n", "--kokkos-help")
        self.assertDone(plain)
        self.assertEqual((asked.stdout, asked.stderr), (plain.stdout, ""))
        started = run("train", self.deck, "run/steps=1", "--kokkos-help")
        self.assertRegex(started.stdout + started.stderr, "--kokkos-(num-)?threads")


if __name__ == "__main__":
    support.main()
