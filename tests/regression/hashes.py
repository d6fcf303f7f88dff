"""Decks x strategies x ranks x precisions x offload x restart: a refactoring changes no bit of the parameters.

tests/reference/hashes.json has the hash of the parameters of each run, for each kind of processor on which somebody has
recorded it, because others multiply in other orders. On those the list is skipped, but runs that must agree everywhere
are still compared. `python3 tests/regression/hashes.py build/openmp/bin/partita --record` adds the present processor.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import support

FILE = Path(__file__).resolve().parents[1] / "reference" / "hashes.json"
SHORT = ("run/steps=12", "run/evaluate_every=0", "data/samples=600", "data/test_samples=100", "training/batch=24")
FOUR = ("strategy/stages=4", "strategy/cuts=flops")
PIPELINE = ("strategy/kind=pipeline", "strategy/microbatches=4")
JOINT = "strategy/kind=joint"
FIXED, LEARNED = "strategy/labels=orthogonal", "strategy/labels=learned"
COPIES = (LEARNED, "strategy/lookahead=2", "strategy/refresh=3", "strategy/joint_every=5")
# Stages that start as in joint training, and whose gradients always cross the cuts.
ONLY_JOINT = ("strategy/joint_every=1", "strategy/match=after", "strategy/initialisation=he",
              "strategy/label_start=off", "strategy/later_hold=off")
TEXT = ('network/layers=[{ type = "embedding", width = 16, positions = true }, { type = "residual", layers = ['
        '{ type = "layer-norm" }, { type = "attention", heads = 2 }] }, { type = "residual", layers = ['
        '{ type = "rms-norm" }, { type = "dense", units = 32, activation = "gelu" }, { type = "dropout" }, '
        '{ type = "dense", units = 16 }] }, { type = "dense" }]')
GRAMMAR = ("data/kind=grammar", "data/sequence=16", "data/classes=0", TEXT, "strategy/cuts=flops")

# Name -> ranks, overrides of the small deck. Runs of one group learn the same, bit for bit, on any processor.
RUNS = {
    **{f"relay on {ranks}": (ranks, FOUR) for ranks in (1, 2, 4)},
    **{f"free on {ranks}": (ranks, (*FOUR, "strategy/input=free")) for ranks in (1, 2, 4)},
    **{f"frozen on {ranks}": (ranks, (*FOUR, "strategy/input=frozen")) for ranks in (1, 2, 4)},
    **{f"recovery on {ranks}": (ranks, ("strategy/recovery_epochs=1",)) for ranks in (1, 2)},
    "learned, recovery": (2, (LEARNED, "strategy/recovery_epochs=1")),
    "relay with mse": (2, ("strategy/loss=mse", "strategy/labels=uniform")),
    "relay, replicas": (2, ("strategy/stages=1", "strategy/cuts=flops", "strategy/replicas=2")),
    "relay, two by two": (4, ("strategy/replicas=2",)),
    "joint on 1": (1, (JOINT, "strategy/microbatches=4")),
    **{f"pipeline on {ranks}": (ranks, (*FOUR, *PIPELINE)) for ranks in (1, 2, 4)},
    **{f"pipeline, {name}": (2, (*FOUR, *PIPELINE, f"strategy/schedule={name}")) for name in ("1f1b", "gpipe")},
    "joint, replicas": (4, (JOINT, "strategy/replicas=4")),
    "pipeline, two by two": (4, (*PIPELINE, "strategy/replicas=2")),
    **{f"joint in {kind}": (1, (JOINT, f"run/precision={kind}")) for kind in ("bf16", "fp16")},
    "relay in bf16": (2, ("run/precision=bf16",)),
    "pipeline, wire in fp16": (2, (*PIPELINE, "strategy/wire=fp16")),
    **{f"offload to {place}": (1, (JOINT, f"optimiser/offload={place}", "strategy/microbatches=4"))
       for place in ("host", "file")},
    "sgd, clipped": (2, (*PIPELINE, "optimiser/kind=sgd", "optimiser/clip_norm=0.5", "optimiser/nesterov=true")),
    "adamw, replicas": (2, (JOINT, "strategy/replicas=2", "optimiser/kind=adamw", "optimiser/weight_decay=0.1", "optimiser/warmup_steps=4")),
    **{f"images on {ranks}": (ranks, (support.IMAGES, "strategy/cuts=[2]", *PIPELINE)) for ranks in (1, 2)},
    "images by labels": (2, (support.IMAGES, "strategy/cuts=[3]", "strategy/labels=gaussian")),
    **{f"text on {ranks}": (ranks, (*GRAMMAR, *PIPELINE)) for ranks in (1, 2)},
    "text by labels": (2, (*GRAMMAR, "strategy/labels=gaussian")),
    **{f"learned on {ranks}": (ranks, (*FOUR, LEARNED)) for ranks in (1, 2, 4)},
    **{f"learned, frozen on {ranks}": (ranks, (*FOUR, LEARNED, "strategy/input=frozen")) for ranks in (1, 2)},
    "learned, two by two": (4, (LEARNED, "strategy/replicas=2")),
    "learned in bf16": (2, (LEARNED, "run/precision=bf16")),
    "learned, images": (2, (support.IMAGES, "strategy/cuts=[2]", LEARNED)),
    "learned, pooled images": (2, (support.IMAGES, "strategy/cuts=[2]", LEARNED, "strategy/label_pool=2")),
    "learned, heads": (2, (LEARNED, 'strategy/head=[{ type = "dense", units = 40, activation = "gelu" }, { type = "dropout" }]')),
    "learned, text": (2, (*GRAMMAR, LEARNED)),
    **{f"joint steps on {ranks}": (ranks, (*FOUR, LEARNED, "strategy/joint_every=3")) for ranks in (1, 2, 4)},
    **{f"copies on {ranks}": (ranks, (*FOUR, *COPIES)) for ranks in (1, 2, 4)},
    "copies in bf16": (2, (*FOUR, *COPIES, "run/precision=bf16", "strategy/wire=bf16")),
    "transport": (2, (support.IMAGES, "strategy/cuts=[2]", LEARNED, "strategy/transport=0.5")),
    **{f"reconstruction on {ranks}": (ranks, (*FOUR, LEARNED, "strategy/reconstruct=0.1", "strategy/joint_every=5"))
       for ranks in (1, 2, 4)},
    "reconstructed images, recovery": (2, (support.IMAGES, "strategy/cuts=[2]", LEARNED, "strategy/reconstruct=0.1",
                                           "strategy/recovery_epochs=1")),
    "reconstructed text": (4, (*GRAMMAR, LEARNED, "strategy/reconstruct=0.1", "strategy/replicas=2")),
    **{f"look-ahead on {ranks}": (ranks, (LEARNED, "strategy/stages=3", "strategy/cuts=[1,5]", "strategy/lookahead=2"))
       for ranks in (1, 3)},
    "joint alone": (1, (JOINT,)),
    **{f"only joint steps on {ranks}": (ranks, (*FOUR, *ONLY_JOINT)) for ranks in (1, 2, 4)},
}
RESTARTED = ("joint steps on 2", "copies on 2", "learned on 2", "learned, heads", "learned, recovery", "relay on 2", "frozen on 2", "recovery on 2", "pipeline on 2", "joint in fp16", "images on 2")
SAME = (("learned on 1", "learned on 2", "learned on 4"), ("learned, frozen on 1", "learned, frozen on 2"),
        ("relay on 1", "relay on 2", "relay on 4"), ("free on 1", "free on 2", "free on 4"),
        ("frozen on 1", "frozen on 2", "frozen on 4"), ("recovery on 1", "recovery on 2"),
        ("joint on 1", "pipeline on 1", "pipeline on 2", "pipeline on 4", "pipeline, 1f1b", "pipeline, gpipe",
         "offload to host", "offload to file"),
        ("joint steps on 1", "joint steps on 2", "joint steps on 4"), ("copies on 1", "copies on 2", "copies on 4"),
        ("look-ahead on 1", "look-ahead on 3"),
        tuple(f"reconstruction on {ranks}" for ranks in (1, 2, 4)),
        ("joint alone", "only joint steps on 1", "only joint steps on 2", "only joint steps on 4"),
        ("images on 1", "images on 2"), ("text on 1", "text on 2"))
# Kernels of OpenBLAS that every processor of the last ten years can run; oneDNN computes nothing.
KERNELS = {"OPENBLAS_CORETYPE": "Haswell", "DNNL_MAX_CPU_ISA": "SSE41"}


def processor(provenance):
    """What decides the order in which numbers are added up: processor, compiler, libraries."""
    lines = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in lines.items()}
    names = [fields.get(key, "?") for key in ("vendor_id", "cpu family", "model")]
    return " ".join([*names, *(provenance[key].split(",")[0] for key in ("compiler", "kokkos", "blas"))])


class Hashes(support.RunTest):
    def trained(self, name):
        ranks, overrides = RUNS[name]
        folder = self.folder / name.replace(" ", "-")
        result = support.run("train", self.deck, *SHORT, FIXED, *overrides, "checkpoint/every=7", "-d", folder, ranks=ranks,
                             environment=KERNELS)
        self.assertEqual(result.returncode, 0, f"{name}: {result.stdout}{result.stderr}")
        return support.summary_of(folder)

    def continued(self, name):
        """From the checkpoint in the middle."""
        folder, ranks = self.folder / name.replace(" ", "-"), RUNS[name][0]
        middle = support.checkpoints(folder)
        again = self.folder / f"{folder.name}-again"
        shutil.copytree(folder, again)
        result = support.run("train", "-d", again, "-r", again / "checkpoints" / middle[min(middle)].name, "--overwrite",
                             ranks=ranks, environment=KERNELS)
        self.assertEqual(result.returncode, 0, f"{name}: {result.stdout}{result.stderr}")
        return support.summary_of(again)["parameters_hash"]

    def test_all(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            summaries = dict(zip(RUNS, pool.map(self.trained, RUNS)))
            continued = dict(zip(RESTARTED, pool.map(self.continued, RESTARTED)))
        hashes = {name: summary["parameters_hash"] for name, summary in summaries.items()}
        self.assertGreater(len(set(hashes.values())), 15)
        for group in SAME:
            self.assertEqual(len({hashes[name] for name in group}), 1, group)
        self.assertEqual({name: hashes[name] for name in RESTARTED}, continued)
        key = processor(summaries["joint on 1"]["provenance"])
        if "sanitized" in os.path.basename(support._app):
            key += " sanitized"  # other compiler flags, other sums
        known = json.loads(FILE.read_text()) if FILE.exists() else {}
        if "--record" in sys.argv:
            known[key] = hashes
            FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        if key not in known:
            self.skipTest(f"nobody has recorded hashes on '{key}'; the others were right")
        self.maxDiff = None
        self.assertEqual(hashes, known[key])


if __name__ == "__main__":
    if "--record" in sys.argv:
        test = Hashes("test_all")
        support._app = os.path.abspath(sys.argv[1])
        result = test.run()
        sys.exit(0 if result.wasSuccessful() else print(result.failures, result.errors) or 1)
    support.main()
