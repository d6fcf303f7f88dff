#!/usr/bin/env python3
"""Runs everything that needs a GPU, part by part, and writes results.json and results.md.

smoke    the program starts, finds its device and trains
tests    unit and gradient tests
mpi1, mpi2, mpi4
         MPI tests with 1, 2 and 4 ranks on one device
bits     the same parameters from the same deck twice, from stages, from recomputation, from offloaded optimiser state
mlp256_b1024, mlp2048_b512, lenet_b128, resnet50_b64, gpt2small_b8
         a training step of this model beside PyTorch, eager and compiled, in float, TF32 and bf16
memcheck compute-sanitizer on the tests of kernels, for accesses and for races in shared memory, where it is installed
profile  kernels of the same models by time, and how long the device waits, where pack.sh found CUPTI

A part that has ended is not run again; delete results.json to begin anew. The next call also repeats a part that ran
out of time; until then its results so far are kept. Exit code 1: something failed.
"""
import argparse
import csv
import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

KIT = Path(__file__).resolve().parent
PARTITA = os.environ.get("PARTITA", "partita")
# Decks that differ from those of the kit: file, and what is replaced by what.
VARIANTS = {
    "mlp2048.toml": ("emnist-joint.toml", {"units = 256": "units = 2048"}),
    "gpt-char-recompute.toml": ("gpt-char.toml", {"repeat = 6": "repeat = 6, recompute = true"}),
    # Like the model of peer.py: everything is kept for the backward pass, and nothing is dropped.
    "gpt2-kept.toml": ("gpt2-small.toml", {r' *\{ type = "dropout".*\n': "", "recompute = true, ": "",
                                           r"clip_norm.*\n": ""}),
}


class Kit:
    """Where results go, and how commands are run within the time that is left."""

    def __init__(self, out, seconds, peers):
        self.out, self.end, self.peers = out, time.monotonic() + seconds, peers
        self.file = out / "results.json"
        self.results = json.loads(self.file.read_text()) if self.file.exists() else {}  # of each part

    def left(self):
        return self.end - time.monotonic()

    def run(self, command, limit=120, name=None, environment=None):
        """Output and exit code of a command; its output is also kept in a file. It leaves no process behind."""
        limit = max(1.0, min(limit, self.left()))
        try:
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, errors="replace", cwd=self.out, start_new_session=True,
                                       env={**os.environ, **(environment or {})})
            try:
                output, code = process.communicate(timeout=limit)[0], process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, code = f"{process.communicate()[0]}\nstopped after {limit:.0f} s", 124
        except FileNotFoundError as missing:
            output, code = str(missing), 127
        if name:
            (self.out / f"{name}.log").write_text(output)
        return output, code

    def deck(self, name):
        """The path of a deck of the kit, or of one of VARIANTS, which is made of such a deck."""
        if name not in VARIANTS:
            return KIT / "decks" / name
        original, changes = VARIANTS[name]
        text = (KIT / "decks" / original).read_text()
        for pattern, replacement in changes.items():
            text, count = re.subn(pattern, replacement, text)
            if count == 0:
                sys.exit(f"run.py: {original} has changed; nothing in it matches {pattern}")
        made = self.out / name
        made.write_text(text)
        return made

    def train(self, name, deck, *overrides, ranks=1, limit=120):
        """The summary of a run, or None after a failure."""
        folder = self.out / "runs" / name
        command = [*mpirun(ranks), PARTITA, "train", self.deck(deck), *overrides, "-d", folder, "--overwrite"]
        _, code = self.run(command, limit, f"train-{name}")
        return json.loads((folder / "summary.json").read_text()) if code == 0 else None

    def keep(self, part, rows, ended):
        self.results[part] = {"ended": ended, "rows": rows}
        replace(self.file, json.dumps(self.results, indent=1) + "\n")


