"""Writes what fuzzing starts from: seeds/TARGET/* and, where words matter, TARGET.dict.

The decks are those that people run, and the dictionary has the words of the deck reference, so neither grows stale.
"""

import gzip
import json
import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

DECKS = {
    "minimal": '[network]\nlayers = [{ type = "dense" }]\n',
    "overrides": "#!run/seed=3\n#!strategy.cuts=[1, 2]\n#!data/path=2024\n#!network/layers=[{type='dense',units=4}]\n",
    "mistakes": '[run]\nsed = 1\nepochs = 0\n[networks]\n[network]\nlayers = [3, {}, {type = "dens"}, {type = 4}]\n',
    "kinds": "[data]\npath = 1979-05-27T07:32:00Z\nclasses = 1e3\nnoise = +inf\nvalidation = 07:32:00.5\nsamples = 0xF_F\n",
    "texts": "[data]\npath = \"\"\"a\\\n  b\"\"\"\ntrain_file = 'c:\\d'\ntest_file = \"\\u00e9\\U0001F600\\t\"\n\"labels\" = '''x'''\n",
    "tables": "run.seed = 1\n[[network.layers]]\ntype = 'dense'\nunits = 8\nrepeat = 3\n[[network.layers]]\ntype = 'dense'\n",
    "deep": "run = {" + "a." * 30 + "a = [[[[1.5]]]]}\n" + ".".join(["a"] * 5000) + " = 1\n",
    "cuts": "[network]\nlayers = [{type = 'dense', units = 8, activation = 'leaky-relu', slope = 0.1, repeat = 4},"
            " {type = 'dense'}]\n[strategy]\nkind = 'sil'\nstages = 3\ncuts = [1, 3]\ninput = 'free'\nmixture = 'on'\n",
}

LIBSVM = {
    "plain": "+1 1:0.5 3:-2e1 4:7\r\n# between\n-1 2:1\n\n+1 1:1 2:2 3:3 # behind\n",
    "mistakes": "1 1:1 1:2\n",
    "label": "0.5 1:nan\n",
    "wide": "3 1048576:1e-38\n",
    "sparse": "1 1048576:1\n2 1:1\n" * 20,
    "empty": "7\n",
}


NODES = [{"id": i - 1, "parameterSize": 2, "activationSize": 3, "optimalLatencyFw": 0.5, "optimalLatencyBw": 1.5,
          "isTensorParallelized": i > 0} for i in range(3)]
EDGES = [{"sourceId": i - 1, "destId": i, "communicationCost": 7} for i in range(2)]
CHAIN = {"maxMemoryPerDevice": 1e3, "maxDevices": 8, "bandwidth": 4294967296, "mbsInBatch": 16,
         "activationRecomputation": True, "optimizerAlgorithm": "Adam", "nodes": {"1": NODES, "2": NODES},
         "edges": {"1": EDGES, "2": EDGES}}
OPERATORS = {"num_tc": 2, "num_vc": 1, "ops": [
    {"id": i, "core_type": ("TC", "VC", "TCandVC")[i % 3], "latency": 1 + i, "intra_op_latency": 1.5} for i in range(5)],
    "edges": [[0, 2], [1, 2], [2, 4]]}

PLACEMENT = {name: json.dumps(task) for name, task in {
    "operators": OPERATORS, "cycle": {**OPERATORS, "edges": [[0, 1], [1, 2], [2, 0]]}, "chain": CHAIN,
    "fixed": {**CHAIN, "fixedPP": 2, "fixedTMPC": 1, "fixedDP": 2, "numTransformerLayers": 3},
    "tight": {**CHAIN, "maxMemoryPerDevice": 8, "maxDevices": 2, "activationRecomputation": False},
    "nodes": {**CHAIN, "devicesPerNode": 4, "bandwidthInNode": 1e11},
    "choices": {**CHAIN, "activationRecomputation": False, "chooseRecomputation": True, "chooseShardedOptimizer": True,
                "chooseOffload": True, "hostBandwidth": 1e10, "maxMemoryPerDevice": 12},
}.items()}

