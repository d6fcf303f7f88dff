#!/usr/bin/env python3
"""Runs everything that needs a GPU, part by part, and writes results.json and results.md.

smoke    the program starts, finds its device and trains
tests    unit and gradient tests, and MPI tests with 1, 2 and 4 ranks on one device
bits     the same parameters from the same deck twice, from stages, from recomputation, from offloaded optimiser state
memcheck compute-sanitizer on the tests of kernels, where it is installed
speed    training steps beside PyTorch, eager and compiled, in float, TF32 and bf16
profile  kernels by time, where nsys is installed

A part that has a result in results.json is not run again; delete the file to begin anew. Parts that would not end
within the given minutes are left for the next call. Exit code 1: something failed.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

KIT = Path(__file__).resolve().parent
PARTITA = os.environ.get("PARTITA", "partita")
NOISE = ["run/evaluate_every=0", "run/log_every=1000000", "data/test_samples=16"]


class Kit:
    """Where results go, and how commands are run within the time that is left."""

    def __init__(self, out, seconds):
        self.out, self.end = out, time.monotonic() + seconds
        self.file = out / "results.json"
        self.results = json.loads(self.file.read_text()) if self.file.exists() else {}

    def left(self):
        return self.end - time.monotonic()

    def run(self, command, limit=120, name=None):
        """Output and exit code of a command; its output is also kept in a file."""
        limit = max(1.0, min(limit, self.left()))
        try:
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=limit, cwd=self.out)
            output, code = done.stdout, done.returncode
        except subprocess.TimeoutExpired as late:
            output, code = f"{(late.stdout or b'').decode(errors='replace')}\nstopped after {limit:.0f} s", 124
        except FileNotFoundError as missing:
            output, code = str(missing), 127
        if name:
            (self.out / f"{name}.log").write_text(output)
        return output, code

    def train(self, name, deck, *overrides, ranks=1, limit=120):
        """The summary of a run, or None after a failure."""
        folder = self.out / "runs" / name
        command = [*mpirun(ranks), PARTITA, "train", KIT / "decks" / deck, *overrides, "-d", folder, "--overwrite"]
        _, code = self.run(command, limit, f"train-{name}")
        return json.loads((folder / "summary.json").read_text()) if code == 0 else None

    def keep(self, part, rows):
        self.results[part] = rows
        self.file.write_text(json.dumps(self.results, indent=1) + "\n")


def mpirun(ranks):
    return ["mpirun", "-n", ranks] if ranks > 1 else []


def row(name, ok, value=None, unit="", note=""):
    return {"name": name, "ok": bool(ok), "value": value, "unit": unit, "note": note}


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def smoke(kit):
    output, code = kit.run([PARTITA, "info"], name="info")
    rows = [row("partita info", code == 0, note=last_line(output))]
    summary = kit.train("demo", "demo.toml", "run/epochs=1", "strategy/kind=joint")
    return rows + [row("demo, one epoch", summary, summary and summary["test_accuracy"], "accuracy")]


def tests(kit):
    rows = []
    commands = [("unit", 1, "partita_unit_tests"), ("gradient", 1, "partita_gradient_tests")]
    commands += [(f"mpi, {ranks} ranks", ranks, "partita_mpi_tests") for ranks in (1, 2, 4)]
    for name, ranks, program in commands:
        if shutil.which(program):
            begin = time.monotonic()
            output, code = kit.run([*mpirun(ranks), program], 150, f"tests-{name.replace(', ', '-').replace(' ', '')}")
            rows.append(row(name, code == 0, round(time.monotonic() - begin, 1), "s", last_line(output)))
    return rows


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
            ("pipeline of 4", "gpt-char.toml", [*FEW, "strategy/kind=pipeline", "strategy/stages=4"], 4)],
}


def bits(kit):
    rows = []
    for group, runs in SAME.items():
        first = None
        for name, deck, overrides, ranks in runs:
            summary = kit.train(f"{group}-{name}".replace(" ", "-").replace(",", ""), deck, "run/epochs=1",
                                "run/evaluate_every=0", *overrides, ranks=ranks)
            value = summary["parameters_hash"] if summary else None
            first = first or value
            rows.append(row(f"{group}: {name}", value and value == first, value and value[:16]))
    return rows


def memcheck(kit):
    tool = shutil.which("compute-sanitizer")
    if not tool:
        return [row("compute-sanitizer", True, note="not installed: skipped")]
    output, code = kit.run([tool, "--error-exitcode", 9, "partita_unit_tests", "[nn],[core],[optim]"], 240, "memcheck")
    return [row("memcheck of kernels", code == 0, note=last_line(output))]


# name, deck, overrides; peer.py knows the same names
MODELS = {
    "mlp256_b1024": ("emnist-joint.toml", ["data/kind=noise", "data/image_size=28", "data/classes=47",
                                          "data/samples=65536", "training/batch=1024"]),
    "resnet50_b64": ("resnet-50.toml", ["training/batch=64", "data/samples=512"]),
    "gpt2small_b8": ("gpt2-small.toml", ["training/batch=8", "data/classes=50304", "data/samples=64"]),
}
STEPS = 20


def step_milliseconds(summary, batch):
    return 1000.0 * batch / summary["samples_per_second"]


def ours(kit, name, precision):
    deck, overrides = MODELS[name]
    batch = int(next(value for value in overrides if value.startswith("training/batch=")).split("=")[1])
    times = []
    for repeat in range(3):
        summary = kit.train(f"{name}-{precision}-{repeat}", deck, f"run/steps={STEPS}", f"run/precision={precision}",
                            *NOISE, *overrides, limit=60)
        if summary:
            times.append(step_milliseconds(summary, batch))
    return row(f"{name} {precision}: Partita", times, times and round(statistics.median(times), 3), "ms")


def theirs(kit, name, precision, compiled):
    mode = "compiled" if compiled else "eager"
    command = [sys.executable, KIT / "peer.py", name, "--precision", precision] + (["--compile"] if compiled else [])
    output, code = kit.run(command, 90, f"peer-{name}-{precision}-{mode}")
    if code == 3:
        return row(f"{name} {precision}: PyTorch {mode}", True, note="PyTorch is not installed: skipped")
    value = float(last_line(output)) if code == 0 else None
    return row(f"{name} {precision}: PyTorch {mode}", code == 0, value, "ms", "" if code == 0 else last_line(output))


def speed(kit):
    rows = []
    for name in MODELS:
        for precision in ("float", "bf16"):
            rows.append(ours(kit, name, precision))
            for compiled in (False, True):
                for peer_precision in (["float", "tf32"] if precision == "float" else ["bf16"]):
                    rows.append(theirs(kit, name, peer_precision, compiled))
    return rows


def profile(kit):
    tool = shutil.which("nsys")
    if not tool:
        return [row("nsys", True, note="not installed: skipped")]
    deck, overrides = MODELS["gpt2small_b8"]
    output, code = kit.run([tool, "profile", "--stats=true", "-o", "gpt2", "--force-overwrite=true", PARTITA, "train",
                            KIT / "decks" / deck, "run/steps=5", "run/precision=bf16", *NOISE, *overrides, "-d",
                            kit.out / "runs/profile", "--overwrite"], 120, "profile")
    return [row("kernels by time in profile.log", code == 0, note=last_line(output))]


# name, function, seconds that it may need
PARTS = [("smoke", smoke, 60), ("bits", bits, 90), ("tests", tests, 200), ("speed", speed, 240),
         ("memcheck", memcheck, 120), ("profile", profile, 60)]


def table(results):
    lines = ["| part | what | result | | |", "|---|---|---|---|---|"]
    for part, rows in results.items():
        for entry in rows:
            value = "" if entry["value"] is None else f"{entry['value']} {entry['unit']}".strip()
            result = "ok" if entry["ok"] else "FAILED"
            lines.append(f"| {part} | {entry['name']} | {result} | {value} | {entry['note']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(name for name, _, _ in PARTS)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{names}; default: all")
    parser.add_argument("--minutes", type=float, default=9.0, help="time for this call (default 9)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the results (default results)")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - {name for name, _, _ in PARTS}
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]}; valid: {names}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    kit = Kit(arguments.out.resolve(), 60.0 * arguments.minutes)
    for name, function, seconds in PARTS:
        if name in kit.results or (arguments.parts and name not in arguments.parts):
            continue
        if kit.left() < seconds:
            print(f"{name}: {kit.left():.0f} s are left, it may need {seconds} s; call again for it")
            continue
        rows = function(kit)
        if kit.left() <= 0:
            print(f"{name}: not finished in time; call again for it")
            continue
        kit.keep(name, rows)
        print(f"{name}: {sum(not entry['ok'] for entry in rows)} of {len(rows)} failed", flush=True)
    text = table(kit.results)
    (kit.out / "results.md").write_text(text)
    print(text)
    return 0 if all(entry["ok"] for rows in kit.results.values() for entry in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