def replace(path, text):
    """Complete or not at all: the time limit may end the script while it writes."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def mpirun(ranks):
    return ["mpirun", "-n", ranks] if ranks > 1 else []


def row(name, ok, value=None, unit="", note=""):
    return {"name": name, "ok": bool(ok), "value": value, "unit": unit, "note": note}


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def smoke(kit):
    output, code = kit.run([PARTITA, "info"], name="info")
    yield row("partita info", code == 0, note=last_line(output))
    summary = kit.train("demo", "demo.toml", "run/epochs=1", "strategy/kind=joint")
    yield row("demo, one epoch", summary, summary and summary["test_accuracy"], "accuracy")


ON_DEVICE = "[core],[kernels],[nn],[half],[optim],[memory]"  # the other unit tests need no device
SHORT = "~[sweep]~[memory]~[.]"  # the others are slow where ranks share a device, and hidden ones are slow everywhere


def tested(kit, name, ranks, *command):
    if not shutil.which(command[0]):
        return row(name, False, note=f"{command[0]} is not in the kit")
    begin = time.monotonic()
    output, code = kit.run([*mpirun(ranks), *command], 300, f"tests-{name.replace(', ', '-').replace(' ', '')}")
    return row(name, code == 0, round(time.monotonic() - begin, 1), "s", last_line(output))


def tests(kit):
    commands = [("unit", 1, "partita_unit_tests", ON_DEVICE), ("gradient", 1, "partita_gradient_tests")]
    with ThreadPoolExecutor() as together:  # they share the device, and nothing is timed
        results = [together.submit(tested, kit, *case) for case in commands]
        for future in as_completed(results):
            yield future.result()


def mpi(ranks, kit):
    yield tested(kit, f"{ranks} rank{'s'[:ranks - 1]}", ranks, "partita_mpi_tests", "-d", "yes",
                 *([SHORT] if ranks > 1 else []))


FEW = ["data/samples=128", "data/test_samples=32"]
# name, deck, overrides, ranks; all runs of a group must end with the same parameters
SAME = {
    "demo": [("twice, first", "demo.toml", ["strategy/kind=joint"], 1),
             ("twice, second", "demo.toml", ["strategy/kind=joint"], 1),
             ("pipeline of 2", "demo.toml", ["strategy/kind=pipeline", "strategy/stages=2"], 2),
             ("offload to the host", "demo.toml", ["strategy/kind=joint", "optimiser/offload=host"], 1),
             ("offload to a file", "demo.toml", ["strategy/kind=joint", "optimiser/offload=file"], 1)],
    "gpt": [("twice, first", "gpt-char.toml", [*FEW, "strategy/kind=joint"], 1),
            ("twice, second", "gpt-char.toml", [*FEW, "strategy/kind=joint"], 1),
            ("recomputed", "gpt-char-recompute.toml", [*FEW, "strategy/kind=joint"], 1),
            ("pipeline of 4", "gpt-char.toml", [*FEW, "strategy/kind=pipeline", "strategy/stages=4"], 4)],
}


def bits(kit):
    for group, runs in SAME.items():
        first = None
        for name, deck, overrides, ranks in runs:
            summary = kit.train(f"{group}-{name}".replace(" ", "-").replace(",", ""), deck, "run/epochs=1",
                                "run/evaluate_every=0", *overrides, ranks=ranks)
            value = summary["parameters_hash"] if summary else None
            first = first or value
            yield row(f"{group}: {name}", value and value == first, value and value[:16])


# Tests of every kind of kernel, without those that compare many shapes with loops: the tool makes each launch slow.
QUICK = "[nn],[optim],[half],Attention: teams*,Rows*,Columns*,Sums over the places*"


def memcheck(kit):
    tool = shutil.which("compute-sanitizer")
    if not tool:
        yield row("compute-sanitizer", True, note="not installed: skipped")
        return
    for check in ("racecheck", "memcheck"):
        output, code = kit.run([tool, "--tool", check, "--error-exitcode", 9, "partita_unit_tests", QUICK, "-d", "yes"],
                               100, check)
        ended = len(re.findall(r"^[\d.]+ s: ", output, re.MULTILINE))
        found = re.findall(r"^=+ (?!COMPUTE-SANITIZER)(.*)", output, re.MULTILINE)  # its summary comes at the end
        late = code == 124 and ended and not found and "FAILED" not in output
        yield row(f"{check} of kernels", code == 0 or late,
                  note=f"stopped after {ended} tests, nothing found" if late else found[0] if found else last_line(output))


IMAGES = ["data/kind=noise", "data/image_size=28", "data/classes=47", "data/samples=65536"]
# name, deck, batch, overrides; peer.py knows the same names
MODELS = {
    "mlp256_b1024": ("emnist-joint.toml", 1024, IMAGES),
    "mlp2048_b512": ("mlp2048.toml", 512, IMAGES),
    "lenet_b128": ("lenet-mnist.toml", 128, IMAGES),
    "resnet50_b64": ("resnet-50.toml", 64, ["data/samples=512", "optimiser/kind=adamw"]),
    "gpt2small_b8": ("gpt2-kept.toml", 8, ["data/classes=50304", "data/samples=64"]),
}


def interval_rates(kit, name, precision, every, intervals):
    """Samples per second of each interval of `every` steps after the first, which warms up; and FLOPs per sample."""
    deck, batch, overrides = MODELS[name]
    run = f"{name}-{precision}-{every}"
    summary = kit.train(run, deck, f"run/steps={every * (intervals + 1)}", f"run/precision={precision}",
                        f"run/log_every={every}", f"training/batch={batch}", "run/evaluate_every=0",
                        "data/test_samples=16", *overrides, limit=90)
    if not summary:
        return [], 0.0
    with open(kit.out / "runs" / run / "history.csv", newline="") as file:
        steps = [line for line in csv.DictReader(file) if line["event"] == "step"]
    return [float(line["samples_per_second"]) for line in steps[1:]], summary["partition"][0]["flops_per_sample"]


@functools.lru_cache(maxsize=None)
def measured_rates(kit):
    """What `partita info` says about products: of floats first, then of bf16 numbers."""
    output, _ = kit.run([PARTITA, "info"])
    return next((line for line in output.splitlines() if line.strip().startswith("gemm ")), "").split(";")


def product_rate(kit, precision):
    """FLOP/s of matrix products, or None."""
    parts = [part for part in measured_rates(kit) if ("bf16" in part) == (precision == "bf16")]
    found = [re.search(r"([\d.]+) ([GT])FLOP/s", part) for part in parts]
    return float(found[0][1]) * {"G": 1e9, "T": 1e12}[found[0][2]] if found and found[0] else None


def ours(kit, name):
    """The median of five intervals of about half a second, and the share of the rate of products."""
    batch = MODELS[name][1]
    probe, _ = interval_rates(kit, name, "bf16", 3, 1)
    every = min(2000, max(3, int(0.5 * probe[0] / batch))) if probe else 3
    for precision, slower in (("bf16", 1), ("float", 4)):  # float steps take about four times as long
        rates, flops = interval_rates(kit, name, precision, max(3, every // slower), 5)
        what = f"{name} {precision}: Partita"
        if not rates:
            yield row(what, False)
            continue
        rate, products = statistics.median(rates), product_rate(kit, precision)
        yield row(what, True, round(1000.0 * batch / rate, 3), "ms", f"{1e-12 * rate * flops:.3g} TFLOP/s")
        if products:
            note = f"of {1e-12 * products:.3g} TFLOP/s that partita info measures"
            yield row(f"{what}, share of products", True, round(100.0 * rate * flops / products, 1), "%", note)


def theirs(kit, name):
    """Compiled TF32 comes last, so the limit cuts it off first."""
    libraries = {"LD_LIBRARY_PATH": os.environ.get("PARTITA_NODE_LIBRARIES", "")}
    output, code = kit.run([sys.executable, KIT / "peer.py", name], 75, f"peer-{name}", libraries)
    if code == 3:
        yield row(f"{name}: PyTorch", True, note="is not installed: skipped")
        return
    times = re.findall(r"^(\w+ \w+): ([\d.]+) ms$", output, re.MULTILINE)  # each was printed as soon as it was known
    for mode, milliseconds in times:
        yield row(f"{name}: PyTorch {mode}", True, float(milliseconds), "ms")
    if code != 0:
        late = code == 124 and times
        yield row(f"{name}: PyTorch", late, note="not all within the limit" if late else last_line(output))


def speed(name, kit):
    yield from ours(kit, name)
    if kit.peers:
        yield from theirs(kit, name)


PROFILED_STEPS = {"mlp256_b1024": 300, "mlp2048_b512": 300, "lenet_b128": 300, "resnet50_b64": 24, "gpt2small_b8": 16}


def profile(kit):
    library = KIT / "lib/libkernel_times.so"
    if not library.exists():
        yield row("kernel times", True, note="the kit was packed without CUPTI: skipped")
        return
    for name, steps in PROFILED_STEPS.items():
        deck, batch, overrides = MODELS[name]
        file = kit.out / f"kernels-{name}.txt"
        output, code = kit.run([PARTITA, "train", kit.deck(deck), f"run/steps={steps}", "run/precision=bf16",
                                f"run/log_every={steps}", f"training/batch={batch}", "run/evaluate_every=0",
                                "data/test_samples=16", *overrides, "-d", kit.out / "runs/profile", "--overwrite"], 60,
                               f"profile-{name}", {"CUDA_INJECTION64_PATH": library, "KERNEL_TIMES": file})
        lines = file.read_text().splitlines() if file.exists() else []
        yield row(f"{name}: {file.name}", code == 0 and lines, note=lines[0] if lines else last_line(output))


# name, function, seconds that must be left for it to begin
PARTS = [("smoke", smoke, 20), ("bits", bits, 40), ("tests", tests, 60),
         *((name, functools.partial(speed, name), 40) for name in MODELS),
         ("profile", profile, 20), *((f"mpi{ranks}", functools.partial(mpi, ranks), 60) for ranks in (1, 2, 4)),
         ("memcheck", memcheck, 40)]


def table(results):
    lines = ["| part | what | result | | |", "|---|---|---|---|---|"]
    for part, result in results.items():
        for entry in result["rows"]:
            value = "" if entry["value"] is None else f"{entry['value']} {entry['unit']}".strip()
            lines.append(f"| {part} | {entry['name']} | {'ok' if entry['ok'] else 'FAILED'} | {value} | {entry['note']} |")
        if not result["ended"]:
            lines.append(f"| {part} | | ran out of time | | |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(name for name, _, _ in PARTS)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{names}; default: all")
    parser.add_argument("--minutes", type=float, default=9.0, help="time for this call (default 9)")
    parser.add_argument("--no-peers", action="store_true", help="do not measure PyTorch")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the results (default results)")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - {name for name, _, _ in PARTS}
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]}; valid: {names}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    kit = Kit(arguments.out.resolve(), 60.0 * arguments.minutes, not arguments.no_peers)
    for name, function, seconds in PARTS:
        if kit.results.get(name, {}).get("ended") or (arguments.parts and name not in arguments.parts):
            continue
        if kit.left() < seconds:
            print(f"{name}: skipped, since it may need {seconds} s and {kit.left():.0f} s are left; call again for it")
            continue
        rows = []
        for entry in function(kit):
            rows.append(entry)
            kit.keep(name, rows, ended=False)
        kit.keep(name, rows, ended=kit.left() > 0)
        late = "" if kit.left() > 0 else "; it ran out of time, call again for it"
        print(f"{name}: {sum(not entry['ok'] for entry in rows)} of {len(rows)} failed{late}", flush=True)
    text = table(kit.results)
    replace(kit.out / "results.md", text)
    print(text)
    wanted = arguments.parts or [name for name, _, _ in PARTS]
    ended = all(kit.results.get(name, {}).get("ended") for name in wanted)
    return 0 if ended and all(entry["ok"] for result in kit.results.values() for entry in result["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
