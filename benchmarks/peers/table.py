"""Results of a comparison as text, CSV and JSON."""
import csv
import json
import os
import platform
import statistics
import subprocess
import time


def machine(training):
    """The processor, its cores and measured peak, by Belfry's benchmark `training`, and the kernel."""
    told = subprocess.run([training, "--machine"], check=True, capture_output=True, text=True).stdout.strip()
    return f"{told}, Linux {platform.release()}"


def row(comparison, side, best_peer):
    """One side of one comparison as a flat record."""
    median = statistics.median(side.rates)
    return {**comparison, "side": side.name, "version": side.ready["version"], "median": median,
            "slowest": min(side.rates), "fastest": max(side.rates), "rounds": len(side.rates),
            "peak_mib": side.peak_bytes / 2**20, "cores_used": statistics.median(side.cores),
            "per_cpu_second": statistics.median(a / b for a, b in zip(side.rates, side.cores) if b > 0),
            "idle_cores": max(side.idle, default=0),
            "ratio_to_best_peer": ratio(side, best_peer), "losses": side.ready["losses"]}


def ratio(side, other):
    """The median over rounds of this side's rate divided by the other's in the same round."""
    return statistics.median(a / b for a, b in zip(side.rates, other.rates)) if other else None


def rate(value):
    """A rate with three digits at least."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def text(rows):
    first = rows[0]
    unit = "steps/s" if first["model"] == "s5" else "tokens/s" if first["model"].startswith("gpt") else "images/s"
    lines = [f"{first['model']}, batch {first['batch']}, {first['dtype']}, {first['threads']} thread(s), {unit}; "
             f"{first['rounds']} rounds of {first['seconds']:g} s in turn",
             f"  {'':34} {'median':>10} {'[slowest .. fastest]':>22} {'peak MiB':>9} {'cores':>6} "
             f"{'/ cpu s':>10} {'/ best peer':>12}"]
    for r in rows:
        spread = f"[{rate(r['slowest'])} .. {rate(r['fastest'])}]"
        ratio_text = f"{r['ratio_to_best_peer']:.3f}" if r["ratio_to_best_peer"] else "-"
        lines.append(f"  {r['side']:34} {rate(r['median']):>10} {spread:>22} {r['peak_mib']:9.0f} "
                     f"{r['cores_used']:6.2f} {rate(r['per_cpu_second']):>10} {ratio_text:>12}")
        if r["idle_cores"] > 0.02:
            lines.append(f"    while others were timed, it used up to {r['idle_cores']:.2f} cores")
    return "\n".join(lines)


FOOTNOTE = """peak: VmHWM while steps were timed, less pages of files (libraries) and what was there before the model; on a GPU the
      most bytes in use there
cores: processor time / time, while it was timed
/ cpu s: per second of processor time, which a busy machine leaves alone
/ best peer: the median over rounds of the ratio to the peer with the highest median"""


def summary(rows):
    """A line for each of Belfry's sides that was compared with a peer."""
    return [f"{r['model']}, {r['dtype']}, {r['threads']} thread(s), {r['side']}: {rate(r['median'])}, "
            f"{r['ratio_to_best_peer']:.3f} of the best peer"
            for r in rows if r["side"].startswith("Belfry") and r["ratio_to_best_peer"]]


def write(directory, rows, machine_text):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "peers.json"), "w") as file:
        json.dump({"benchmark": "peers", "machine": machine_text, "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
                   "rows": rows, "summary": summary(rows)}, file, indent=1)
    with open(os.path.join(directory, "peers.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=[key for key in rows[0] if key != "losses"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
