#!/usr/bin/env python3
"""Times the training steps of models in Belfry and in other frameworks, in turn, after checking that all do the same
work. README.md says how to get the frameworks.

  benchmarks/peers/compare.py --python=build/peers/bin/python --models=cifar_net,resnet20 --threads=1,2
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import networks
import side as sides_of
import table

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = "cifar_net,cifar_net_no_lrn,resnet20,resnet56,mlp,s5"
BATCH = {"s5": 7, "dlrm": 512, "gpt": 8, "gpt_padded": 16, "gpt2": 1}
TOKENS = 256  # in an example of a transformer
GO_ON = "benchmarks/peers/README.md says how to get it"


def peers(options, model, threads, problem):
    """The commands of the installed peers, by name; prints which ones are missing."""
    common = [f"--problem={problem}", f"--model={model}", f"--threads={threads}", f"--dtype={options.dtype}"]
    python, found = options.python, {}

    def has(module):
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
        return subprocess.run([python, "-c", code], check=False).returncode == 0

    if has("torch"):
        pytorch = [python, os.path.join(HERE, "pytorch_side.py"), *common, f"--device={options.device}",
                   f"--micro_batches={options.micro_batches}", f"--tf32={options.tf32}"]
        kinds = {"PyTorch, eager, channels-last": []}
        if options.device == "cuda":
            for mode in options.compile_modes.split(","):
                kinds[f"PyTorch, torch.compile, {mode}"] = [f"--compile={mode}"]
        else:
            kinds["PyTorch, torch.compile"] = ["--compile=default"]
        for name, flags in kinds.items():
            if options.device == "cuda":
                # Belfry's examples come from the host at every step.
                found[f"{name}, examples from the host"] = [*pytorch, *flags, "--examples=host"]
                name += ", examples on the card"
            found[name] = [*pytorch, *flags]
    else:
        print(f"{python} has no PyTorch; {GO_ON}")
    if options.device == "cuda" or networks.is_transformer(model) or options.micro_batches > 1:
        return found
    if has("tensorflow"):
        tensorflow = [python, os.path.join(HERE, "tensorflow_side.py"), *common]
        found["TensorFlow, tf.function"] = tensorflow
        found["TensorFlow, XLA"] = [*tensorflow, "--xla"]
    else:
        print(f"{python} has no TensorFlow; {GO_ON}")
    if options.libtorch and os.access(options.libtorch, os.X_OK):
        found["libtorch, C++, channels-last"] = [options.libtorch, *common]
    elif options.libtorch:
        print(f"{options.libtorch} does not exist; {GO_ON}")
    return found


def belfry(options, model, threads):
    command = [options.belfry, f"--model={model}", f"--dtype={options.dtype}", f"--batch_size={batch(options, model)}",
               f"--micro_batches={options.micro_batches}"]
    if options.device == "cuda":
        return {"Belfry, gpu:1, examples from the host": [*command, "--devices=gpu:1", f"--tf32={options.tf32}"]}
    found = {f"Belfry, cpu:1, {threads} thread(s)": [*command, "--devices=cpu:1", f"--threads={threads}"]}
    if threads > 1 and (model == "s5" or batch(options, model) % threads == 0):
        found[f"Belfry, cpu:{threads}, 1 thread each"] = [*command, f"--devices=cpu:{threads}", "--threads=1",
                                                          "--batch_norm=synchronised"]
    return found


def batch(options, model):
    return BATCH.get(model, options.batch_size)


def compare(options, model, threads):
    """The rows of one table."""
    ours = belfry(options, model, threads)
    with tempfile.TemporaryDirectory() as directory, sides_of.Sides() as running:
        problem = os.path.join(directory, "problem.safetensors")
        subprocess.run([*next(iter(ours.values())), f"--write_problem={problem}"], check=True)
        commands = {name: [*command, "--serve"] for name, command in ours.items()}
        commands |= peers(options, model, threads, problem)
        for name, command in commands.items():
            if options.sides and not any(word in name for word in options.sides.split(",")):
                continue
            try:
                running.append(sides_of.Side(name, command, threads, options.start_seconds))
            except sides_of.SideError as error:
                if name in ours:
                    raise
                print(f"left out: {error}", file=sys.stderr)
        if not running:
            raise sides_of.SideError(f"no side of {model} has one of '{options.sides}' in its name; the sides are "
                                     f"{', '.join(commands)}")
        rounding = "tf32" if options.device == "cuda" and options.tf32 == "true" else "float32"
        rounding = options.dtype if options.dtype != "float32" else rounding
        if why := sides_of.losses_differ(running, rounding, networks.is_transformer(model),
                                         options.tolerance or networks.tolerance(model)):
            raise sides_of.SideError(f"{model}: {why}")
        scale = 1 if model == "s5" else batch(options, model) * (TOKENS if networks.is_transformer(model) else 1)
        sides_of.run_in_turn(running, options.rounds, options.seconds, scale)
    theirs = [running_side for running_side in running if running_side.name not in ours]
    best = max(theirs, key=lambda peer: statistics.median(peer.rates), default=None)
    comparison = {"model": model, "batch": batch(options, model), "dtype": options.dtype, "threads": threads,
                  "seconds": options.seconds}
    return [table.row(comparison, running_side, best) for running_side in running]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(HERE))
    parser.add_argument("--belfry", default=os.path.join(root, "build/release/benchmarks/training"),
                        help="path of the benchmark `training`")
    parser.add_argument("--python", default=sys.executable, help="Python that has PyTorch or TensorFlow")
    parser.add_argument("--libtorch", default=os.path.join(root, "build/peers/libtorch/libtorch_side"),
                        help="the program that benchmarks/peers/libtorch builds; empty: leave it out")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--threads", default="1", help="numbers of threads, one table each: 1,2")
    parser.add_argument("--batch_size", type=int, default=128, help="examples per step, for all models but s5")
    parser.add_argument("--micro_batches", type=int, default=1,
                        help="accumulate the gradients of so many parts of a batch on each device; PyTorch only")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"],
                        help="type in which the models compute; weights are float32")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="cuda: PyTorch only")
    parser.add_argument("--tf32", default="true", choices=["true", "false"],
                        help="on a GPU, products of float32 in TF32, in all sides; losses may then differ by 1 %%")
    parser.add_argument("--compile_modes", default="default,max-autotune",
                        help="modes of torch.compile on a GPU, a row each: default, reduce-overhead, max-autotune")
    parser.add_argument("--sides", default="", help="run only sides with one of these words in their names, such as Belfry,eager")
    parser.add_argument("--tolerance", type=float, default=0,
                        help="relative difference of losses that is allowed at every step, such as 0.02 where sides use TF32; "
                             "0: what rounding of the dtype explains")
    parser.add_argument("--start_seconds", type=float, default=sides_of.START_SECONDS,
                        help="time in which a side must be ready; compiling may take minutes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="length of one side's measurement in a round")
    parser.add_argument("--out", default=os.path.join(root, "build/bench"), help="directory for results as CSV and JSON")
    options = parser.parse_args()
    if not os.access(options.belfry, os.X_OK):
        parser.error(f"--belfry={options.belfry} is not a program; ./dev bench training builds it")
    machine = table.machine(options.belfry)
    print(machine)
    rows, failed = [], False
    for model in options.models.split(","):
        for threads in map(int, options.threads.split(",")):
            try:
                found = compare(options, model, threads)
            except (sides_of.SideError, subprocess.CalledProcessError, OSError) as error:
                print(f"Error: {error}", file=sys.stderr)
                failed = True
                continue
            if rows == []:
                print("; ".join(sorted({row["version"] for row in found})))
            print("\n" + table.text(found), flush=True)
            rows += found
            table.write(options.out, rows, machine)
    print("\n" + table.FOOTNOTE)
    sys.exit(failed)


if __name__ == "__main__":
    main()
