"""The exported network gives the same outputs as Partita, in NumPy and in ONNX Runtime.

If this Python lacks h5py, NumPy, ONNX or ONNX Runtime, all tests run in the Python that PARTITA_EXPORT_PYTHON names.
If it names none, the tests that need these packages are skipped.
"""

import ast
import hashlib
import itertools
import math
import os
import re
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

import support
from support import GROUP_NORM, IMAGES, run, train

try:
    import h5py
    import numpy
    import onnx
    import onnxruntime
except ImportError:
    h5py = numpy = onnx = onnxruntime = None
    other = os.environ.pop("PARTITA_EXPORT_PYTHON", "")
    if other:
        os.execv(other, [other, *sys.argv])

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def layers(text, repeat=3):
    """An override of the network: hidden layers of 32 units and the last one."""
    return f'network/layers=[{{ type = "dense", units = 32, {text}, repeat = {repeat} }}, {{ type = "dense" }}]'


GELU, TANH, SIGMOID = (layers(f'activation = "{name}"') for name in ("gelu", "tanh", "sigmoid"))
LEAKY = layers('activation = "leaky-relu", slope = 0.2')


def tokens(last, norm="layer-norm"):
    """An override of the network: a small GPT that ends with `last`."""
    return f"""network/layers=[{{ type = "embedding", width = 16, positions = true }}, {{ type = "block", layers = [
        {{ type = "residual", layers = [{{ type = "{norm}" }}, {{ type = "attention", heads = 2 }}] }},
        {{ type = "residual", layers = [{{ type = "{norm}" }}, {{ type = "dense", units = 24, activation = "gelu" }},
        {{ type = "dense", units = 16 }}, {{ type = "dropout", rate = 0.1 }}] }}] }}, {{ type = "{norm}" }}, {last}]"""


TEXT = ["data/kind=grammar", "data/classes=0", "data/sequence=12", "data/samples=64", "data/test_samples=16",
        "strategy/labels=gaussian", tokens('{ type = "dense" }')]
JOINT, TWO, THREE = "strategy/kind=joint", "strategy/cuts=[2]", ["strategy/stages=3", "strategy/cuts=[1,2]"]
FOUR = ["strategy/stages=4", "strategy/cuts=flops"]
IMAGE_AT_THE_END = """network/layers=[
    { type = "conv2d", channels = 6, kernel = 3, stride = 2, activation = "relu" },
    { type = "conv2d", channels = 10, kernel = 5 }]"""
FREE = ["strategy/input=free", "strategy/temperature=3", "strategy/kappa=2"]

# Overrides of the small deck, and how many re-encodings the joined network has.
VOLUMES = """network/layers=[
  { type = "conv3d", channels = 4, kernel = [2, 3, 3], stride = [1, 2, 1], padding = "same", activation = "relu" },
  { type = "max-pool", kernel = [3, 2, 2] }, { type = "average-pool", kernel = [1, 2, 1] },
  { type = "group-norm", groups = 2 }, { type = "global-average-pool" }, { type = "dense" }]"""
