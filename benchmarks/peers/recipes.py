#!/usr/bin/env python3
"""Trains a recipe of cifar10 in Belfry and in PyTorch (speedrun.py), one run after the other for each seed, and prints
accuracies, seconds of training and of a step, and their ratios.

    benchmarks/peers/recipes.py --data_dir=DIR --python=build/peers/venv/bin/python --seeds=1,2,3 --out=/tmp/speedrun

writes the metrics of each run to a file in --out, which plot_run draws, and the accuracies as curves.svg, over seconds
of training or, for runs on a busy machine, --over=steps. Runs that are there are not repeated, so an interrupted
comparison goes on; --out keeps the options that they had, and no run with others goes there."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import side

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SIDES = [f"{framework} {dtype}" for framework in ("Belfry", "PyTorch") for dtype in ("float32", "bfloat16")]
COLOURS = {"Belfry": "#c2410c", "PyTorch": "#1d4ed8"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="speedrun", choices=["speedrun", "record", "resnet"])
    parser.add_argument("--data_dir", required=True, help="CIFAR-10's binary files")
    parser.add_argument("--belfry", default=str(ROOT / "build/release/bin/cifar10"))
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=float, default=0, help="0: the recipe's")
    parser.add_argument("--evaluate_every_epochs", type=int, default=1)
    parser.add_argument("--over", default="seconds", choices=["seconds", "steps"], help="of the picture")
    parser.add_argument("--out", required=True, help="folder for the metrics")
    options = parser.parse_args()
    for name in options.sides.split(","):
        if name not in SIDES:
            parser.error(f"--sides: '{name}' is unknown; the sides are {', '.join(SIDES)}")
    for path in (options.belfry, os.path.join(options.data_dir, "")):
        if not os.path.exists(path):
            parser.error(f"{path} does not exist")
    return options


def keep(options, out):
    """Writes what runs depend on to --out; ends the program if the runs there had other values."""
    used = {name: getattr(options, name) for name in ("recipe", "data_dir", "threads", "epochs", "evaluate_every_epochs")}
    path = out / "options.json"
    if path.exists() and (there := json.loads(path.read_text())) != used:
        sys.exit(f"{out} has runs with {there}, and these would have {used}; name another --out")
    path.write_text(json.dumps(used) + "\n")


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
    """Points (seconds of training, steps, accuracy) of a run, without the time of evaluations."""
    seconds, points = 0.0, []
    for line in map(json.loads, log.read_text().splitlines()):
        seconds += sum(line.get(f"seconds_{part}", 0) for part in ("input", "step", "other"))
        if "test_accuracy" in line:
            points.append((seconds, line["step"], line["test_accuracy"]))
    return points


def step_seconds(log):
    """Seconds of training a step, by the lines after the first, whose steps are slower; None if there are none."""
    lines = [line for line in map(json.loads, log.read_text().splitlines()) if "seconds_step" in line]
    if len(lines) < 2:
        return None
    seconds = sum(line.get(f"seconds_{part}", 0) for line in lines[1:] for part in ("input", "step", "other"))
    return seconds / (lines[-1]["step"] - lines[0]["step"])


def draw(runs, over, path):
    """The accuracies of all runs, by side, over seconds or steps, in one picture."""
    axis = 1 if over == "steps" else 0
    curves = [(name, [(point[axis], point[2]) for point in points]) for name in sorted(runs) for points in runs[name]]
    width, height, left, bottom = 640, 360, 50, 40
    end = max(points[-1][0] for _, points in curves)
    accuracies = [accuracy for _, points in curves for _, accuracy in points]
    low = min(accuracies) // 0.05 * 0.05
    high = max(-(-max(accuracies) // 0.05) * 0.05, low + 0.05)

    def place(x, accuracy):
        return (left + x / end * (width - left - 20),
                height - bottom - (accuracy - low) / (high - low) * (height - bottom - 20))

    def label(x, y, text, anchor="middle"):
        return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" dominant-baseline="middle">{text}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             f'font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for percent in range(round(100 * low), round(100 * high) + 1, 5):
        y = place(0, percent / 100)[1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" stroke="#ddd"/>'
                     + label(left - 8, y, f"{percent} %", "end"))
    strokes = {name: f'stroke="{COLOURS[name.split()[0]]}"' + (' stroke-dasharray="5 3"' if "bfloat16" in name else "")
               for name in runs}
    for name, points in curves:
        places = [place(*point) for point in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" {strokes[name]} fill="none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[name.split()[0]]}"/>' for x, y in places]
    for index, name in enumerate(sorted(runs)):
        y = height - bottom - 20 * (len(runs) - index)
        parts.append(f'<path d="M{width - 200} {y}h30" {strokes[name]}/>' + label(width - 160, y, name, "start"))
    parts.append(label(width / 2, height - 12, f"{over} of training, up to {end:.0f}" if axis == 0 else "steps")
                 + label(left, height - 22, "0") + label(width - 20, height - 22, f"{end:.0f}", "end") + "</svg>")
    path.write_text("\n".join(parts) + "\n")


def main():
    options = arguments()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    keep(options, out)
    environment = {**os.environ, **side.ENVIRONMENT, "OMP_NUM_THREADS": str(options.threads)}
    names, runs, steps = options.sides.split(","), {}, {}
    for seed in options.seeds.split(","):
        for name in names:
            log = out / f"{name.replace(' ', '_')}_{seed}.jsonl"
            if not log.exists():
                part = log.with_suffix(".part")
                part.unlink(missing_ok=True)
                subprocess.run(command(options, name, seed, part), check=True, env=environment)
                part.rename(log)
            runs.setdefault(name, []).append(curve(log))
            steps.setdefault(name, []).append(step_seconds(log))
    print("| Side | Accuracy | Mean | Seconds of training | Seconds of each step |\n|---|---|---|---|---|")
    for name, curves in runs.items():
        reached, seconds = [100 * points[-1][2] for points in curves], [points[-1][0] for points in curves]
        print(f"| {name} | {', '.join(f'{value:.2f}' for value in reached)} % | {statistics.mean(reached):.2f} % | "
              f"{statistics.median(seconds):.1f} [{min(seconds):.1f} .. {max(seconds):.1f}] | "
              f"{', '.join(f'{value:.2f}' if value else '-' for value in steps[name])} |")
    for ours in (name for name in names if name.startswith("Belfry")):
        for theirs in (name for name in names if not name.startswith("Belfry")):
            ratios = [a / b for a, b in zip(steps[ours], steps[theirs]) if a and b]
            if not ratios:
                continue
            print(f"{ours} takes {statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}] of the time of "
                  f"{theirs}, medians over the seeds")
    draw(runs, options.over, out / "curves.svg")


if __name__ == "__main__":
    main()
