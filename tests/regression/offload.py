"""State of the optimiser outside the device, and 16-bit numbers: checkpoints fit any other location of the state, and a
run that continues has the same bits as an uninterrupted one."""

import shutil

import support
from support import IMAGES, checkpoints, run, train

NONE, HOST, FILE = ([f"optimiser/offload={where}", "optimiser/offload_bucket=1000"]
                    for where in ("none", "host", "file"))

# Tokens, and a head whose weights are the table of the embedding.
TIED = ["data/kind=grammar", "data/classes=0", "data/sequence=12", """network/layers=[
  { type = "embedding", width = 16, positions = true },
  { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 2 }] },
  { type = "layer-norm" }, { type = "dense", tied = true }]""".replace("\n", "")]


class Offload(support.RunTest):
    def whole_run(self, *overrides, ranks=1):
        folder = self.folder / "whole"
        wanted = train(folder, self.deck, *overrides, "checkpoint/every=1", "checkpoint/keep=1000", ranks=ranks)
        return folder, wanted["parameters_hash"]

    def go_on(self, whole, step, *overrides, ranks=1):
        folder = self.folder / f"from-{step}"
        folder.mkdir()
        (folder / "checkpoints").mkdir()
        shutil.copy(checkpoints(whole)[step], folder / "checkpoints")
        found = train(folder, self.deck, *overrides, "-r", "latest", ranks=ranks)
        left = [path.name for path in folder.iterdir() if "optimiser" in path.name]
        self.assertEqual(left, [])
        shutil.rmtree(folder)
        return found

    def test_a_checkpoint_fits_any_placement(self):
        for deck, ranks in ((["strategy/input=relay"], 1), (["strategy/kind=joint", "strategy/replicas=2"], 2)):
            whole, wanted = self.whole_run(*deck, *FILE, ranks=ranks)
            for step, where in ((1, NONE), (7, HOST), (16, FILE), (29, NONE)):
                with self.subTest(deck=deck, step=step, where=where):
                    self.assertEqual(self.go_on(whole, step, *deck, *where, ranks=ranks)["parameters_hash"], wanted)
            shutil.rmtree(whole)
        whole, wanted = self.whole_run(*deck, *NONE, ranks=ranks)
        self.assertEqual(self.go_on(whole, 11, *deck, *FILE, ranks=ranks)["parameters_hash"], wanted)

    def test_16_bits_continue_bit_for_bit(self):
        """Loss scale and steps that were taken are part of the state; small batches overflow at first."""
        fp16 = ["run/precision=fp16", "training/batch=4", "run/steps=30"]
        images = [*fp16, "training/batch=2", IMAGES]  # the eleventh step overflows, and must leave no statistics
        variants = ((["run/precision=bf16", "strategy/input=relay"], 2),
                    (["run/precision=bf16", "strategy/kind=pipeline", "strategy/microbatches=3"], 2),
                    ([*fp16, "strategy/kind=joint", "strategy/replicas=2", "strategy/wire=fp16"], 2),
                    ([*fp16, "strategy/input=frozen", "optimiser/learning_rate=0.01"], 1),
                    ([*images, "strategy/kind=joint", "strategy/replicas=2", "strategy/wire=fp16"], 2),
                    ([*images, "strategy/kind=pipeline", "strategy/cuts=[2]", "strategy/microbatches=2"], 2),
                    ([*fp16, "strategy/kind=joint", *TIED], 1))
        for deck, ranks in variants:
            whole, wanted = self.whole_run(*deck, *FILE, ranks=ranks)
            for step, where in ((1, FILE), (8, NONE), (15, HOST), (23, FILE)):
                with self.subTest(deck=deck, step=step, where=where):
                    self.assertEqual(self.go_on(whole, step, *deck, *where, ranks=ranks)["parameters_hash"], wanted)
            shutil.rmtree(whole)

    def test_many_microbatches_in_16_bits(self):
        """A sum that is rounded after each term loses small terms."""
        for precision, microbatches, lost in (("bf16", 129, True), ("bf16", 128, False), ("fp16", 1025, True),
                                              ("fp16", 1024, False), ("float", 2000, False)):
            result = run("train", self.deck, "-n", "strategy/kind=pipeline", "training/batch=2000", "data/samples=4000",
                         f"strategy/microbatches={microbatches}", f"run/precision={precision}", ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            expected = f"the gradients of {microbatches} microbatches are added up in {precision}"
            self.assertEqual(expected in result.stderr, lost, result.stderr)

    def test_another_precision_continues_from_the_masters(self):
        """One step in bf16 changes little of what float has learnt; without the masters nothing would be left of it."""
        whole, _ = self.whole_run("run/precision=float")
        wanted = support.summary_of(whole)["test_loss"]
        last = max(checkpoints(whole)) - 1
        self.assertAlmostEqual(self.go_on(whole, last, "run/precision=bf16")["test_loss"] / wanted, 1, delta=0.01)
        untrained = train(self.folder / "untrained", self.deck, "run/precision=bf16", "run/steps=1")["test_loss"]
        self.assertGreater(untrained / wanted, 1.02)

    def test_a_folder_that_takes_no_file(self):
        result = support.run("train", self.deck, *FILE, "optimiser/offload_directory=/nowhere/at/all", ranks=2)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(support.complaints(result),
                         ["partita: optimiser/offload_directory: cannot create a file in '/nowhere/at/all' for the optimiser state: No such file or directory"])

    def test_the_plan_shows_what_is_offloaded(self):
        result = support.run("train", self.deck, *FILE, "-n")
        self.assertIn("# optimiser state in files, up to ", result.stdout)
        result = support.run("train", self.deck, "run/precision=bf16", "-n")
        self.assertIn("# 16-bit numbers (bf16)", result.stdout)

    def test_offload_that_needs_more_memory_causes_a_warning(self):
        on_host = support.run("train", self.deck, *HOST, "-n")  # of a build for hosts: the state is in the same memory
        self.assertIn("use file or none", on_host.stderr)
        for overrides, expected in ((FILE, 0), (FILE[:1], 1)):
            with self.subTest(overrides=overrides):
                result = support.run("train", self.deck, *overrides, "-n")
                self.assertEqual(len(support.complaints(result)), expected, result.stderr)
                self.assertEqual(result.stderr.count("without offload only"), expected)


if __name__ == "__main__":
    support.main()
