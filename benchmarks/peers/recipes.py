#!/usr/bin/env python3
"""Trains a recipe of cifar10 in Belfry and in PyTorch (speedrun.py), one run after the other for each seed, and prints
accuracies and seconds of training.

    benchmarks/peers/recipes.py --data_dir=DIR --python=build/peers/venv/bin/python --seeds=1,2,3 --out=/tmp/speedrun

writes the metrics of each run to a file in --out, which plot_run draws, and the accuracies over the time as curves.svg.
Runs that are there are not repeated, so an interrupted comparison goes on."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import side

HERE = pathlib.Path(__file__).resolve().parent
COLOURS = {"Belfry": "#c2410c", "PyTorch": "#1d4ed8"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="speedrun", choices=["speedrun", "record", "resnet"])
    parser.add_argument("--data_dir", required=True, help="CIFAR-10's binary files")
    parser.add_argument("--belfry", default="build/release/bin/cifar10")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--sides", default="Belfry float32,Belfry bfloat16,PyTorch float32,PyTorch bfloat16")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--epochs", type=float, default=0, help="0: the recipe's")
    parser.add_argument("--evaluate_every_epochs", type=int, default=1)
    parser.add_argument("--out", required=True, help="folder for the metrics")
    return parser.parse_args()


def command(options, name, seed, log):
    framework, dtype = name.split()
    shared = [f"--recipe={options.recipe}", f"--data_dir={options.data_dir}", f"--dtype={dtype}", f"--seed={seed}",
              f"--evaluate_every_epochs={options.evaluate_every_epochs}"]
    shared += [f"--epochs={options.epochs}"] if options.epochs else []
    if framework == "Belfry":
        return [options.belfry, *shared, "--devices=cpu", f"--threads_per_device={options.threads}", "--quiet",
                f"--metrics_file={log}"]
    return [options.python, str(HERE / "speedrun.py"), *shared, f"--threads={options.threads}", f"--log={log}"]


def curve(log):
    """Points (seconds of training, accuracy) of a run, without the time of evaluations."""
    seconds, points = 0.0, []
    for line in map(json.loads, log.read_text().splitlines()):
        seconds += sum(line.get(f"seconds_{part}", 0) for part in ("input", "step", "other"))
        if "test_accuracy" in line:
            points.append((seconds, line["test_accuracy"]))
    return points


def draw(curves, path):
    """The accuracies over the time, in one picture."""
    width, height, left, bottom = 640, 360, 50, 40
    end = max(points[-1][0] for points in curves.values())
    low = min(accuracy for points in curves.values() for _, accuracy in points) // 0.1 * 0.1

    def place(seconds, accuracy):
        x = left + seconds / end * (width - left - 20)
        return f"{x:.1f},{height - bottom - (accuracy - low) / (1 - low) * (height - bottom - 20):.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    for percent in range(round(100 * low), 101, 10):
        y = place(0, percent / 100).split(",")[1]
        parts.append(f'<line x1="{left}" y1="{y}" x2="{width - 20}" y2="{y}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y}" text-anchor="end" dominant-baseline="middle">{percent} %</text>')
    for index, (name, points) in enumerate(sorted(curves.items())):
        dashes = ' stroke-dasharray="5 3"' if "bfloat16" in name else ""
        style = f'stroke="{COLOURS[name.split()[0]]}"{dashes} fill="none"'
        parts.append(f'<polyline points="{" ".join(place(*point) for point in points)}" {style}/>')
        y = height - bottom - 20 * (len(curves) - index)
        parts.append(f'<path d="M{width - 200} {y}h30" {style}/><text x="{width - 160}" y="{y + 4}">{name}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">seconds of training, up to {end:.0f}</text></svg>')
    path.write_text("\n".join(parts) + "\n")


def main():
    options = arguments()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **side.ENVIRONMENT, "OMP_NUM_THREADS": str(options.threads)}
    names, runs = options.sides.split(","), {}
    for seed in options.seeds.split(","):
        for name in names:
            log = out / f"{name.replace(' ', '_')}_{seed}.jsonl"
            if not log.exists():
                part = log.with_suffix(".part")
                part.unlink(missing_ok=True)
                subprocess.run(command(options, name, seed, part), check=True, env=environment)
                part.rename(log)
            runs.setdefault(name, []).append(curve(log))
    print("| Side | Accuracy | Mean | Seconds of training |\n|---|---|---|---|")
    for name, curves in runs.items():
        reached, seconds = [100 * points[-1][1] for points in curves], [points[-1][0] for points in curves]
        print(f"| {name} | {', '.join(f'{value:.2f}' for value in reached)} % | {statistics.mean(reached):.2f} % | "
              f"{statistics.median(seconds):.1f} [{min(seconds):.1f} .. {max(seconds):.1f}] |")
    draw({name: curves[0] for name, curves in runs.items()}, out / "curves.svg")


if __name__ == "__main__":
    main()
