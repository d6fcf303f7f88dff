"""Runs that continue with another grid, cut or strategy: what can carry over does, and the run reports the rest."""

import csv
import re
import shutil

import support
from support import run, train

STEPS = 30  # of the small deck: two epochs of 15


class Elsewhere(support.RunTest):
    def kept(self, *overrides, ranks=1, every=10):
        """A finished run, and its directory with the checkpoint in the middle alone."""
        folder = self.folder / "kept"
        summary = train(folder, self.deck, f"checkpoint/every={every}", "checkpoint/keep=100", *overrides, ranks=ranks)
        return summary, folder / "checkpoints" / "step-000000010.h5"

    def go_on(self, checkpoint, *overrides, ranks=1, deck=None):
        folder = self.folder / f"on-{len(list(self.folder.iterdir()))}"
        result = run("train", deck or self.deck, "-d", folder, "-r", checkpoint, *overrides, ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return support.summary_of(folder), result

    def go_on_there(self, *overrides):
        """In the directory of the run itself."""
        folder = self.folder / "kept"
        result = run("train", self.deck, "-d", folder, "-r", "latest", *overrides)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return support.summary_of(folder), result

    def test_latest_passes_over_what_is_broken(self):
        summary, _ = self.kept()
        newest = support.checkpoints(self.folder / "kept")[STEPS]
        newest.write_bytes(newest.read_bytes()[:-1000])
        found, result = self.go_on_there(f"checkpoint/every={STEPS}")
        lines = support.complaints(result)
        self.assertIn("warning: skipped: ", lines[0])
        self.assertIn(newest.name, lines[0])
        self.assertIn("was renamed to", lines[1])
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("step-000000020.h5 at step 20", result.stdout)
        self.assertEqual(found["parameters_hash"], summary["parameters_hash"])

    def test_stages_assigned_to_other_ranks(self):
        for method in ("relay", "free", "frozen"):
            shutil.rmtree(self.folder / "kept", ignore_errors=True)
            deal = [f"strategy/input={method}", "strategy/stages=4", "strategy/cuts=flops"]
            summary, checkpoint = self.kept(*deal, ranks=2)
            for ranks in (1, 2, 4):
                with self.subTest(method=method, ranks=ranks):
                    found, result = self.go_on(checkpoint, *deal, ranks=ranks)
                    self.assertEqual(found["parameters_hash"], summary["parameters_hash"])
                    self.assertNotIn("carry over", result.stderr)

    def test_other_replicas(self):
        summary, checkpoint = self.kept("strategy/replicas=2", ranks=4)
        for replicas, ranks in ((1, 2), (4, 4)):
            overrides = [f"strategy/replicas={replicas}"] + (["strategy/kind=joint"] if replicas == 4 else [])
            found, result = self.go_on(checkpoint, *overrides, ranks=ranks)
            self.assertEqual(found["grid"]["replicas"], replicas)
            self.assertIn(f"replicas: 2 -> {replicas}", result.stdout)
            if replicas == 1:  # the same run but for the order of sums
                self.assertLess(abs(found["test_accuracy"] - summary["test_accuracy"]), 0.1)

    def test_replicas_that_learn_alone_meet_if_no_steps_are_left(self):
        alone = ["strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=7", "optimiser/schedule=constant"]
        _, checkpoint = self.kept(*alone, "run/steps=14", ranks=2)
        shorter = train(self.folder / "shorter", self.deck, *alone, "run/steps=10", "checkpoint/every=10", ranks=2)
        found, _ = self.go_on(checkpoint, *alone, "run/steps=10", ranks=2)
        self.assertEqual(found["steps"], 10)
        self.assertEqual(found["parameters_hash"], shorter["parameters_hash"])
        met = self.folder / "shorter" / "checkpoints" / "step-000000010.h5"
        again, _ = self.go_on(met, *alone, "run/steps=10", ranks=2)
        self.assertEqual(again["parameters_hash"], shorter["parameters_hash"])

    def test_other_cuts_keep_step_and_optimiser(self):
        _, checkpoint = self.kept()
        found, result = self.go_on(checkpoint, "strategy/cuts=[2]", "run/log_every=1")
        self.assertIn("the stages have changed", result.stderr)
        self.assertIn(f"at step 10 of {STEPS}", result.stdout)
        self.assertIn("changed: strategy/cuts: [3] -> [2]", result.stdout)
        self.assertEqual(found["steps"], STEPS)

    def test_other_heads_begin_anew(self):
        stages = ["strategy/stages=3", "strategy/cuts=[1,3]", "strategy/labels=learned"]
        _, checkpoint = self.kept(*stages, "strategy/lookahead=4", "strategy/refresh=5")
        for override, same in (("strategy/lookahead=3", True), ("strategy/refresh=7", True), ("strategy/refresh=0", True),
                               ("strategy/joint_every=2", True), ("strategy/lookahead=0", False),
                               ("strategy/head=[{type='layer-norm'}]", False), ("strategy/reconstruct=0.1", False)):
            with self.subTest(override):
                _, result = self.go_on(checkpoint, *stages, "strategy/lookahead=4", "strategy/refresh=5", override)
                self.assertEqual("the heads of stages have changed" in result.stderr, not same, result.stderr)
                self.assertIn(f"at step 10 of {STEPS}", result.stdout)

    def test_another_seed_draws_other_fixed_labels(self):
        for labels in ("learned", "orthogonal"):
            with self.subTest(labels):
                _, checkpoint = self.kept(f"strategy/labels={labels}", "--overwrite")
                _, result = self.go_on(checkpoint, f"strategy/labels={labels}", "run/seed=8")
                self.assertEqual("and with it the fixed labels" in result.stderr, labels != "learned", result.stderr)

    def test_another_strategy_continues(self):
        """Stages first, then the whole network: better than the stages alone."""
        summary, checkpoint = self.kept()
        found, result = self.go_on(checkpoint, "strategy/kind=joint", "run/epochs=4")
        self.assertIn("the stages have changed", result.stderr)
        self.assertEqual(found["strategy"], "joint")
        self.assertGreater(found["test_accuracy"], summary["test_accuracy"])

    def test_stages_without_labels_lose_nothing(self):
        """Between `pipeline` and `joint` there are no labels or heads: the run ends with the same bits, without a warning."""
        pipeline = ["strategy/kind=pipeline", "strategy/microbatches=4", "strategy/cuts=flops"]
        summary, checkpoint = self.kept(*pipeline, "strategy/stages=2", ranks=2)
        for ranks, other in ((1, ["strategy/kind=joint", "strategy/microbatches=4"]), (2, [*pipeline, "strategy/stages=4"])):
            found, result = self.go_on(checkpoint, *other, ranks=ranks)
            self.assertEqual(support.complaints(result), [])
            self.assertEqual(found["parameters_hash"], summary["parameters_hash"])
        _, result = self.go_on(checkpoint)  # sil, whose labels are new
        self.assertIn("the stages have changed", result.stderr)

    def test_joined_stages_have_one_loss_scale(self):
        """Each had reached its own; gradients that cross a cut have the scale of the stage after it."""
        deck = ["run/precision=fp16", "training/batch=1", "run/steps=30", "strategy/input=free"]
        _, checkpoint = self.kept(*deck)
        self.assertEqual(len(set(self.scales(checkpoint))), 2)
        self.go_on(checkpoint, *deck, "strategy/kind=pipeline", "run/steps=11", "checkpoint/every=1", ranks=2)
        (found,) = self.folder.glob("on-*/checkpoints/*11.h5")
        self.assertEqual(len(set(self.scales(found))), 1)
        self.assertLessEqual(self.scales(found)[0], min(self.scales(checkpoint)))

    def scales(self, checkpoint):
        return [int(scale) for scale in re.findall(r"loss scale (\d+)", run("info", checkpoint).stdout)]

    def test_frozen_stages_give_their_parameters_only(self):
        _, checkpoint = self.kept("strategy/input=frozen")
        _, result = self.go_on(checkpoint, "strategy/kind=joint", "run/epochs=1")
        self.assertIn("only the parameters carry over, and training starts from the beginning", result.stderr)
        self.assertIn("at step 0 of 15", result.stdout)

    def test_another_optimiser_begins_anew(self):
        _, checkpoint = self.kept()
        _, result = self.go_on(checkpoint, "optimiser/kind=sgd", "optimiser/learning_rate=0.01")
        self.assertIn("the kind of optimiser has changed", result.stderr)

    def test_another_batch_and_fewer_samples(self):
        """The fraction of the epoch is kept; no other number of batches breaks the run."""
        _, checkpoint = self.kept()
        for override, step, steps in (("training/batch=20", 20, 60), ("data/samples=300", 4, 14), ("run/epochs=6", 10, 90)):
            with self.subTest(override):
                _, result = self.go_on(checkpoint, override)
                self.assertIn(f"at step {step} of {steps}", result.stdout)
                self.assertEqual("different batches" in result.stderr, "epochs" not in override)

    def test_other_data_in_the_same_directory(self):
        """The run continues from a checkpoint of a later step than the one at which it continues."""
        _, checkpoint = self.kept(every=STEPS)
        _, result = self.go_on_there("data/samples=400", "run/epochs=3")
        self.assertIn("at step 20 of 30", result.stdout)
        self.assertIn("an epoch now has 10 steps instead of 15", result.stderr)
        names = sorted(path.name for path in checkpoint.parent.iterdir())  # a new one at once, then the old one goes
        self.assertEqual(names, ["step-000000021.h5", f"step-{STEPS:09}.h5.superseded"])

    def test_a_shorter_run_is_refused(self):
        """The parameters of step 30 are not those that a run of 15 steps ends with."""
        _, checkpoint = self.kept(every=STEPS)
        result = run("train", self.deck, "-d", self.folder / "kept", "-r", "latest", "run/epochs=1")
        self.assertRefused(result, "is at step 30, but the deck ends at step 15")
        self.assertTrue((self.folder / "kept" / "summary.json").exists())

    def test_more_training_before_a_recovery_begins_anew(self):
        overrides = ["strategy/recovery_epochs=1", "checkpoint/every=40", "checkpoint/keep=9"]
        train(self.folder / "kept", self.deck, *overrides)
        result = run("train", self.deck, *overrides, "run/epochs=3", "-r",
                     self.folder / "kept" / "checkpoints" / "step-000000040.h5", "-d", self.folder / "on")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("only the parameters carry over", result.stderr)
        self.assertEqual(support.summary_of(self.folder / "on")["steps"], 45)

    def test_the_same_epochs_of_other_data_are_reported(self):
        _, checkpoint = self.kept()
        _, result = self.go_on(checkpoint, "data/samples=610")
        self.assertIn("the training set now has 610 samples instead of 600", result.stderr)

    def test_as_many_samples_of_other_data_are_reported(self):
        _, checkpoint = self.kept()
        _, result = self.go_on(checkpoint, "data/noise=0.3")
        self.assertIn("was trained on features with another mean or deviation", result.stderr)

    def test_a_network_without_a_trained_bias_is_refused(self):
        _, checkpoint = self.kept("strategy/kind=joint")
        layers = 'network/layers=[{type="dense", units=32, activation="relu", repeat=5, bias=false}, {type="dense"}]'
        for file in (checkpoint, self.folder / "kept" / "parameters.h5"):
            result = run("train", self.deck, "strategy/kind=joint", layers, "-d", self.folder / "on", "-r", file)
            self.assertRefused(result, "has '/parameters/layer0.dense/bias', which the network of the deck lacks")
        self.assertRefused(run("evaluate", self.folder / "kept", layers), "which the network of the deck lacks")

    def test_replicas_that_have_not_met(self):
        said = "continues with the values of the first one"
        for step, expected in ((10, False), (12, True)):
            folder = self.folder / f"local-{step}"
            train(folder, self.deck, "strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=5",
                  "checkpoint/every=2", "checkpoint/keep=100", ranks=2)
            for ranks in (1, 2):
                _, result = self.go_on(support.checkpoints(folder)[step], "strategy/kind=joint",
                                        f"strategy/replicas={ranks}", ranks=ranks)
                self.assertEqual(said in result.stderr, expected, result.stderr)
                self.assertNotIn("different order", result.stdout if expected else "")
        for keys in ("strategy/every=8", "strategy/warmup_steps=30"):  # they meet at the end, and in the warm-up
            folder = self.folder / f"local-{keys[9:13]}"
            train(folder, self.deck, "strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=8", keys,
                  "checkpoint/every=10", "checkpoint/keep=100", ranks=2)
            for step in (30,) if "every" in keys else (10, 20, 30):
                _, result = self.go_on(support.checkpoints(folder)[step], "strategy/kind=joint", "run/epochs=3")
                self.assertNotIn(said, result.stderr)

    def test_other_fixed_labels(self):
        _, checkpoint = self.kept("strategy/labels=orthogonal")
        for keys, expected in ((("strategy/kappa=2",), True), (("strategy/labels=gaussian",), True), ((), False)):
            _, result = self.go_on(checkpoint, "strategy/labels=orthogonal", *keys)
            self.assertEqual("have changed with the keys of the deck" in result.stderr, expected, result.stderr)

    def test_another_validation_set(self):
        data = self.folder / "rows.svm"
        data.write_text("".join(f"{i % 2} 1:{i % 7} 2:{i % 3}\n" for i in range(60)))
        deck = (self.deck, "data/kind=libsvm", f"data/path={self.folder}", "data/train_file=rows.svm",
                "data/test_file=rows.svm", "data/classes=0", "data/samples=0", "data/test_samples=0", "training/batch=10",
                "data/validation=0.3", "strategy/kind=joint", "run/epochs=2", "checkpoint/every=2")
        train(self.folder / "rows", *deck)
        for keys, expected in ((("run/seed=9",), True), (("data/validation=0.2",), True), ((), False),
                               ((f"data/train_file={self.folder}/rows.svm", "run/seed=9"), True)):
            result = run("train", *deck, "run/epochs=4", *keys, "-r", self.folder / "rows" / "parameters.h5", "-d",
                         self.folder / f"rows-{len(list(self.folder.iterdir()))}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("the validation set is another part" in result.stderr, expected, result.stderr)

    def test_another_weight_of_the_moments(self):
        _, checkpoint = self.kept()
        _, result = self.go_on(checkpoint, "optimiser/beta2=0.99")
        self.assertIn("optimiser/beta1 or beta2 has changed", result.stderr)

    def test_a_longer_run_continues_from_its_end(self):
        _, checkpoint = self.kept(every=STEPS)
        _, result = self.go_on(checkpoint.with_name(f"step-{STEPS:09}.h5"), "run/epochs=3")
        self.assertIn(f"at step {STEPS} of 45", result.stdout)

    def test_parameters_alone_begin_a_run(self):
        summary, _ = self.kept()
        found, result = self.go_on(self.folder / "kept" / "parameters.h5", "run/epochs=1")
        self.assertIn("starting with the parameters of", result.stdout)
        self.assertGreater(found["test_accuracy"], 0.5 * summary["test_accuracy"])

    def test_another_network_is_refused(self):
        _, checkpoint = self.kept()
        result = run("train", self.deck, "-r", checkpoint, "data/image_size=14", "-d", self.folder / "x")
        self.assertRefused(result, "layer0.dense/weight", "a different shape in the deck: 32x196 instead of 32x144")

    def test_evaluation_on_one_rank_of_a_checkpoint(self):
        summary, checkpoint = self.kept("strategy/stages=4", "strategy/cuts=flops", ranks=4, every=STEPS)
        result = run("evaluate", checkpoint.with_name(f"step-{STEPS:09}.h5"))
        self.assertDone(result)
        self.assertIn(summary["parameters_hash"], result.stdout)

    def test_checkpoints_change_nothing_of_the_run(self):
        summary, _ = self.kept(every=1)
        plain = train(self.folder / "plain", self.deck)
        self.assertEqual(plain["parameters_hash"], summary["parameters_hash"])
        self.assertFalse((self.folder / "plain" / "checkpoints").exists())

    def test_compressed_checkpoints(self):
        """Chunks come from all ranks; they are as HDF5's own filters would have made them."""
        summary, checkpoint = self.kept("checkpoint/compression=4", "strategy/replicas=2", ranks=4)
        found, _ = self.go_on(checkpoint, "strategy/replicas=2", ranks=4)
        self.assertEqual(found["parameters_hash"], summary["parameters_hash"])
        self.assertDone(run("info", checkpoint))

    def test_the_last_ones_are_kept(self):
        train(self.folder / "run", self.deck, "checkpoint/every=4", "checkpoint/keep=3", ranks=2)
        names = sorted(path.name for path in (self.folder / "run" / "checkpoints").iterdir())
        self.assertEqual(names, [f"step-{step:09}.h5" for step in (24, 28, STEPS)])

    def test_going_back_sets_later_ones_aside(self):
        summary, checkpoint = self.kept()
        folder = self.folder / "kept"
        arguments = ("train", self.deck, "-d", folder, "-r", checkpoint, "checkpoint/every=10", "checkpoint/keep=9")
        self.assertRefused(run(*arguments), "--overwrite")  # the run had finished: its results would go
        self.assertEqual(support.summary_of(folder)["provenance"], summary["provenance"])
        result = run(*arguments, "--overwrite")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(support.summary_of(folder)["parameters_hash"], summary["parameters_hash"])
        names = sorted(path.name for path in checkpoint.parent.iterdir())
        self.assertEqual(names, [f"step-{step:09}.h5{end}" for step in (10, 20, 30)
                                 for end in ("", ".superseded") if step > 10 or not end])

    def test_a_run_that_would_overwrite_checkpoints_is_refused(self):
        self.kept()
        self.assertRefused(run("train", self.deck, "-d", self.folder / "kept"), "continue it with -r latest")

    def test_nesterov_without_a_last_meeting(self):
        """The replicas start as if they had just met."""
        _, checkpoint = self.kept("strategy/kind=joint", "optimiser/kind=sgd")
        still = ("optimiser/kind=sgd", "optimiser/learning_rate=1e-6")
        alone, _ = self.go_on(checkpoint, "strategy/kind=joint", *still)
        summary, _ = self.go_on(checkpoint, "strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=1",
                                "strategy/outer=nesterov", *still, ranks=2)
        self.assertAlmostEqual(summary["test_loss"], alone["test_loss"], delta=0.01)

    def test_a_row_of_the_history_that_had_begun_with_other_replicas(self):
        common = ("strategy/kind=joint", "run/log_every=7", "optimiser/learning_rate=0.0001")
        _, checkpoint = self.kept("strategy/replicas=2", *common, ranks=2)
        self.go_on(checkpoint, "strategy/replicas=1", *common)
        losses = [float(row["loss"]) for path in self.folder.glob("*/history.csv")
                  for row in csv.DictReader(path.open()) if row["event"] == "step" and row["step"] == "14"]
        self.assertEqual(len(losses), 2)
        self.assertAlmostEqual(*losses, places=4)

    def test_a_run_that_goes_back_soon_has_a_checkpoint_of_its_own(self):
        _, checkpoint = self.kept("strategy/input=relay")
        self.go_on(checkpoint, "strategy/input=frozen", "checkpoint/every=20", "checkpoint/keep=100")
        folder = next(path for path in self.folder.glob("on-*"))
        self.assertEqual(min(support.checkpoints(folder)), 1)

    def test_the_time_of_evaluations_is_carried_over(self):
        summary, checkpoint = self.kept("strategy/kind=joint", "run/evaluate_every=1", every=30)
        self.assertGreater(summary["evaluation_seconds"], 0.0)
        last = checkpoint.with_name("step-000000030.h5")
        again, _ = self.go_on(last, "strategy/kind=joint", "run/evaluate_every=0")
        self.assertGreaterEqual(again["evaluation_seconds"], summary["evaluation_seconds"])

    def test_mistakes_are_seen_with_the_deck_of_the_checkpoint(self):
        _, checkpoint = self.kept()
        self.assertRefused(run("train", "run/sed=1", "-r", checkpoint, "-d", self.folder / "again"),
                           "run/sed: unknown key")

    def test_the_deck_of_the_checkpoint(self):
        summary, checkpoint = self.kept()
        for ranks in (1, 2):  # rank 0 reads the deck for both
            again = self.folder / f"again-{ranks}"
            self.assertDone(run("train", "-r", checkpoint, "-d", again, ranks=ranks))
            self.assertEqual(support.summary_of(again)["parameters_hash"], summary["parameters_hash"])


if __name__ == "__main__":
    support.main()