NETWORKS = {
    "joint": ([JOINT], 0),
    "sil": ([], 0),
    "sil_gelu": ([GELU, TWO], 0),
    "sil_leaky_relu": ([LEAKY, *THREE], 0),
    "sil_tanh": ([TANH, TWO], 0),
    "sil_sigmoid": ([SIGMOID, TWO, "strategy/labels=uniform"], 0),
    "sil_fixed": (["strategy/labels=orthogonal"], 0),
    "sil_heads": (['strategy/head=[{ type = "dense", units = 24, activation = "gelu" }]', "strategy/exits=sum"], 0),
    "sil_reconstruct": (["strategy/reconstruct=0.1", "strategy/lookahead=3"], 0),
    "sil_sum": (["strategy/exits=sum", "strategy/labels=orthogonal", "strategy/match=before"], 0),
    "images_sum": ([IMAGES, "strategy/cuts=[2]", "strategy/exits=sum", "strategy/label_pool=2"], 0),
    "group_norm_sum": ([GROUP_NORM, "strategy/cuts=[4]", "strategy/exits=sum"], 0),
    "text_sum": ([*TEXT, "strategy/cuts=[2]", "strategy/exits=sum"], 0),
    "free_sum": ([*FREE, "strategy/exits=sum"], 1),
    "sil_recovery": (["strategy/recovery_epochs=1"], 0),
    "free": (FREE, 1),
    "free_three_stages": ([*FREE, GELU, *THREE, "strategy/labels=sign", "strategy/recovery_epochs=1"], 2),
    "free_without_reencoding": (["strategy/input=free", "strategy/reencode=off"], 0),
    "relay_with_reencoding": (["strategy/reencode=on"], 1),
    "no_standardisation": ([JOINT, "data/standardise=none"], 0),
    "standardised_features": (["data/standardise=feature"], 0),
    "no_bias": ([JOINT, layers('activation = "relu", bias = false')], 0),
    "one_layer": ([JOINT, 'network/layers=[{ type = "dense", bias = false }]'], 0),
    "images": ([JOINT, IMAGES], 0),
    "volumes": ([JOINT, "data/kind=noise", "data/depth=6", "data/image_size=8", VOLUMES], 0),
    "images_sil": ([IMAGES, TWO, "run/epochs=1"], 0),
    "image_at_the_end": ([JOINT, IMAGE_AT_THE_END], 0),
    "image_at_the_end_sum": ([IMAGE_AT_THE_END, "strategy/cuts=[1]", "strategy/exits=sum"], 0),
    "image_at_the_end_sil": ([IMAGE_AT_THE_END, "strategy/cuts=[1]"], 0),
    "images_free": ([IMAGES, "strategy/cuts=[3]", "strategy/input=free", "run/epochs=4"], 1),
    "windows_with_padding": ([JOINT, """network/layers=[
        { type = "conv2d", channels = 6, kernel = [3, 4], stride = [2, 1], padding = "same", dilation = [1, 2]},
        { type = "activation", activation = "leaky-relu" },
        { type = "max-pool", kernel = 3, stride = 2, padding = 1 }, { type = "flatten" },
        { type = "batch-norm" }, { type = "activation", activation = "gelu" }, { type = "dense" }]"""], 0),
    "group_norm": ([JOINT, GROUP_NORM], 0),
    "group_norm_sil": ([GROUP_NORM, "strategy/cuts=[4]", "strategy/labels=gaussian"], 0),
    "text": ([JOINT, *TEXT], 0),
    "text_of_one_position": ([JOINT, *TEXT, "data/sequence=1"], 0),
    "text_tied": ([JOINT, *TEXT, tokens('{ type = "dense", tied = true, bias = false }', "rms-norm")], 0),
    "text_sil": ([*TEXT, "strategy/cuts=[2]"], 0),
    "text_free": ([*TEXT, "strategy/cuts=[2]", *FREE], 1),
    "squared_error": ([JOINT, "training/loss=mse"], 0),
}


