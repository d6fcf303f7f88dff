"""Prints medians of what `./bootstrap bench` measured in FOLDER, Partita's beside PyTorch's.

FOLDER has a file {partita,pytorch}_NAME_THREADS_TURN.json for models whose names begin with NAME. Ratios are those
within a turn, so that a machine may change its speed between turns; beside them stands the ratio of the fastest turns,
which a machine that changes its speed within a turn disturbs less.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "apps" / "plot"))
from output_files import store


def turns(folder, program, models="*", threads=1):
    """{name: {turn: entry}}"""
    found = {}
    for path in sorted(folder.glob(f"{program}_{models}_{threads}_*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8")):
            found.setdefault(entry["name"], {})[path.stem.rpartition("_")[2]] = entry
    return found


def median(by_turn):
    return statistics.median(entry["value"] for entry in by_turn.values())


def ratio(slower, faster):
    """The median of the ratios of all turns, or None."""
    ratios = [slower[turn]["value"] / entry["value"] for turn, entry in faster.items() if turn in slower]
    return statistics.median(ratios) if ratios else None


def ratio_of_fastest(slower, faster):
    """The ratio of the least times that any turn has measured."""
    least = [min(entry["value"] for entry in by_turn.values()) for by_turn in (slower, faster)]
    return least[0] / least[1]


def show_speed(folder):
    ours, peers = turns(folder, "partita"), turns(folder, "pytorch")
    print(f"\n{'medians of turns':24} {'Partita':>12} {'PyTorch':>12}  {'unit':8} speed-up  of the fastest turns")
    medians = []
    for name, by_turn in ours.items():
        entry = dict(next(iter(by_turn.values())), value=median(by_turn))
        medians.append(entry)
        line, peer = f"{name:24} {entry['value']:12.4g} ", peers.get(name, {})
        if faster := ratio(peer, by_turn):
            print(f"{line}{median(peer):12.4g}  {entry['unit']:8} {faster:7.2f}x  {ratio_of_fastest(peer, by_turn):.2f}x")
        else:
            print(f"{line}{'':12}  {entry['unit']}")
    show_means(ours, peers)
    show_half(ours)
    return medians


def show_means(ours, peers):
    """Geometric means of the speed-ups."""
    kinds = {"models in float": lambda name: not name.endswith("_bf16") and not name.startswith("conv"),
             "models in bf16": lambda name: name.endswith("_bf16"), "convolutions": lambda name: name.startswith("conv")}
    for kind, has in kinds.items():
        names = [name for name in peers if has(name) and name in ours]
        medians = [found for name in names if (found := ratio(peers[name], ours[name]))]
        if len(medians) > 1:
            fastest = [ratio_of_fastest(peers[name], ours[name]) for name in names]
            show_ratio(f"geometric mean of {len(medians)} {kind}", statistics.geometric_mean(medians),
                       statistics.geometric_mean(fastest))


def show_ratio(text, of_medians, of_fastest):
    """Below the columns of the table."""
    print(f"{text:60}{of_medians:7.2f}x  {of_fastest:.2f}x")


def show_half(ours):
    """How much faster Partita itself is in bf16 than in float."""
    for name, half in ours.items():
        single = ours.get(name.removesuffix("_bf16"), {})
        if name.endswith("_bf16") and (faster := ratio(single, half)):
            show_ratio(f"{name} against float", faster, ratio_of_fastest(single, half))


def show_threads(folder, models):
    ours, peers = ([turns(folder, program, models, threads) for threads in (1, 2)] for program in ("partita", "pytorch"))
    print(f"\n{'medians of turns':24} {'1 thread':>12} {'2 threads':>12}  {'unit':8} faster  PyTorch")
    for name, one in ours[0].items():
        if one[min(one)]["unit"] != "ms" or name not in ours[1]:
            continue
        line = f"{name:24} {median(one):12.4g} {median(ours[1][name]):12.4g}  {'ms':8}"
        for program in (ours, peers):
            faster = ratio(program[0].get(name, {}), program[1].get(name, {}))
            line += f" {faster:6.2f}x" if faster else ""
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--threads", metavar="NAME", help="how much faster two threads are than one, for these models")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the medians to FILE, as `partita bench` does")
    arguments = parser.parse_args()
    if arguments.threads:
        show_threads(arguments.folder, arguments.threads)
        return
    medians = show_speed(arguments.folder)
    if arguments.json:
        store(json.dumps(medians, indent=1).encode(), arguments.json)


if __name__ == "__main__":
    main()
