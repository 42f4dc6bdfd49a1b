"""Tests of benchmarks/peers/compare.py, without any peer: compare_test.py TRAINING, the benchmark `training`."""
import json
import os
import sys
import tempfile
import types
import unittest

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks", "peers")
sys.path.insert(0, PEERS)
import compare  # noqa: E402
import networks  # noqa: E402
import side  # noqa: E402
import table  # noqa: E402

TRAINING = sys.argv.pop(1)


def made_up(name, losses, rates=(1.0,), peak_bytes=2**20):
    return types.SimpleNamespace(name=name, ready={"losses": losses, "version": "1"}, rates=list(rates),
                                 peak_bytes=peak_bytes, cores=[1.0] * len(rates), idle=[0.0])


class Sides(unittest.TestCase):
    def test_on_a_gpu_each_kind_has_examples_on_the_card_and_from_the_host(self):
        options = types.SimpleNamespace(python="true", device="cuda", dtype="float32", micro_batches=1, tf32="false",
                                        compile_modes="default,max-autotune", belfry="training", batch_size=512)
        found = compare.peers(options, "mlp", 1, "problem")
        self.assertEqual(len(found), 6)
        for name, command in found.items():
            self.assertEqual("from the host" in name, "--examples=host" in command, name)
            self.assertEqual("max-autotune" in name, "--compile=max-autotune" in command, name)
        for command in [*found.values(), *compare.belfry(options, "mlp", 1).values()]:
            self.assertIn("--tf32=false", command)

    def test_on_a_cpu_there_is_one_row_of_each_kind(self):
        options = types.SimpleNamespace(python="true", device="cpu", dtype="float32", micro_batches=2, tf32="true")
        self.assertEqual(list(compare.peers(options, "mlp", 1, "problem")),
                         ["PyTorch, eager, channels-last", "PyTorch, torch.compile"])


class Losses(unittest.TestCase):
    def test_equal_up_to_rounding(self):
        sides = [made_up("a", [2.0, 1.0, 1.0, 1.0]), made_up("b", [2.0001, 1.0, 1.0009, 1.0]),
                 made_up("c", [2.0, 0.9997, 1.0, 1.002])]
        self.assertIsNone(side.losses_differ(sides))

    def test_the_first_step_is_compared_most_strictly(self):
        for step, by in enumerate([2e-4, 5e-4, 2e-3, 4e-3, 4e-3]):
            losses = [1.0] * 5
            losses[step] += by
            sides = [made_up("a", [1.0] * 5), made_up("b", losses)]
            self.assertIn(f"step {step}", side.losses_differ(sides) or "")
            self.assertIsNone(side.losses_differ(sides, "bfloat16"))

    def test_a_larger_difference_may_be_allowed(self):
        sides = [made_up("a", [1.0, 1.0]), made_up("b", [1.015, 1.0])]
        self.assertIsNotNone(side.losses_differ(sides))
        self.assertIsNone(side.losses_differ(sides, allowed=2e-2))
        self.assertIsNotNone(side.losses_differ(sides, allowed=1e-2))
        self.assertIsNotNone(side.losses_differ([made_up("a", [1.0]), made_up("b", [float("nan")])], allowed=1))

    def test_tf32_rounds_less_than_bfloat16(self):
        for by, same in [(5e-3, ["tf32", "bfloat16"]), (1.5e-2, ["bfloat16"]), (3e-2, [])]:
            sides = [made_up("a", [1.0]), made_up("b", [1.0 + by])]
            self.assertEqual([dtype for dtype in ["float32", "tf32", "bfloat16"] if not side.losses_differ(sides, dtype)], same)

    def test_a_difference_names_step_and_sides(self):
        why = side.losses_differ([made_up("a", [2.0, 1.0]), made_up("b", [2.0, 1.0]), made_up("c", [2.0, 1.002])])
        self.assertIn("step 1", why)
        self.assertIn("a 1.0", why)
        self.assertIn("c 1.002", why)

    def test_small_losses_are_compared_absolutely(self):
        sides = [made_up("a", [4.0, 0.001]), made_up("b", [4.00009, 0.00109])]
        self.assertIsNone(side.losses_differ(sides, absolute=True))
        self.assertIn("step 1", side.losses_differ(sides) or "")
        sides.append(made_up("c", [4.00011, 0.001]))
        self.assertIn("step 0", side.losses_differ(sides, absolute=True) or "")

    def test_nan_is_a_difference(self):
        self.assertIsNotNone(side.losses_differ([made_up("a", [2.0]), made_up("b", [float("nan")])]))
        self.assertIsNotNone(side.losses_differ([made_up("a", [float("nan")]), made_up("b", [2.0])]))