def members(path):
    """Name -> (type, shape, bytes) of an .npz, read with the standard library only; checks checksums and alignment."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            content = archive.read(info)
            end = 10 + int.from_bytes(content[8:10], "little")
            assert content[:8] == b"\x93NUMPY\x01\0" and end % 64 == 0, info.filename
            head = ast.literal_eval(content[10:end].decode())
            found[info.filename[:-len(".npy")]] = (head["descr"], head["shape"], content[end:])
    return found


class Archives(support.RunTest):
    """Needs the standard library only."""

    def setUp(self):
        super().setUp()
        self.run_directory = self.folder / "run"
        self.summary = train(self.run_directory, self.deck, "strategy/labels=orthogonal", ranks=2)

    def export(self, name, *, ranks=1, source=None):
        path = self.folder / name
        result = run("export", source or self.run_directory, "-o", path, ranks=ranks)
        self.assertDone(result)
        self.assertIn(f"parameters_hash {self.summary['parameters_hash']}", result.stdout)
        return path

    def test_the_values_are_those_that_were_trained(self):
        found = members(self.export("network.npz"))
        values = [found[f"layer{i}.dense/{name}"][2] for i in range(6) for name in ("weight", "bias")]
        self.assertEqual(hashlib.sha256(b"".join(values)).hexdigest(), self.summary["parameters_hash"])
        self.assertEqual(found["layer0.dense/weight"][:2], ("<f4", (32, 144)))
        self.assertEqual(found["parameters_hash"][2].decode(), self.summary["parameters_hash"])
        self.assertEqual(found["deck"][2].decode(), (self.run_directory / "deck.toml").read_text())
        kind, shape, text = found["operations"]
        names = [text[i:i + int(kind[2:])].rstrip(b"\0").decode() for i in range(0, len(text), int(kind[2:]))]
        self.assertEqual(names, [f"dense layer{i // 2}.dense" if i % 2 == 0 else "relu" for i in range(shape[0])])
        self.assertEqual(shape, (11,))

    def test_any_number_of_ranks_and_a_parameter_file(self):
        first = self.export("network.npz")
        for name, source, ranks in (("two.npz", self.run_directory, 2),
                                    ("file.npz", self.run_directory / "parameters.h5", 1)):
            self.assertEqual(self.export(name, source=source, ranks=ranks).read_bytes(), first.read_bytes())
        self.assertEqual(list(self.folder.glob("*.partial")), [])

    def test_a_checkpoint(self):
        overrides = ["-d", self.folder / "kept", "checkpoint/every=10", "strategy/labels=orthogonal"]
        self.assertDone(run("train", self.deck, *overrides))
        first, *_, last = support.checkpoints(self.folder / "kept").values()
        self.export("last.npz", source=last)  # says the hash of what was trained
        earlier = run("export", first, "-o", self.folder / "first.npz")
        self.assertDone(earlier)
        self.assertNotIn(self.summary["parameters_hash"], earlier.stdout)

    def test_both_formats_have_the_same_values(self):
        model = self.export("network.onnx", ranks=2).read_bytes()
        for name, (_, _, values) in members(self.export("network.npz")).items():
            if name != "operations":
                self.assertIn(values, model, name)

    def test_predictions_on_any_grid(self):
        reference = None
        for ranks in (1, 2, 3, 4):
            path = self.folder / f"predictions{ranks}.npz"
            self.assertDone(run("evaluate", self.run_directory, "--predictions", path, ranks=ranks))
            found = members(path)
            self.assertEqual({name: head[:2] for name, head in found.items()},
                             {"features": ("<f4", (200, 144)), "labels": ("<i4", (200,)), "logits": ("<f4", (200, 10))})
            reference = reference or found
            for name in ("features", "labels"):
                self.assertEqual(found[name], reference[name])
            logits, expected = (memoryview(part["logits"][2]).cast("f") for part in (found, reference))
            self.assertLess(max(abs(a - b) for a, b in zip(logits, expected)), 1e-5)
        labels = memoryview(reference["labels"][2]).cast("i")
        rows = [list(expected[10 * i:10 * i + 10]) for i in range(200)]
        hits = sum(row.index(max(row)) == label for row, label in zip(rows, labels))
        self.assertAlmostEqual(hits / 200, self.summary["test_accuracy"], places=6)
        features = set(memoryview(reference["features"][2]).cast("f"))
        self.assertLessEqual(features, set(range(256)))  # raw pixels
        self.assertGreater(len(features), 100)

    def test_predictions_for_changed_data(self):
        path = self.folder / "predictions.npz"
        self.assertDone(run("evaluate", self.run_directory, "data/test_samples=45", "--predictions", path, ranks=4))
        self.assertEqual(members(path)["logits"][1], (45, 10))

    def test_refusals(self):
        nowhere = self.folder / "no" / "such" / "folder.npz"
        for ranks in (1, 2):
            for arguments, parts in (((self.run_directory, "-o", self.folder / "x.txt"), ["x.txt", ".onnx", ".npz"]),
                                     ((self.run_directory, "-o", nowhere), [nowhere, "cannot be written"]),
                                     ((self.folder / "none", "-o", self.folder / "x.npz"), ["none"]),
                                     ((self.deck, "-o", self.folder / "x.npz"), [self.deck, "HDF5"])):
                self.assertRefused(run("export", *arguments, ranks=ranks), *parts)
            self.assertRefused(run("evaluate", self.run_directory, "--predictions", nowhere, ranks=ranks),
                               nowhere, "cannot be written")
        self.assertRefused(run("export", self.run_directory), "--output")
        self.assertEqual(list(self.folder.glob("x.*")), [])


def softmax(x):
    x = numpy.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


ACTIVATIONS = {
    "relu": lambda x: numpy.maximum(x, 0),
    "leaky-relu": lambda x, slope: numpy.where(x > 0, x, numpy.float32(slope) * x),
    "tanh": lambda x: numpy.tanh(x),
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "silu": lambda x: x / (1 + numpy.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + numpy.vectorize(math.erf)(x * 0.5**0.5)),
}


def settings(arguments):
    """{name: list of integers} of the words after an operation's name."""
    pairs = (word.split("=") for word in arguments if "=" in word)
    return {name: [int(value) for value in values.split(",")] for name, values in pairs}


