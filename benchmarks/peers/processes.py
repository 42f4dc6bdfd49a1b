#!/usr/bin/env python3
"""Trains the tutorial network in several processes, and in as many towers of one, in turn: what a process costs.

  benchmarks/peers/processes.py --programs=build/release/bin --mpirun=mpirun.openmpi --python=PYTHON

Belfry reads and augments images; PyTorch, if PYTHON has it, trains on the same images again and again. All have one
thread for each tower. Rates are of all towers together.
"""
import argparse
import os
import re
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN_FLAGS = {"mpirun.openmpi": ["--oversubscribe"]}


def rate(text):
    found = re.findall(r"(\d+) images/s", text)
    if not found:
        sys.exit(f"no rate in:\n{text}")
    return float(found[-1])


def run(command, timeout=600):
    done = subprocess.run(command, env={**os.environ, **ROOT}, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def side_by_side(commands, environments):
    """The sum of the rates of programs that run at the same time."""
    running = [subprocess.Popen(command, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True)
               for command, more in zip(commands, environments)]
    texts = [process.communicate(timeout=600)[0] for process in running]
    return [text for text in texts if "images/s" in text]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def torch_ranks(options, ranks, batch):
    port, command = free_port(), [options.python, os.path.join(HERE, "ddp_side.py"), f"--batch={batch // ranks}",
                                  f"--steps={options.torch_steps}"]
    environments = [{"RANK": str(r), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                     "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} for r in range(ranks)]
    return sum(rate(text) for text in side_by_side([command] * ranks, environments))


def sides(options, batch):
    n = options.towers
    program = [os.path.join(options.programs, "cifar10"), "--quiet", "--threads_per_device=1", f"--steps={options.steps}"]
    mpirun = [options.mpirun, *MPIRUN_FLAGS.get(os.path.basename(options.mpirun), []), "-n", str(n)]
    found = {f"{n} towers in one process": lambda: rate(run([*program, f"--devices=cpu:{n}", f"--batch_size={batch}"])),
             f"{n} processes, {os.path.basename(options.mpirun)}":
                 lambda: rate(run([*mpirun, *program, "--devices=cpu:1", f"--batch_size={batch}"])),
             f"{n} programs that never meet":
                 lambda: sum(rate(text) for text in side_by_side(
                     [["taskset", "-c", str(i), *program, "--devices=cpu:1", f"--batch_size={batch // n}"] for i in range(n)],
                     [{}] * n)),
             "1 process, 1 tower": lambda: rate(run(["taskset", "-c", "0", *program, "--devices=cpu:1",
                                                     f"--batch_size={batch // n}"]))}
    if options.python:
        found[f"PyTorch DDP, Gloo, {n} ranks"] = lambda: torch_ranks(options, n, batch)
        found["PyTorch, 1 rank"] = lambda: torch_ranks(options, 1, batch // n)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/release/bin", help="folder of cifar10")
    parser.add_argument("--mpirun", default="mpirun.openmpi")
    parser.add_argument("--python", default="", help="a Python with PyTorch; empty: Belfry alone")
    parser.add_argument("--towers", type=int, default=2)
    parser.add_argument("--batches", default="128,256", help="images per step in all towers")
    parser.add_argument("--steps", type=int, default=200, help="of Belfry")
    parser.add_argument("--torch_steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for batch in (int(text) for text in options.batches.split(",")):
        rates = {name: [] for name in sides(options, batch)}
        for _ in range(options.rounds):
            for name, measure in sides(options, batch).items():
                rates[name].append(measure())
        base = statistics.median(rates[f"{options.towers} towers in one process"])
        print(f"\nbatch {batch}, {options.rounds} rounds in turn\n{'':34}{'images/s':>10}{'[min .. max]':>20}{'of one process':>16}")
        for name, values in rates.items():
            median = statistics.median(values)
            spread = f"[{min(values):.0f} .. {max(values):.0f}]"
            print(f"{name:34}{median:10.0f}{spread:>20}{median / base:16.3f}", flush=True)


if __name__ == "__main__":
    main()
