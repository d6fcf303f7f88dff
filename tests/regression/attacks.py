"""Hundreds of hostile calls of the program, drawn at random: decks, data, files, directories, environment, outputs, signals.

Whatever a call requests, the program ends by itself with one of its exit codes, says in plain lines why it refuses, and
leaves alone everything that is not its own. PARTITA_ATTACKS=N draws N calls (the soak test: thousands), and
PARTITA_ATTACK_SEED=N draws others; a failure names its number, and PARTITA_ATTACK=N repeats that call alone. Everything
happens in the test's own folder; pipes stand for devices.
"""

import concurrent.futures
import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import support

ATTACKS = int(os.environ.get("PARTITA_ATTACKS", 200))
SEED = int(os.environ.get("PARTITA_ATTACK_SEED", 1))
LIMIT_SECONDS = support.HANGS
MOST_HASHED = 1 << 26
SOMEBODYS = "somebody's\n"
NAMES = ("deck.toml", "history.csv", "summary.json", "parameters.h5", "trace.json", "checkpoints", ".partita.lock")
NUMBERS = ("0", "-1", "1", "2", "1e300", "1e400", "-1e-300", "nan", "inf", "9223372036854775807", "9223372036854775808",
           "0x10", "1_0", "''", "true", "[]", "[1", "{}", "1e-320", "16777216", "512", "513", "abc", "1.5")
KEYS = ("run/seed", "run/epochs", "run/steps", "run/log_every", "run/evaluate_every", "data/samples",
        "data/test_samples", "data/classes", "data/image_size", "data/distortion", "data/noise", "data/validation",
        "data/crop", "data/flip", "data/prefetch", "training/batch", "training/label_smoothing",
        "optimiser/learning_rate", "optimiser/momentum", "optimiser/beta1", "optimiser/epsilon",
        "optimiser/weight_decay", "optimiser/clip_norm", "optimiser/warmup_steps", "strategy/stages",
        "strategy/replicas", "strategy/cuts", "strategy/kappa", "strategy/temperature", "strategy/cut_gain",
        "strategy/queue", "strategy/bucket_kib", "strategy/microbatches", "strategy/later_rate", "checkpoint/every",
        "checkpoint/keep", "checkpoint/compression", "data/kind", "optimiser/kind", "strategy/kind", "run/precision",
        "optimiser/offload", "optimiser/offload_bucket", "network/initialisation", "data/path")
QUICK = ("run/steps=3", "run/epochs=1")  # precede the drawn words, so that no attack trains for long


