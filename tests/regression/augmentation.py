"""Cropped and mirrored training images: the same on any ranks, only while training, and only where they make sense."""

import csv

import support
from support import run, train

AUGMENTED = ["data/crop=3", "data/flip=true"]
FOUR = ["strategy/stages=4", "strategy/cuts=flops"]
STILL = ["optimiser/learning_rate=1e-12", "optimiser/schedule=constant"]  # parameters as they start, to the last digits
SAMPLES = '[data]\nkind = "{kind}"\ntrain_file = "{file}"\nvalidation = 0.2\n[network]\nlayers = [{first}{{ type = "dense" }}]\n'


class Augmentation(support.RunTest):
    def trained(self, *overrides, ranks=1):
        return train(self.folder / "run", self.deck, *overrides, ranks=ranks)

    def losses(self, *overrides):
        """Mean loss by event and stage of a run that learns nothing."""
        self.trained(*STILL, *overrides)
        values = {}
        with (self.folder / "run" / "history.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                values.setdefault((row["event"], row["stage"]), []).append(float(row["loss"]))
        return {key: sum(each) / len(each) for key, each in values.items()}

    def test_the_same_on_any_ranks(self):
        for overrides in (["strategy/input=relay"], ["strategy/input=frozen", "strategy/recovery_epochs=1"],
                          ["strategy/kind=pipeline", "strategy/microbatches=3"]):
            with self.subTest(overrides=overrides):
                plain = self.trained(*FOUR, *overrides)["parameters_hash"]
                hashes = {self.trained(*FOUR, *overrides, *AUGMENTED, *more, ranks=ranks)["parameters_hash"]
                          for ranks, *more in ((1,), (2, "data/prefetch=0"), (4, "data/prefetch=5"))}
                self.assertEqual(len(hashes), 1)
                self.assertNotIn(plain, hashes)

    def test_the_same_epoch_on_replicas(self):
        """Sums of gradients differ in their last bits only."""
        losses = [self.trained("strategy/kind=joint", "strategy/replicas=0", *AUGMENTED, ranks=ranks)["test_loss"]
                  for ranks in (1, 2, 4)]
        plain = self.trained("strategy/kind=joint")["test_loss"]
        for loss in losses[1:]:
            self.assertAlmostEqual(loss, losses[0], delta=1e-3)
        self.assertGreater(abs(plain - losses[0]), 1e-2)

    def test_only_batches_of_the_training_change(self):
        """The first stage learns from other images, the later ones as docs/image-data.md says; evaluations stay."""
        for kind, second_changes in (("relay", True), ("frozen", False), ("free", False)):
            with self.subTest(input=kind):
                overrides = [f"strategy/input={kind}", "data/validation=0.3"]
                plain, augmented = self.losses(*overrides), self.losses(*overrides, *AUGMENTED)
                self.assertEqual(set(plain), set(augmented))
                changed = {key for key in plain if abs(plain[key] - augmented[key]) > 1e-6 * plain[key]}
                self.assertEqual(changed, {("step", "1")} | ({("step", "2")} if second_changes else set()))

    def test_evaluate_uses_images_as_they_are(self):
        self.trained("strategy/kind=joint", *AUGMENTED)
        shown = [run("evaluate", self.folder / "run", *more).stdout.split("test accuracy")[1]
                 for more in ([], ["data/crop=0", "data/flip=false"])]
        self.assertEqual(*shown)

    def test_changed_on_restart(self):
        whole = self.trained(*AUGMENTED, "strategy/kind=joint", "checkpoint/every=15")["parameters_hash"]
        first = self.folder / "run" / "checkpoints" / "step-000000015.h5"
        for overrides, line in ((["data/crop=1"], "changed: data/crop: 3 -> 1"),
                                (["data/flip=false"], "changed: data/flip: true -> false")):
            result = run("train", "-r", first, "-d", self.folder / "other", "--overwrite", *overrides)
            self.assertDone(result)
            self.assertIn(line, result.stdout)
            self.assertNotIn(whole, result.stdout)

    def test_refused(self):
        def refuse(deck, overrides, *parts):
            for dry in (["-n"], []):
                self.assertRefused(run("train", deck, *overrides, *dry), *parts)

        refuse(self.deck, ["data/crop=12"], "data/crop: 12 is too large for images of 12 x 12 pixels (allowed 0 to 11)")
        refuse(self.deck, ["data/crop=-1"], "data/crop", "is out of range")
        refuse(self.deck, ["data/flip=1"], "data/flip")
        lines = "".join(f"{i % 3} 1:0.5 {2 + i % 4}:1\n" for i in range(400))
        vectors = self.write("vectors.toml", SAMPLES.format(kind="libsvm", file=self.write("vectors.txt", lines), first=""))
        needs = "needs images of channels x rows x columns, but samples have the shape "
        refuse(vectors, ["data/crop=1"], "data/crop: " + needs + "5")
        refuse(vectors, ["data/flip=true"], "data/flip: " + needs + "5")
        tokens = self.write("text.toml", SAMPLES.format(kind="text", file=self.write("text.txt", "some words " * 8000),
                                                        first='{ type = "embedding", width = 8 }, '))
        refuse(tokens, ["data/flip=true"], "data/flip: " + needs + "128")

    def test_colour_images(self):
        """The deck of CIFAR-10 on random images: crops of three channels, on one rank and on two."""
        noise = ["data/kind=noise", "data/channels=3", "data/image_size=16", "data/samples=48", "data/test_samples=8",
                 "training/batch=16", "run/steps=4"]
        deck = support.DECKS / "resnet20-cifar10.toml"
        pipeline = ["strategy/kind=pipeline", "strategy/cuts=[5]"]
        hashes = [train(self.folder / "run", deck, *noise, *more, ranks=ranks)["parameters_hash"]
                  for ranks, *more in ((1,), (2, *pipeline), (1, "data/crop=0"), (1, "data/flip=false"))]
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(len(set(hashes)), 3)


if __name__ == "__main__":
    support.main()