def windows(x, keys, fill):
    """[samples, channels, places...] -> [samples, channels, taps, windows...]."""
    axes = x.ndim - 2
    before, after = keys["pads"][:axes], keys["pads"][axes:]
    x = numpy.pad(x, [(0, 0), (0, 0), *zip(before, after)], constant_values=fill)
    kernel, strides, dilations = keys["kernel_shape"], keys["strides"], keys["dilations"]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations)]
    count = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides)]
    taps = []
    for tap in itertools.product(*map(range, kernel)):
        places = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilations, strides, count)]
        taps.append(x[(slice(None), slice(None), *places)])
    return numpy.stack(taps, axis=2)


def convolution(net, x, name, keys):
    weight, (groups,) = net[f"{name}/weight"], keys["group"]
    outputs = []
    for part, kernels in zip(numpy.split(x, groups, axis=1), numpy.split(weight, groups)):
        outputs.append(numpy.einsum("nct...,oct->no...", windows(part, keys, 0), kernels.reshape(*kernels.shape[:2], -1)))
    y = numpy.concatenate(outputs, axis=1)
    return y + per_channel(net[f"{name}/bias"], y) if f"{name}/bias" in net else y


def per_channel(values, x):
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


def batch_norm(net, x, name, epsilon):
    scale, shift, mean, variance = (per_channel(net[f"{name}/{part}"], x)
                                    for part in ("scale", "shift", "mean", "variance"))
    return scale * (x - mean) / numpy.sqrt(variance + numpy.float32(epsilon)) + shift


def group_norm(net, x, name, groups, epsilon):
    parts = x.reshape(len(x), int(groups), -1)
    parts = parts - parts.mean(axis=-1, keepdims=True)
    parts = parts / numpy.sqrt((parts**2).mean(axis=-1, keepdims=True) + numpy.float32(epsilon))
    return per_channel(net[f"{name}/scale"], x) * parts.reshape(x.shape) + per_channel(net[f"{name}/shift"], x)


def dense(net, x, name, part="", weight=None):
    x = x @ net[weight or f"{name}/{part}weight"].T
    return x + net[f"{name}/{part}bias"] if f"{name}/{part}bias" in net else x


def norm(net, x, name, epsilon, centred):
    x = x - x.mean(axis=-1, keepdims=True) if centred else x
    x = net[f"{name}/weight"] * x / numpy.sqrt((x**2).mean(axis=-1, keepdims=True) + numpy.float32(epsilon))
    return x + net[f"{name}/bias"] if centred else x


def embedding(net, x, name):
    vectors = net[f"{name}/weight"][x.astype(int)]
    return vectors + net[f"{name}/position"] if f"{name}/position" in net else vectors