def snapshot(folder):
    """Path -> what it is, for everything in the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "link to " + os.readlink(path)
        elif path.is_file() and path.stat().st_size > MOST_HASHED:
            found[name] = f"{path.stat().st_size} bytes"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = oct(path.stat().st_mode & 0o170000)
    return found


class Attack:
    """A call to be made in a folder of its own, and what it may change there."""

    def __init__(self, number, template):
        self.random = random.Random(f"{SEED}/{number}")
        self.folder = Path(tempfile.mkdtemp(prefix="attack-", dir=template.parent))
        self.run = self.folder / "run"
        self.deck = self.folder / "deck-of-mine.toml"
        shutil.copytree(template, self.folder, dirs_exist_ok=True, symlinks=True)
        self.environment, self.limits, self.signal, self.codes = {}, "", None, (0, 1, 2)
        self.may_change, self.readers = set(), []
        self.closes_output = False
        self.family = self.random.choice([name for name in dir(self) if name.startswith("attack_")])
        self.arguments = [str(word) for word in getattr(self, self.family)()]

    def pick(self, *choices):
        return self.random.choice(choices)

    def bytes_of(self, path):
        """Damaged in some way: other bytes, fewer, more, none."""
        data = bytearray(path.read_bytes())
        for _ in range(self.random.randint(1, 8)):
            kind = self.random.randint(0, 5)
            at = self.random.randrange(len(data) + 1)
            if kind == 0 and data:
                data[at % len(data)] ^= 1 << self.random.randrange(8)
            elif kind == 1:
                del data[at:]
            elif kind == 2:
                data[at:at] = self.random.randbytes(self.random.randint(1, 40))
            elif kind == 3:
                del data[at:at + self.random.randint(1, 100)]
            elif kind == 4:
                data[at:at + 8] = struct.pack("<q", self.pick(-1, 0, 1 << 40, 1 << 62))
            else:
                data[at:at + 4] = b"\0" * 4
        return bytes(data)

    def odd_file(self, path):
        """Something at `path` that the program cannot use as a file."""
        if path.exists() or path.is_symlink():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        kind = self.random.randint(0, 5)
        if kind == 0:
            os.mkfifo(path)
        elif kind == 1:
            path.mkdir()
        elif kind == 2:
            path.symlink_to(path)
        elif kind == 3:
            path.write_bytes(b"")
        elif kind == 4:
            with path.open("wb") as file:
                file.truncate(200 << 30)  # sparse: hundreds of GB that take no room
        # else: nothing there

    # Decks and command lines

    def attack_values(self):
        words = [f"{self.random.choice(KEYS)}={self.random.choice(NUMBERS)}" for _ in range(self.random.randint(1, 3))]
        return ["train", self.deck, *QUICK, *words, *self.pick([], ["-n"])]

    def attack_deck(self):
        if self.random.random() < 0.3:
            self.odd_file(self.deck)
        else:
            self.deck.write_bytes(self.bytes_of(self.deck))
        return ["train", self.deck, "-n"]

    def attack_command_line(self):
        words = ["train", "evaluate", "export", "info", str(self.deck), "-d", "-n", "-r", "latest", "run", "", "-o", "x.npz",
                 "--predictions", "--json", "--overwrite", "-t", "0", "1:99", "--ranks", "-1", "run/seed=1", "=", "/=", "\xff",
                 "--help", "--version", "run/" + "x" * 5000 + "=1", *(f"run/seed={i}" for i in range(3))]
        drawn = [self.random.choice(words) for _ in range(self.random.randint(1, 6))]
        if "bench" in drawn or drawn[0] == "train" and not set(QUICK) & set(drawn):
            drawn[1:1] = [self.deck, *QUICK] if drawn[0] == "train" else []
        self.may_change |= {"x.npz", *(["run"] if "--overwrite" in drawn or "latest" in drawn else [])}
        for option, word in zip(drawn, drawn[1:]):  # whatever these words turn out to mean
            if option in ("-d", "-o", "--predictions", "--json") and word != "run":
                self.may_change.add(str(word))
        return drawn

    def attack_environment(self):
        name = self.pick("OMP_NUM_THREADS", "KOKKOS_NUM_THREADS", "PARTITA_LINKS", "TMPDIR")
        value = self.pick("0", "-1", "abc", "1", "513", "600", "100000", "4,2", "", "latency=x", "/nowhere", "99999999999999")
        self.environment = {name: value}
        if name == "TMPDIR":
            self.may_change.add(value)  # MPI makes a folder there
        return ["train", self.deck, *QUICK, "-d", self.new_run("new"), *self.pick([], ["strategy/input=frozen"])]

    def attack_kokkos_flags(self):
        flag = self.pick("threads", "num-threads", "numa", "device-id", "skip-device", "num-devices", "bogus")
        value = self.pick("=0", "=-1", "=abc", "=513", "=99999999999", "", "=", "=2", "=1,x")
        return ["train", self.deck, *QUICK, f"--kokkos-{flag}{value}"]

    # Directories

    def new_run(self, name):
        self.may_change.add(name)
        return self.folder / name

    def attack_directory(self):
        """A run in a folder with something in it that has one of our names, or is nearly one of ours."""
        folder = self.folder / "theirs"
        folder.mkdir()
        if self.random.random() < 0.3:
            (folder / "checkpoints").mkdir()
            (folder / "checkpoints" / "step-000000003.h5").write_text(SOMEBODYS)
        for name in self.random.sample(NAMES, self.random.randint(1, 3)):
            own = self.run / name
            if (folder / name).exists():
                continue
            if self.random.random() < 0.3:
                self.odd_file(folder / name)
            elif self.random.random() < 0.5 or not own.is_file():
                (folder / name).write_text(SOMEBODYS)
            else:
                (folder / name).write_bytes(self.bytes_of(own))
        more = self.pick([], ["-r", "latest"], ["--overwrite"], ["-r", self.run / "parameters.h5"])
        before = snapshot(folder)
        self.check = lambda: self.check_foreign(folder, before)
        self.may_change |= {f"theirs/{name}" for name in NAMES} | {"theirs"}
        return ["train", self.deck, *QUICK, "-d", folder, *more]

    def check_foreign(self, folder, before):
        """Files that were there and are not ours are unchanged; a damaged file may still be ours."""
        after, text = snapshot(folder), hashlib.sha256(SOMEBODYS.encode()).hexdigest()
        foreign = [name for name, was in before.items() if was in (text, "0o10000") or was.startswith("link")]
        changed = [name for name in foreign if after.get(name) != before[name]]
        return f"changed {changed}, which are somebody's" if changed else ""

    def attack_finished_run(self):
        more = self.pick([], ["run/seed=9"], ["-r", "latest"], ["-r", "latest", "run/epochs=7"], ["-r", self.run / "parameters.h5"],
                         ["-r", self.checkpoint()], ["training/batch=0"], ["-n"])
        if "latest" in more and "run/epochs=7" in more:
            self.may_change.add("run")
        before = self.results()
        if "latest" in more or more[-1:] == [self.newest()]:  # results are made again, the same but for times
            self.check = lambda: "" if self.results() >= before else f"{before - self.results()} has gone"
            self.may_change |= {"run/summary.json", "run/history.csv", "run/parameters.h5", "run/deck.toml",
                                "run/summary.json.superseded", "run/parameters.h5.superseded"}
        return ["train", self.deck, *more, "-d", self.run]

    def results(self):
        """Contents of the files that describe a run, under any name: some may have been set aside."""
        kept = set()
        for path in self.run.glob("summary.json*"):
            kept.add(re.search('"parameters_hash": "(.*?)"', path.read_text())[1])
        return kept | {path.name for path in self.run.glob("*.*") if path.suffix in (".h5", ".json", ".csv")}

    def checkpoint(self):
        return self.random.choice(sorted((self.run / "checkpoints").glob("step-*.h5")))

    def newest(self):
        return max((self.run / "checkpoints").glob("step-*.h5"))

    # Files that are read

    def attack_checkpoints(self):
        for path in (self.run / "parameters.h5", *(self.run / "checkpoints").iterdir()):
            drawn = self.random.random()
            if drawn < 0.4:
                path.write_bytes(self.bytes_of(path))
            elif drawn < 0.6:
                self.odd_file(path)
        path = self.pick(self.run, self.run / "parameters.h5", self.run / "checkpoints" / "step-000000020.h5")
        target = self.folder / "out.npz"
        self.may_change.add("out.npz")
        words = self.pick(["evaluate", path], ["info", path], ["export", path, "-o", target],
                          ["train", self.deck, "-d", self.run, "-r", "latest"], ["train", self.deck, "-r", path, *QUICK])
        if "latest" in words:
            self.may_change.add("run")
        return words

    def attack_data(self):
        kind = self.pick("idx", "libsvm", "text", "hdf5")
        keys = {"idx": ("train_images", "train_labels", "test_images", "test_labels")}.get(kind, ("train_file", "test_file"))
        words = []
        for key in keys:
            path = self.folder / "data" / f"{kind}-{key}"
            words.append(f"data/{key}={path}")
        path = self.random.choice(sorted((self.folder / "data").glob(f"{kind}-*")))
        self.odd_file(path) if self.random.random() < 0.3 else path.write_bytes(self.bytes_of(path))
        network = 'network/layers=[{type="embedding",width=4},{type="dense"}]' if kind == "text" else \
            'network/layers=[{type="dense",units=4},{type="dense"}]'
        return ["train", self.deck, f"data/kind={kind}", *words, network, "strategy/kind=joint", "data/sequence=4",
                "data/classes=0", "data/samples=0", "data/test_samples=0", "training/batch=4", *QUICK]

    # Outputs

    def attack_output(self):
        target = self.folder / self.pick("a.npz", "b.onnx", "c.npz")
        kind = self.random.randint(0, 8)
        self.may_change.add(target.name)
        if kind == 0:
            target.write_text("old")
        elif kind == 1:
            self.may_change = {"aim"}
            (self.folder / "aim").write_text("old")
            target.symlink_to(self.folder / "aim")
        elif kind == 2:
            target.symlink_to(self.pick(self.run / "parameters.h5", self.run / "summary.json", target))
            self.may_change = set()
        elif kind == 3:
            target.mkdir()
        elif kind == 4:
            os.mkfifo(target)
            self.readers.append(target)
        elif kind == 5:
            target = self.folder / "nowhere" / target.name
        elif kind == 6:
            os.link(self.run / "parameters.h5", target)
            self.may_change = set()
        elif kind == 7:
            (self.folder / f"{target.name}.partial").write_text(SOMEBODYS)
        else:
            self.limits = "ulimit -f 8192; "
        return self.pick(["evaluate", self.run, "--predictions", target], ["export", self.run, "-o", target],
                         ["evaluate", self.checkpoint(), "--predictions", target])

    # Disturbances

    def attack_signal(self):
        self.signal = (self.pick(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1), 0.5 * self.random.random())
        self.codes = (0, 1, 2, 75, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGUSR1)
        return self.pick(["train", self.deck, "run/epochs=40", "-d", self.new_run("new")],
                         ["evaluate", self.run, "--predictions", self.new_run("p.npz"), "data/test_samples=20000"],
                         ["export", self.run, "-o", self.new_run("e.npz")])

    def attack_reader(self):
        """Nobody reads the output any more."""
        self.closes_output = True
        self.codes = (0, 1, 2, -signal.SIGPIPE)
        return self.pick(["train", self.deck, "-d", self.new_run("new")], ["info"], ["info", self.run], ["--help"],
                         ["evaluate", self.run], ["train", self.deck, "-n"], ["info", "--deck"])

    def check(self):
        """Checks what else must hold afterwards; returns in words what does not."""
        return ""

    def start(self):
        command = [sys.argv[1], *self.arguments]
        if self.limits:
            command = ["bash", "-c", self.limits + '"$@"', "bash", *command]
        environment = {**os.environ, **self.environment}
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", stdin=subprocess.DEVNULL, start_new_session=True)
        for pipe in self.readers:
            threading.Thread(target=pipe.read_bytes, daemon=True).start()
        if self.signal:
            time.sleep(self.signal[1])
            process.send_signal(self.signal[0])
        if self.closes_output:
            process.stdout.close()
            process.stdout = None
        return process

    def carry_out(self):
        """Makes the call and returns what went wrong; empty: nothing."""
        before = snapshot(self.folder)
        process = self.start()
        try:
            output, errors = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            code = process.poll()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a shell may be around it
            process.wait()  # not for the pipes: the daemon of Open MPI, which outlives a crash, has them too
            return f"has not ended after {LIMIT_SECONDS} s" if code is None else f"exit code {code}, output still open"
        code = process.returncode
        if code not in self.codes:
            return f"exit code {code}\n{(output or '')[-400:]}\n{errors[-800:]}"
        told = [line for line in errors.splitlines() if line.startswith("partita: ")]
        if code in (1, 2) and not told:
            return f"exit code {code} without a word\n{errors[-800:]}"
        for line in told:
            if re.search(r"std::|basic_|bad_alloc|terminate|stoi|Kokkos::Impl", line) or not line.isprintable():
                return f"not for people: {line!r}"
        return self.changes(before, code)

    def changes(self, before, code):
        after = snapshot(self.folder)
        changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
        wrong = [name for name in changed
                 if not any(name == own or name.startswith(own + "/") for own in self.may_change)]
        if wrong:
            return f"changed {sorted(wrong)} (exit code {code})"
        left = [name for name in after if ".partial" in name and name not in before]
        if left and code >= 0:
            return f"left {left}"
        return self.check()


class Attacks(support.RunTest):
    def make_template(self):
        """What every attack finds in its folder: a finished run with checkpoints, and data of all kinds."""
        template = self.folder / "template"
        (template / "data").mkdir(parents=True)
        (template / "deck-of-mine.toml").write_text(support.SMALL_DECK)
        support.train(template / "run", self.deck, "checkpoint/every=10", "checkpoint/keep=3")
        data = template / "data"
        for part, count in (("train", 40), ("test", 12)):
            pixels = bytes(i * 7 % 251 for i in range(count * 16))
            labels = bytes(i % 3 for i in range(count))
            (data / f"idx-{part}_images").write_bytes(struct.pack(">IIII", 0x803, count, 4, 4) + pixels)
            (data / f"idx-{part}_labels").write_bytes(struct.pack(">II", 0x801, count) + labels)
            (data / f"libsvm-{part}_file").write_text("".join(f"{i % 3} 1:0.5 {2 + i % 4}:1\n" for i in range(count)))
            (data / f"text-{part}_file").write_text("the quick brown fox " * count)
            shutil.copy(template / "run" / "parameters.h5", data / f"hdf5-{part}_file")
        return template

    def test_all(self):
        template = self.make_template()
        one = os.environ.get("PARTITA_ATTACK")
        numbers = [int(one)] if one else range(ATTACKS)

        def carry_out(number):
            attack = Attack(number, template)
            try:
                wrong = attack.carry_out()
            finally:
                if not one:
                    shutil.rmtree(attack.folder, ignore_errors=True)
            return wrong and f"attack {number} ({attack.family}): {' '.join(attack.arguments)[:600]}: {wrong}"

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            failures = [failure for failure in pool.map(carry_out, numbers) if failure]
        self.assertEqual(failures, [], "\n".join(failures))


if __name__ == "__main__":
    support.main()