# The models of the repository are seeds too.
SEARCH = {
    "all": "[search]\ndevices = 64\nbatch = 256\nbandwidth = 1e9\nnode_devices = 8\nnode_bandwidth = 1e10\n"
           "host_bandwidth = 1e9\nadam = true\nengine = 'highs'\nschedule_width = 0\n[architectures]\narea = 2e8\n"
           "every = 10\ntensor_cores = 8\n[estimator]\nfrequency = 1e9\nfuse = false\n[[model]]\nfile = 'a.toml'\n"
           "[[case]]\nmicrobatch = 2\nmemory = 1e9\nrecompute = true\n[[case]]\nchoose_shard = true\n",
    "least": "[[model]]\nfile = 'a'\n",
    "mistakes": "[serach]\n[search]\ndevices = 0\nbatch = nan\nengine = 3\n[architectures]\nwidth = 3\n[[case]]\n"
                "microbatch = 5\nmemory = -inf\nrecompute = true\nchoose_recompute = true\n[[model]]\n",
    "kinds": "[model]\nname = 3\nlayers = 1e3\nwidth = 2024-01-01\nheads = [1]\n[[case]]\n[expert]\nstages = -1\n",
}


def checkpoints():
    """Files that the program wrote for checkpoints/tiny.toml, stored with gzip; and inputs from which the target
    (tests/fuzz/checkpoint.cpp) builds files with oddities. It takes numbers from the end
    of such an input: first how many oddities there are, then which."""
    files = {path.name.partition(".")[0]: gzip.decompress(path.read_bytes())
             for path in sorted((ROOT / "tests/fuzz/checkpoints").glob("*.h5.gz"))}
    odd = {f"odd-{item}-{kind}": b"build:" + bytes([9, 200, 7, 130, 65, kind, item, 1])
           for item in range(36) for kind in range(0, 6, 1 + item % 3)}
    return {**files, **odd, "none": b"build:", "cut": files["checkpoint"][:9000], "other": b"\x89HDF\r\n\x1a\n"}


def idx(*sizes, kind=8):
    count = 1
    for size in sizes:
        count *= size
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, kind, len(sizes), *sizes) + bytes(i % 256 for i in range(count))


IDX = {
    "labels": idx(5),
    "rows": idx(3, 7),
    "images": idx(2, 3, 4),
    "colours": idx(2, 3, 2, 2),
    "reals": idx(2, 2, kind=13),
    "truncated": idx(4, 4)[:-3],
    "promise": idx(1, 1)[:4] + b"\xff" * 16,
}


def with_gzip(seeds):
    """Each seed, plain and compressed; also one of two gzip members, and one with a wrong checksum."""
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in seeds.items()}
    first = next(iter(packed.values()))
    return {**seeds, **packed, "members.gz": first + first, "checksum.gz": first[:-8] + bytes(8)}


def words():
    """Keys, choices, defaults and ranges of the deck reference."""
    page = (ROOT / "docs/deck-reference.md").read_text()
    found = {word.strip() for code in re.findall(r"`([^`]+)`", page) for word in re.split(r", ", code)}
    sections = re.findall(r"^## (\[\w+\])$", page, re.MULTILINE)
    syntax = ["#!", "[[", "]]", "{", "}", '"""', "'''", "\\u0000", "= ", "inf", "nan", "0x", "1e400", "\n", "\\"]
    return sorted(found | set(sections) | {section[1:-1] + "/" for section in sections} | set(syntax))


def search_words():
    """Keys and choices of specifications and models."""
    sources = "".join((ROOT / "src/partita/plan/search" / name).read_text() for name in ("search_spec.cpp", "transformer.cpp"))
    return sorted(set(re.findall(r'"(\w+)"', sources)) | {"[[", "]]", " = ", "inf", "nan", "1e400", "-1", "true", "\n"})


def quoted(word):
    return '"' + "".join(f"\\x{byte:02x}" if byte < 32 or byte > 126 or byte in b'"\\' else chr(byte)
                         for byte in word.encode()) + '"\n'


def main():
    out = Path(sys.argv[1])
    decks = {path.stem: path.read_text() for path in sorted((ROOT / "input-decks").glob("*.toml"))}
    models = {path.stem: path.read_text() for path in sorted((ROOT / "models").glob("*.toml"))}
    libsvm = {name: text.encode() for name, text in LIBSVM.items()}
    for target, seeds in {"deck": {**decks, **DECKS}, "idx": with_gzip(IDX), "libsvm": with_gzip(libsvm),
                          "placement": PLACEMENT, "search": {**models, **SEARCH},
                          "checkpoint": checkpoints()}.items():
        folder = out / "seeds" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for target, dictionary in (("deck", words()), ("search", search_words())):
        (out / f"{target}.dict").write_text("".join(map(quoted, dictionary)))


if __name__ == "__main__":
    main()