def attention(net, x, name, heads):
    samples, positions, width = x.shape
    qkv = dense(net, x, name, "qkv_").reshape(samples, positions, 3, heads, -1)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    scores = q @ k.transpose(0, 1, 3, 2) / numpy.float32(q.shape[-1])**numpy.float32(0.5)
    scores = numpy.where(numpy.tri(positions, dtype=bool), scores, numpy.float32(-numpy.inf))
    return dense(net, (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(samples, positions, width), name, "out_")


def forward(net, features):
    """Computes the outputs from an .npz with NumPy, as docs/export.md describes it."""
    x = (features - net["input/shift"]) * net["input/scale"]
    stack, exits = [], 0.0
    for operation in net["operations"]:
        kind, *arguments = operation.decode().split()
        keys = settings(arguments) if kind in ("convolution", "max-pool", "average-pool", "attention") else {}
        if kind == "dense":
            x = dense(net, x, arguments[0], weight=arguments[1].split("=")[1] if arguments[1:] else None)
        elif kind == "embedding":
            x = embedding(net, x, arguments[0])
        elif kind in ("layer-norm", "rms-norm"):
            x = norm(net, x, arguments[0], arguments[1].split("=")[1], kind == "layer-norm")
        elif kind == "attention":
            x = attention(net, x, arguments[0], *keys["heads"])
        elif kind == "reencode":
            x = softmax(x @ net[f"{arguments[0]}/decoder"].T) @ net[f"{arguments[0]}/labels"]
        elif kind == "reshape":
            x = x.reshape(-1, *map(int, arguments[0].split(",")))
        elif kind == "convolution":
            x = convolution(net, x, arguments[0], keys)
        elif kind == "max-pool":
            x = windows(x, keys, -numpy.inf).max(axis=2)
        elif kind == "average-pool":
            x = numpy.nanmean(windows(x, keys, numpy.nan), axis=2)
        elif kind == "global-average-pool":
            x = x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)
        elif kind == "batch-norm":
            x = batch_norm(net, x, arguments[0], arguments[1].split("=")[1])
        elif kind == "group-norm":
            x = group_norm(net, x, arguments[0], *(word.split("=")[1] for word in arguments[1:]))
        elif kind == "branch":
            stack.append(x)
        elif kind == "exit":
            logarithms = x - x.max(axis=-1, keepdims=True)
            logarithms -= numpy.log(numpy.exp(logarithms).sum(axis=-1, keepdims=True))
            exits = exits + float(arguments[0]) * logarithms
            x = stack.pop()
        elif kind == "sum":
            x = exits
        elif kind == "swap":
            x, stack[-1] = stack[-1], x
        elif kind == "add":
            x = x + stack.pop()
        else:
            x = ACTIVATIONS[kind](x, *map(float, arguments))
    return x


OWN = ("/shape", "/epsilon", "/factor")  # tensors of a model that are not parameters


