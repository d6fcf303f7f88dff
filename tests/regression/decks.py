"""Every deck of input-decks passes the dry run, which prints the effective deck and the partition of the network."""

import re

import support
from support import DECKS, run

# Parameters and layers: 784-256x5-47 and 784-256x5-10, convolution networks, and transformers.
NETWORKS = {"hogbatch-w8a": (55298, 3), "hogbatch-a9a": (32514, 3), "hogbatch-mnist": (269322, 3),
            "glyphs": (476207, 6), "emnist47": (476207, 6), "mnist": (466698, 6), "lenet-mnist": (431080, 6),
            "resnet-emnist": (149471, 7), "resnet20-cifar10": (272474, 13), "vgg-16": (138357544, 21), "resnet-50": (25557032, 21),
            "paradl-vgg16": (169814824, 23), "paradl-resnet-50": (25557032, 21), "paradl-cosmoflow": (2128064, 16),
            "gpt-char": (4787230, 10), "gpt2-small": (124439808, 16), "gpt2-medium": (354823168, 28)}
COLOUR = ["data/kind=noise", "data/channels=3", "data/image_size=32"]  # images that need no files
STAGE_LINE = re.compile(r"^# +(\d+) +(\d+) +(\d+)-(\d+) +(\d+) ", re.MULTILINE)  # rank, stage, layers, parameters


class Decks(support.RunTest):
    def overrides(self, deck):
        """Where the deck's files are, and the name of its data set."""
        if 'kind = "hdf5"' in deck.read_text():
            return COLOUR, "noise"
        found = re.search(r'^path = "data/(\w+)"', deck.read_text(), re.MULTILINE)
        return ([f"data/path={self.data(found[1])}"], found[1]) if found else ([], "glyphs")

    def dry_run(self, deck, *arguments):
        result = run("train", deck, "-n", *arguments)
        self.assertDone(result)
        return result.stdout

    def check(self, deck):
        overrides, data_set = self.overrides(deck)
        text = self.dry_run(deck, *overrides, "--ranks", 4)
        self.assertIn("on 4 ranks", text)
        stages = [tuple(map(int, match)) for match in STAGE_LINE.findall(text)]
        self.assertEqual([stage for _, stage, *_ in stages], list(range(1, len(stages) + 1)))
        parameters, layers = NETWORKS.get(deck.stem) or NETWORKS[data_set]
        self.assertEqual(sum(own for *_, own in stages), parameters)
        first_layers = [first for _, _, first, _, _ in stages]
        last_layers = [last for _, _, _, last, _ in stages]
        self.assertEqual(first_layers, [0] + [last + 1 for last in last_layers[:-1]])
        self.assertEqual(last_layers[-1], layers - 1)
        # The printed deck is valid, and means the same.
        self.assertEqual(self.dry_run(self.write("effective.toml", text), "--ranks", 4), text)

    def test_every_strategy(self):
        """Two steps each, on data that need no files."""
        glyphs = ["data/kind=glyphs", "data/samples=64", "data/test_samples=16", "training/batch=16"]
        colour = [*COLOUR, "data/samples=16", "data/test_samples=4", "training/batch=8"]
        text = ["data/samples=16", "data/test_samples=4", "data/sequence=16", "training/batch=4"]
        pipeline = ["strategy/kind=pipeline", "strategy/microbatches=2"]
        for deck, data in (("lenet-mnist", glyphs), ("resnet-emnist", glyphs), ("resnet20-cifar10", colour),
                           ("gpt-char", text)):
            found = {}
            for name, ranks, *overrides in (("joint", 1, "strategy/kind=joint", "strategy/microbatches=2"),
                                            ("pipeline", 2, *pipeline), ("relay", 2, "strategy/input=relay"),
                                            ("frozen", 2, "strategy/input=frozen"), ("free", 2, "strategy/input=free")):
                if name in ("relay", "frozen", "free"):
                    overrides = ["strategy/kind=sil", *overrides]
                if ranks > 1:
                    overrides += ["strategy/stages=2", "strategy/cuts=flops"]
                with self.subTest(deck=deck, strategy=name):
                    found[name] = support.train(self.folder / f"{deck}-{name}", DECKS / f"{deck}.toml", *data,
                                                *overrides, "run/steps=2", ranks=ranks)["parameters_hash"]
            self.assertEqual(found["pipeline"], found["joint"])
            self.assertEqual(len(set(found.values())), len(found) - 1)

    def test_there_are_decks(self):
        self.assertGreaterEqual(len(list(DECKS.glob("*.toml"))), 10)

    def test_small_machines(self):
        text = self.dry_run(DECKS / "demo.toml")
        self.assertIn("on 1 rank\n", text)
        self.assertEqual({rank for rank, *_ in STAGE_LINE.findall(text)}, {"0"})

    def test_cuts_without_effect(self):
        said = "strategy/stages and strategy/cuts have no effect with strategy/kind 'joint'"
        deck = self.write("demo.toml", (DECKS / "demo.toml").read_text().replace('kind = "sil"', 'kind = "joint"'))
        self.assertIn(said, run("train", deck, "strategy/stages=3", "-n").stdout)
        self.assertIn("strategy/parts_grid has no effect", run("train", deck, "strategy/parts_grid=[2,2]", "-n").stdout)
        self.assertNotIn(said, run("train", DECKS / "demo.toml", "-n").stdout)
        deck = self.write("demo.toml", (DECKS / "demo.toml").read_text().replace('kind = "sil"', "#"))
        self.assertRefused(run("train", deck, "-n"), "has no effect without strategy/kind")

    def test_overrides_without_effect(self):
        key = "strategy/warmup_steps"
        for kind in ("sil", "pipeline", "local-sgd"):
            result = run("train", DECKS / "demo.toml", f"strategy/kind={kind}", f"{key}=400", f"{key}=500", "-n",
                         "--ranks", 2)
            self.assertEqual(result.returncode, 0, result.stderr)
            said = [f"warning: {key} on the command line has no effect with strategy/kind '{kind}'"]
            self.assertEqual([line for line in support.complaints(result) if key in line],
                             said if kind != "local-sgd" else [])
        for key, value, setting in (("optimiser/momentum", 0.5, "optimiser/kind 'adam'"),
                                    ("optimiser/step_factor", 0.5, "optimiser/schedule 'cosine'"),
                                    ("data/channels", 3, "data/kind 'glyphs'")):
            result = run("train", self.deck, f"{key}={value}", "-n")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(support.complaints(result),
                             [f"warning: {key} on the command line has no effect with {setting}"])
        effective = self.write("effective.toml", run("train", DECKS / "demo.toml", "-n").stdout)
        self.assertNotIn("has no effect", run("train", effective, "-n").stderr)

    def test_ranks_that_do_not_fit(self):
        self.assertRefused(run("train", DECKS / "demo.toml", "-n", "--ranks", 3), "3 ranks do not fit 2 stages")


def test_of(deck):
    return lambda self: self.check(deck)


for path in sorted(DECKS.glob("*.toml")):
    setattr(Decks, f"test_{path.stem.replace('-', '_')}", test_of(path))

if __name__ == "__main__":
    support.main()