class Table(unittest.TestCase):
    def setUp(self):
        # The machine was half as fast in the second round.
        ours, peer = made_up("Belfry", [1.0], [30, 15, 36]), made_up("peer", [1.0], [10, 5, 9])
        comparison = {"model": "mlp", "batch": 8, "dtype": "float32", "threads": 1, "seconds": 2.0}
        self.rows = [table.row(comparison, one, peer) for one in (ours, peer)]

    def test_ratio_is_of_the_same_round(self):
        self.assertEqual(self.rows[0]["ratio_to_best_peer"], 3)
        self.assertEqual(self.rows[1]["ratio_to_best_peer"], 1)

    def test_rates_have_three_digits_at_least(self):
        self.assertEqual([table.rate(value) for value in (0.1234, 4.5, 45.67, 100, 12345.6)],
                         ["0.123", "4.50", "45.7", "100", "12346"])

    def test_text_has_spread_and_memory(self):
        text = table.text(self.rows)
        self.assertIn("[15.0 .. 36.0]", text)
        self.assertIn("3.000", text)
        self.assertNotIn("while others were timed", text)

    def test_a_side_that_does_not_sleep_is_named(self):
        self.rows[1]["idle_cores"] = 0.5
        self.assertIn("up to 0.50 cores", table.text(self.rows))

    def test_files(self):
        with tempfile.TemporaryDirectory() as directory:
            table.write(directory, self.rows, "a machine")
            with open(os.path.join(directory, "peers.json")) as file:
                report = json.load(file)
            with open(os.path.join(directory, "peers.csv")) as file:
                lines = file.read().splitlines()
        self.assertEqual(report["machine"], "a machine")
        self.assertEqual(report["rows"][0]["median"], 30)
        self.assertEqual(len(report["summary"]), 1)
        self.assertIn("3.000 of the best peer", report["summary"][0])
        self.assertEqual(len(lines), 3)


class Processes(unittest.TestCase):
    def test_the_machine_is_named_with_its_peak(self):
        self.assertRegex(table.machine(TRAINING), r"^.+, [0-9]+ cores, [1-9][0-9]* GFLOP/s of multiply-adds on one, .+ Linux .+")

    def test_belfry_serves(self):
        one = side.Side("Belfry", [TRAINING, "--model=s5", "--threads=1", "--serve"], 1)
        try:
            self.assertAlmostEqual(one.ready["losses"][0], 97, 3)
            side.run_in_turn([one], rounds=2, seconds=0.01, scale=1)
            self.assertEqual(len(one.rates), 2)
            self.assertGreater(min(one.rates), 0)
            self.assertGreater(one.peak_bytes, 0)
        finally:
            one.close()
        self.assertEqual(one.process.returncode, 0)

    def test_a_side_that_fails_is_an_error(self):
        with self.assertRaisesRegex(side.SideError, "ended with code 1"):
            side.Side("Belfry", [TRAINING, "--model=unknown", "--serve"], 1)

    def test_a_problem_is_a_safetensors_file_of_what_was_asked_for(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "problem.safetensors")
            self.assertEqual(os.spawnl(os.P_WAIT, TRAINING, TRAINING, "--model=mlp", "--batch_size=4",
                                       f"--write_problem={path}"), 0)
            with open(path, "rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        self.assertEqual(header["inputs"]["shape"], [4, 784])
        self.assertEqual(header["labels"]["dtype"], "I32")
        self.assertEqual(header["hidden2/weights"]["shape"], [512, 512])

    def test_slots_of_a_problem_are_not_trained(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "problem.safetensors")
            self.assertEqual(os.spawnl(os.P_WAIT, TRAINING, TRAINING, "--model=gpt_padded", "--batch_size=2",
                                       "--micro_batches=2", f"--write_problem={path}"), 0)
            with open(path, "rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header.pop("__metadata__", None)
        trained = [name for name in header if networks.is_trained(name)]
        self.assertIn("layer0/mlp/hidden/weights", trained)
        for name in trained:
            self.assertEqual(header[name]["dtype"], "F32", name)
            self.assertEqual(header[f"{name}/AdamW"]["shape"], header[name]["shape"])


if __name__ == "__main__":
    unittest.main()