@unittest.skipIf(onnxruntime is None, "there is no Python with numpy, onnx and onnxruntime: see PARTITA_EXPORT_PYTHON")
class Outputs(support.RunTest):
    """The same outputs as Partita's, to 1e-5 of the largest."""

    def exported(self, *overrides, stages=()):
        """The network in both formats, and Partita's own outputs."""
        train(self.folder / "run", self.deck, *overrides)
        for name in ("network.onnx", "network.npz"):
            self.assertDone(run("export", self.folder / "run", "-o", self.folder / name, *stages))
        predictions = self.folder / "predictions.npz"
        self.assertDone(run("evaluate", self.folder / "run", "--predictions", predictions, *stages))
        return self.folder / "network.onnx", numpy.load(self.folder / "network.npz"), numpy.load(predictions)

    def assertClose(self, found, expected):
        self.assertEqual((found.shape, found.dtype), (expected.shape, expected.dtype))
        self.assertLess(abs(found - expected).max(), 1e-5 * max(1, abs(expected).max()))

    def check(self, overrides, reencodings, stages=()):
        model_file, net, own = self.exported(*overrides, stages=stages)
        logits = own["logits"]
        self.assertGreater(logits.std(axis=0).max(), 1e-3)  # they depend on the features
        self.assertClose(forward(net, own["features"]).astype("f4"), logits)
        self.assertEqual(sum(name.startswith(b"reencode") for name in net["operations"]), reencodings)

        model = onnx.load(model_file)
        onnx.checker.check_model(model, full_check=True)
        for tensor in model.graph.initializer:
            if not tensor.name.startswith(("gelu/", "attention/", "group-norm/")) and not tensor.name.endswith(OWN):
                self.assertTrue(numpy.array_equal(onnx.numpy_helper.to_array(tensor), net[tensor.name]), tensor.name)
        session = onnxruntime.InferenceSession(model_file)
        names = [output.name for output in session.get_outputs()]
        found = dict(zip(names, session.run(names, {"features": own["features"]})))
        self.assertClose(found["logits"], logits)
        for output in session.get_outputs():
            self.assertEqual(tuple(output.shape[1:]), logits.shape[1:])
        for rows in (1, 7):
            self.assertClose(session.run(["logits"], {"features": own["features"][:rows]})[0], logits[:rows])
        if "training/loss=mse" in overrides and not stages:
            self.assertEqual(names, ["logits"])
        else:
            self.assertClose(found["probabilities"], softmax(found["logits"]))

    def test_networks_that_end_early(self):
        for labels in ("learned", "orthogonal"):
            for exits in ("none", "sum", "fitted"):
                deck = (f"strategy/labels={labels}", f"strategy/exits={exits}", "data/validation=0.2", *FOUR)
                for stages in (1, 3) if exits == "none" else (3, 4):
                    with self.subTest(labels=labels, exits=exits, stages=stages):
                        self.check(deck, 0, ("--stages", str(stages)))
        self.check(("strategy/labels=orthogonal", "training/loss=mse", *FOUR), 0, ("--stages", "1"))
        self.check((IMAGE_AT_THE_END, "strategy/cuts=[1]"), 0, ("--stages", "1"))

    def test_weights_of_exits(self):
        """Fitted weights of the whole network do not apply to one that ends early; a checkpoint has none."""
        folder = self.folder / "run"
        train(folder, self.deck, *FOUR, "strategy/exits=fitted", "data/validation=0.2", "checkpoint/every=2")
        for stages, equal in (("2", True), ("4", False)):
            self.assertDone(run("export", folder, "-o", self.folder / "x.npz", "--stages", stages))
            steps = [name.decode() for name in numpy.load(self.folder / "x.npz")["operations"]]
            weights = [float(step.split()[1]) for step in steps if step.startswith("exit ")]
            self.assertEqual(len(weights), int(stages))
            self.assertEqual(weights == [1 / len(weights)] * len(weights), equal)
        checkpoint = max((folder / "checkpoints").iterdir())
        self.assertIn("has no fitted weights of exits", run("evaluate", checkpoint).stderr)
        self.assertRefused(run("evaluate", folder, "strategy/stages=2", "strategy/cuts=[2]"),
                           "has the weights of 4 exits, but the network has 2 stages")

    def test_an_early_end_has_the_accuracy_of_its_stage(self):
        for exits in ("none", "sum", "fitted"):
            summary = train(self.folder / "run", self.deck, *FOUR, f"strategy/exits={exits}", "data/validation=0.2", ranks=2)
            accuracy = summary["stage_accuracy"]
            self.assertEqual(len(accuracy), 4)
            for stages, ranks in ((1, 4), (2, 1), (2, 2), (3, 4), (4, 2)):
                shown = run("evaluate", self.folder / "run", "--stages", str(stages), ranks=ranks)
                self.assertDone(shown)
                found = [float(value) for value in re.findall(r"(\d+\.\d+) %   loss", shown.stdout)]
                self.assertEqual(found, [round(100 * value, 2) for value in accuracy[:stages]])
                alone = [float(value) for value in re.findall(r"alone +(\d+\.\d+) %$", shown.stdout, re.MULTILINE)]
                self.assertEqual(alone, [round(100 * value, 2) for value in summary.get("stage_alone", [])[:stages]])

    def test_refused_numbers_of_stages(self):
        for overrides, stages, message in (
                ((), "3", "--stages 3: the network has 2 stages"),
                ((JOINT,), "2", "--stages 2: the network has 1 stage"),
                (("strategy/kind=pipeline",), "1", "--stages 1: only the last stage predicts classes"),
                (("strategy/loss=mse",), "1", '--stages 1: stages trained with strategy/loss = "mse" give no logits')):
            train(self.folder / "run", self.deck, *overrides)
            for command in (("evaluate", self.folder / "run"),
                            ("export", self.folder / "run", "-o", self.folder / "x.npz")):
                self.assertRefused(run(*command, "--stages", stages), message)

    def test_metadata(self):
        model_file, net, _ = self.exported()
        metadata = onnxruntime.InferenceSession(model_file).get_modelmeta()
        self.assertEqual(metadata.custom_metadata_map["deck"], net["deck"].item().decode())
        self.assertEqual(metadata.custom_metadata_map["parameters_hash"], net["parameters_hash"].item().decode())
        self.assertEqual(metadata.producer_name, "partita")

    def test_data_of_a_filter_that_is_not_installed(self):
        """h5py brings LZF, which HDF5 itself does not have."""
        path = self.folder / "lzf.h5"
        with h5py.File(path, "w") as file:
            rows = numpy.repeat(numpy.arange(60) % 3, 8).reshape(60, 8).astype("f4")
            file.create_dataset("features", data=rows, compression="lzf")
            file["labels"] = numpy.arange(60) % 3
        result = run("train", self.deck, "data/kind=hdf5", f"data/train_file={path}", f"data/test_file={path}",
                     "data/classes=0", "data/samples=0", "data/test_samples=0", "training/batch=20")
        self.assertRefused(result, path, "needs the HDF5 filter 'lzf', which is not installed")

    def test_samples_without_labels(self):
        """They have the same outputs as with labels."""
        images = numpy.random.default_rng(1).integers(0, 256, (60, 1, 8, 8), dtype=numpy.uint8)
        labels = numpy.arange(60) % 3
        for name, labelled in (("train.h5", True), ("test.h5", True), ("new.h5", False)):
            with h5py.File(self.folder / name, "w") as file:
                file["features"] = images
                if labelled:
                    file["labels"] = labels
        train(self.folder / "run", self.deck, "data/kind=hdf5", f"data/path={self.folder}", "data/train_file=train.h5",
              "data/test_file=test.h5", "data/classes=0", "data/samples=0", "data/test_samples=0", "training/batch=20")
        (self.folder / "train.h5").unlink()
        evaluate = ("evaluate", self.folder / "run")
        self.assertRefused(run(*evaluate, "data/test_file=new.h5"), "new.h5: no data set 'labels'")
        self.assertDone(run(*evaluate, "--predictions", self.folder / "test.npz"))
        for ranks in (1, 2, 4):
            path = self.folder / f"new{ranks}.npz"
            result = run(*evaluate, "data/test_file=new.h5", "--predictions", path, ranks=ranks)
            self.assertDone(result)
            self.assertIn("no test accuracy: the 60 samples of the test set have no labels", result.stdout)
            self.assertNotIn("loss", result.stdout)
            with numpy.load(self.folder / "test.npz") as known, numpy.load(path) as found:
                self.assertEqual({*known} - {*found}, {"labels"})
                self.assertTrue((found["features"] == known["features"]).all())
                self.assertClose(found["logits"], known["logits"])

    def test_numbers_of_16_bits(self):
        """Files contain the float masters, so outputs differ by about as much as docs/export.md says."""
        for precision, most in (("fp16", 1.5e-3), ("bf16", 1.5e-2)):
            _, net, own = self.exported(JOINT, f"run/precision={precision}")
            difference = abs(forward(net, own["features"]) - own["logits"]).max() / abs(own["logits"]).max()
            self.assertGreater(difference, 1e-5)
            self.assertLess(difference, most)

    def test_the_page(self):
        """The programs of docs/export.md run and print the accuracy."""
        accuracy = train(self.folder / "run", self.deck)["test_accuracy"]
        self.exported()
        programs = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        ran = 0
        for program in programs:
            if "predictions.npz" not in program:
                continue  # h5py's
            result = subprocess.run([sys.executable, "-c", program], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertAlmostEqual(float(result.stdout.split()[0]), accuracy, places=6)
            ran += 1
        self.assertEqual(ran, 2)


for _name, _case in NETWORKS.items():
    setattr(Outputs, f"test_{_name}", lambda self, case=_case: self.check(*case))

if __name__ == "__main__":
    support.main()
