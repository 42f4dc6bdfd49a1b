"""The processes that a comparison runs in turn."""
import json
import os
import select
import subprocess
import time

# Memory returned to the kernel after every step costs page faults when it is needed again. For frameworks that allocate
# tensors on the fly, keeping it gains 28 to 51 % on these models, and huge pages another 10 to 20 %.
ENVIRONMENT = {"GLIBC_TUNABLES": ":".join(["glibc.malloc.mmap_max=0", "glibc.malloc.trim_threshold=17179869184",
                                           "glibc.malloc.hugetlb=1"]),
               "TF_CPP_MIN_LOG_LEVEL": "3"}
START_SECONDS = 900  # torch.compile takes a minute for ResNet-56


class SideError(Exception):
    """The failure of a side to answer or to follow the protocol."""


class Side:
    """A running process that speaks the protocol in README.md."""

    def __init__(self, name, command, threads, start_seconds=START_SECONDS, environment=ENVIRONMENT):
        self.name, self.command = name, command
        self.rates, self.cores, self.idle = [], [], []
        self.peak_bytes = None
        environment = {**os.environ, **environment, "OMP_NUM_THREADS": str(threads)}
        # Unbuffered, so that select() sees everything that can be read.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0)
        try:
            self.ready = self.read(start_seconds)
        except SideError:
            self.process.kill()
            raise

    def read(self, seconds):
        """The next line of JSON; a framework may print other lines before it."""
        deadline = time.monotonic() + seconds
        while True:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise SideError(f"{self.name} did not answer within {seconds:.0f} s")
            line = self.process.stdout.readline()
            if not line:
                raise SideError(f"{self.name} ended with code {self.process.wait()}: {' '.join(self.command)}")
            if line.startswith(b"{"):
                return json.loads(line)

    def run(self, seconds, scale):
        """Times one round; `scale` is the number of items in a step."""
        begin, used = time.monotonic(), self.cpu_seconds()
        self.process.stdin.write(f"go {seconds}\n".encode())
        self.process.stdin.flush()
        answer = self.read(60 + 20 * seconds)
        self.cores.append((self.cpu_seconds() - used) / (time.monotonic() - begin))
        self.rates.append(answer["steps_per_second"] * scale)
        self.peak_bytes = answer["peak_bytes"]

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.communicate(b"quit\n", timeout=30)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self.process.kill()


class Sides(list):
    """Sides that end with a block: `with Sides() as sides`."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self:
            side.close()


ROUNDED = {"bfloat16": 2e-2, "tf32": 1e-2}  # relative differences of losses that their rounding explains


def losses_differ(sides, dtype="float32", absolute=False, allowed=0):
    """The reason why the sides do not do the same work, or None. The others are compared with the first side. `allowed`,
    if it is not 0, is a relative difference that is always allowed.

    Training amplifies rounding differences, in a network of 56 layers about tenfold at each of the first steps, so the
    first step is compared most strictly; TF32, of 10 bits, differs a few times less than bfloat16. Losses that go towards 0 are compared by their absolute difference instead."""
    for side in sides[1:]:
        for i, (ours, theirs) in enumerate(zip(sides[0].ready["losses"], side.ready["losses"])):
            tolerance = ROUNDED.get(dtype, min(1e-4 * 10 ** (i / 2), 3e-3))
            if absolute:
                tolerance = ROUNDED.get(dtype, 1e-4) / abs(ours)
            tolerance = max(tolerance, allowed)
            if not abs(ours - theirs) <= tolerance * abs(ours):
                return (f"the losses of step {i} differ: {sides[0].name} {ours:.6f}, {side.name} {theirs:.6f}, more "
                        f"than {tolerance:g} of them; the sides do not do the same work, so they are not compared")
    return None


def run_in_turn(sides, rounds, seconds, scale):
    """Times A B C A B C. The other processes must sleep meanwhile, or their work slows down the one being timed."""
    for _ in range(rounds):
        for side in sides:
            used = {other: other.cpu_seconds() for other in sides if other is not side}
            begin = time.monotonic()
            side.run(seconds, scale)
            spent = time.monotonic() - begin
            for other, before in used.items():
                other.idle.append((other.cpu_seconds() - before) / spent)
