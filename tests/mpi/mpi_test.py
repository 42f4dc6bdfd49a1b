"""Trains in several processes under mpirun: the bits of every layout, and what becomes of a job that is disturbed.

usage: mpi_test.py LIBRARY MPIEXEC BIN GROUP [I/N]: LIBRARY is openmpi or mpich, BIN the folder of the programs, and
GROUP the name of a function test_GROUP. Cases that do not depend on the library are dealt among N libraries, of which
this is the I-th from 0. With BELFRY_LONG=1 (./dev test --long) each takes all, and there are 50 kills and 20 stops; BELFRY_MPI_KILLS
and BELFRY_MPI_STOPS set their numbers, and BELFRY_TEST_SEED the moments.
"""

import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid

LIBRARY, MPIEXEC, BIN, GROUP = sys.argv[1:5]
SHARE, SHARES = (int(n) for n in (sys.argv[5] if len(sys.argv) > 5 else "0/1").split("/"))
LONG = os.environ.get("BELFRY_LONG") == "1"
KILLS = int(os.environ.get("BELFRY_MPI_KILLS", 50 if LONG else 2))
STOPS = int(os.environ.get("BELFRY_MPI_STOPS", 20 if LONG else 1))
SEED = int(os.environ.get("BELFRY_TEST_SEED", random.randrange(1 << 30)))
RANDOM = random.Random(SEED)
OPEN_MPI = LIBRARY == "openmpi"
# This mpirun gives 0 for about one in ten jobs of which two processes fail at the same time; later versions do not.
LOSES_STATUS = "Version: 4.2.1" in " ".join(
    subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=True).stdout.split())
# The environment of a job's processes marks them, so that none that is left escapes.
MARK = "BELFRY_MPI_TEST=" + uuid.uuid4().hex
FOLDER = tempfile.TemporaryDirectory()
CIFAR10 = BIN + "/cifar10"
# Tasks wait for each other that long at the start, and a job must end a little later.
START = 8
END = 10


def check(condition, *what):
    if not condition:
        print("\n".join(str(part) for part in what))
        sys.exit("failed, with BELFRY_TEST_SEED=%d" % SEED)


def folder(name=""):
    return os.path.join(FOLDER.name, name or uuid.uuid4().hex)


def make_data(name, train=67, test=40, seed=1):
    """A set in CIFAR-10's binary format, with batches of 62 and of 5 images."""
    numbers = random.Random(seed)
    path = pathlib.Path(folder(name))
    path.mkdir()
    for file, count in (("data_batch_1.bin", train), ("test_batch.bin", test)):
        labels = [numbers.randrange(10) for _ in range(count)]
        path.joinpath(file).write_bytes(
            b"".join(bytes([label]) + numbers.randbytes(1024) + bytes([25 * label]) * 2048 for label in labels))
    return str(path)


DATA = make_data("data")


def flags(*more, devices=1, data=DATA, batch=8, steps=20):
    return ["--devices=cpu:%d" % devices, "--threads_per_device=1", "--data_dir=" + data, "--batch_size=%d" % batch,
            "--steps=%d" % steps, "--start_timeout=%d" % START, "--confusion=false", *more]


def marked():
    """The processes of this test's jobs, by number: the rank, or None for a launcher's."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = path.joinpath("environ").read_text(errors="replace").split("\0")
            if MARK not in environment:
                continue
            rank = [v.split("=")[1] for v in environment if re.match("(OMPI_COMM_WORLD_RANK|PMI_RANK)=", v)]
            found[int(path.name)] = int(rank[0]) if rank else None
        except OSError:
            pass  # it has ended
    return found


class Job:
    """A run of mpirun."""

    def __init__(self, *arguments, environment=None, extra=()):
        self.output_path = folder()
        launcher = [MPIEXEC] + (["--oversubscribe"] if OPEN_MPI else [])
        name, value = MARK.split("=")
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                **{name: value}, **(environment or {}))
        with open(self.output_path, "w") as output:
            self.process = subprocess.Popen([*launcher, *extra, *arguments], stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT, env=self.environment, start_new_session=True)
        self.status = None

    def output(self):
        return pathlib.Path(self.output_path).read_text(errors="replace").replace("\r", "")

    def await_text(self, text, seconds=30):
        end = time.monotonic() + seconds
        while text not in self.output():
            check(time.monotonic() < end and self.process.poll() is None, "no '%s' in:" % text, self.output())
            time.sleep(0.01)

    def ranks(self, count):
        """The numbers of the processes, by rank."""
        end = time.monotonic() + 10
        while True:
            ranks = {rank: pid for pid, rank in marked().items() if rank is not None}
            if len(ranks) == count or time.monotonic() > end:
                return ranks
            time.sleep(0.01)

    def end(self, seconds):
        """Waits for the end, and checks that no process is left."""
        begin = time.monotonic()
        try:
            self.status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.status = "none after %d s" % seconds
        left = marked()
        while left and time.monotonic() < begin + seconds:
            time.sleep(0.05)
            left = marked()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()
        check(isinstance(self.status, int), "status", self.status, "processes left:", left, self.output())
        check(not left, "processes left:", left, self.output())
        return self


def run(*arguments, seconds=60, **options):
    return Job(*arguments, **options).end(seconds)


def several(*commands):
    """The arguments of mpirun for one process of each command. With commands of its own, "a : b", mpirun of Open MPI 5.0.7
    crashes in Debian 13."""
    choices = " ".join("%d) exec %s;;" % (rank, shlex.join(command)) for rank, command in enumerate(commands))
    return ["-n", str(len(commands)), "sh", "-c", "case ${OMPI_COMM_WORLD_RANK-$PMI_RANK} in %s esac" % choices]


def in_layout(processes, *more, towers=4, **options):
    return ["-n", str(processes), CIFAR10, *flags(*more, devices=towers // processes, **options)]


def checkpoints(directory):
    return sorted(path.name for path in pathlib.Path(directory, "checkpoints").glob("step-*.safetensors"))


def results(directory, output):
    """What must not depend on the layout: the bytes of the last checkpoint, and the losses that are printed."""
    lines = []
    for line in pathlib.Path(directory, "metrics.jsonl").read_text().splitlines():
        values = json.loads(line)
        lines.append({k: v for k, v in values.items() if k != "images_per_second" and not k.startswith("seconds_")})
    files = checkpoints(directory)
    return (files[-1], pathlib.Path(directory, "checkpoints", files[-1]).read_bytes(), lines,
            re.findall("^after step .*", output, re.M))


def mine(cases, every=SHARES):
    """The part of this library, which is one in `every` cases for the first library."""
    return [case for i, case in enumerate(cases) if LONG or SHARES == 1 or min(i % every, SHARES - 1) == SHARE]


def test_bits():
    cases = [
        ("--dtype=float32", "--momentum=0.9", "--evaluate_every=4", "--moving_average=0.9"),
        ("--model=resnet20", "--batch_norm=synchronised", "--dtype=float16"),
        ("--dtype=bfloat16",),
        ("--model=resnet20", "--batch_norm=synchronised", "--evaluate_every=3"),
        ("--batch_size=2",),  # two of four towers have no example
    ]
    if LONG:
        cases += [("--dtype=float16",), ("--model=resnet20", "--batch_norm=synchronised", "--dtype=bfloat16")]
    for case in mine(cases):
        expected = None
        steps = 15 if LONG or "--model=resnet20" not in case else 4
        for processes in (1, 2, 4):
            directory = folder()
            # The state of an optimizer may be divided among the towers.
            sharded = ["--shard_optimizer"] if processes > 1 and len(case) > 1 else []
            job = run(*in_layout(processes, "--train_dir=" + directory, batch=62, steps=steps), *case, *sharded)
            check(job.status == 0, case, "status", job.status, job.output())
            got = results(directory, job.output())
            expected = expected or got
            check(got[1] == expected[1], case, "another checkpoint from %d processes" % processes)
            check(got == expected, case, got[2:], expected[2:])
    # As many towers, dealt unevenly.
    one, two = folder(), folder()
    for arguments in (in_layout(1, "--train_dir=" + one, towers=3),
                      several(*([CIFAR10, *flags("--train_dir=" + two, devices=devices)] for devices in (1, 2)))):
        job = run(*arguments)
        check(job.status == 0, job.output())
    check(results(one, "") == results(two, ""), "another result from 1 + 2 towers")


def test_deaths():
    steps = 80 * (KILLS + 1)
    more = ("--schedule=constant", "--momentum=0.9", "--learning_rate=0.01", "--summary_every=0",
            "--keep_checkpoints=2")
    straight, killed = folder(), folder()
    job = run(*in_layout(1, *more, "--checkpoint_every=0", "--train_dir=" + straight, steps=steps), seconds=300)
    check(job.status == 0, job.output())
    kills = 0
    while kills < KILLS:
        processes = RANDOM.choice((2, 4))
        sharded = RANDOM.choice(("--shard_optimizer", "--noshard_optimizer"))
        job = Job(*in_layout(processes, *more, sharded, "--checkpoint_every=1", "--train_dir=" + killed, steps=steps))
        ranks = job.ranks(processes)
        # Open MPI's mpirun may hang if a process is killed while it connects to it.
        if OPEN_MPI or RANDOM.randrange(8) > 0:
            job.await_text("World:")
        time.sleep(RANDOM.random() * RANDOM.choice((0.2, 1.0)))
        started = "World:" in job.output()
        if job.process.poll() is not None:
            break
        victim = RANDOM.randrange(processes)
        try:
            os.kill(ranks[victim], signal.SIGKILL)
        except ProcessLookupError:
            break
        begin = time.monotonic()
        job.end(END if started else START + END)
        kills += 1
        check(job.status != 0, "rank %d was killed, and the status is 0" % victim, job.output())
        # MPICH's mpirun kills the others at once, and then names any of them.
        pids = [ranks[victim]] if OPEN_MPI else ranks.values()
        named = re.search(r"rank %d with|PID (%s) " % (victim, "|".join(map(str, pids))), job.output())
        check(named or not started, "rank %d (%d) is not named in:" % (victim, ranks[victim]), job.output())
        print("rank %d of %d killed: status %d after %.1f s, %s" %
              (victim, processes, job.status, time.monotonic() - begin, checkpoints(killed)[-1:]), flush=True)
    check(kills >= KILLS / 2, "the run came to its end after %d kills" % kills)
    job = run(*in_layout(RANDOM.choice((1, 2, 4)), *more, "--train_dir=" + killed, steps=steps), seconds=300)
    check(job.status == 0, job.output())
    check(results(straight, "")[:2] == results(killed, "")[:2], "the checkpoint differs after %d kills" % kills)


def test_stops():
    # Without the kernel's copies between processes, as between machines, a process that stops can leave half a message.
    halfway = ("--mca", "btl_vader_single_copy_mechanism", "none") if OPEN_MPI else ("-genv", "UCX_TLS", "tcp,self")
    if not OPEN_MPI and not os.path.isdir("/sys/class/net"):
        halfway = ()  # UCX finds the network there, and has no TCP without
    for i in range(STOPS):
        processes = RANDOM.choice((2, 4))
        job = Job(*in_layout(processes, "--step_timeout=2", steps=100_000), extra=halfway if i % 2 == 0 else ())
        job.await_text("step 0/")
        ranks = job.ranks(processes)
        time.sleep(RANDOM.random() / 2)
        stopped = RANDOM.randrange(processes)
        os.kill(ranks[stopped], signal.SIGSTOP)
        begin = time.monotonic()
        job.end(END)
        print("rank %d of %d stopped: status %d after %.1f s" % (stopped, processes, job.status,
                                                                 time.monotonic() - begin), flush=True)
        check(job.status != 0, "rank %d was stopped, and the status is 0" % stopped, job.output())
        line = r"task %d \(\S+, pid %d\)  says nothing: stopped" % (stopped, ranks[stopped])
        check(re.search(line, job.output()), "rank %d (%d) is not named in:" % (stopped, ranks[stopped]), job.output())


def test_signals():
    for number, status, to in ((signal.SIGUSR1, 138, "task"), (signal.SIGTERM, 143, "task"),
                               (signal.SIGUSR1, 138, "mpirun")):
        directory = folder()
        job = Job(*in_layout(2, "--checkpoint_every=0", "--train_dir=" + directory, steps=100_000))
        job.await_text("step 0/")
        ranks = job.ranks(2)
        time.sleep(RANDOM.random() / 4)
        os.kill(ranks[RANDOM.randrange(2)] if to == "task" else job.process.pid, number)
        job.end(END)
        # MPICH 4.0's mpirun loses the status of half of the jobs whose signal it passes on.
        allowed = (status, 0) if to == "mpirun" and not OPEN_MPI else (status,)
        check(job.status in allowed, number, to, "status", job.status, job.output())
        stopped = re.findall("^Stopped by (SIG[A-Z0-9]+) after step ([0-9]+), saved in", job.output(), re.M)
        check(len(stopped) == 1 and stopped[0][0] == number.name, number, to, job.output())
        check(checkpoints(directory) == ["step-%08d.safetensors" % int(stopped[0][1])], number, to,
              checkpoints(directory), job.output())


def test_example():
    """The example for programs of one's own: a run that is told to stop goes on to the bytes of one that was not."""
    program = str(pathlib.Path(BIN).parent / "tests" / "several_tasks")
    straight, stopped = folder(), folder()
    job = Job("-n", "2", program, stopped, "1000000")
    job.await_text("step 0/")
    os.kill(job.ranks(2)[1], signal.SIGUSR1)
    job.end(END)
    saved = checkpoints(stopped)
    check(job.status == 138 and saved, job.status, saved, job.output())
    steps = int(re.search("[0-9]+", saved[-1])[0]) + 100
    for directory in (straight, stopped):
        job = run("-n", "2", program, directory, str(steps))
        check(job.status == 0, job.status, job.output())
    last = "checkpoints/step-%08d.safetensors" % steps
    check(pathlib.Path(straight, last).read_bytes() == pathlib.Path(stopped, last).read_bytes(), "other bytes")
    one = run("-n", "1", program, stopped, str(steps + 1))
    check(one.status == 0 and checkpoints(stopped)[-1] == "step-%08d.safetensors" % (steps + 1), one.status, one.output())
    bad = run("-n", "2", program, "/proc/x")
    check(bad.status != 2 and (bad.status != 0 or LOSES_STATUS), bad.status, bad.output())
    check(re.search("in task 0 .*/proc/x", bad.output()), bad.output())


def test_threads():
    """For builds with ThreadSanitizer, whose reports end a process: a training, one that resumes and is stopped by a
    signal, and one in which a process stands still."""
    def clean(job, *what):
        check("ThreadSanitizer" not in job.output(), *what, job.output())

    for averager in ("local", "mpi"):
        directory = folder()
        more = ("--averager=" + averager, "--start_timeout=60", "--checkpoint_every=2", "--train_dir=" + directory)
        job = run(*in_layout(2, *more, "--evaluate_every=2", steps=4), seconds=120)
        clean(job)
        check(job.status == 0 and checkpoints(directory)[-1:] == ["step-00000004.safetensors"], averager, job.status,
              checkpoints(directory), job.output())
    job = Job(*in_layout(2, *more, steps=100_000))
    job.await_text("step 4/", 60)
    os.kill(job.ranks(2)[1], signal.SIGUSR1)
    clean(job.end(60))
    check(job.status == 138 and "Stopped by SIGUSR1 after step" in job.output(), job.status, job.output())
    job = Job(*in_layout(2, "--start_timeout=60", "--step_timeout=8", steps=100_000))
    job.await_text("step 0/", 60)
    os.kill(job.ranks(2)[1], signal.SIGSTOP)
    clean(job.end(60))
    check(job.status != 0 and "says nothing: stopped" in job.output(), job.status, job.output())


def test_refusals():
    """Commands that are an error, with what it must say."""
    two = lambda first, second: several([CIFAR10, *first], [CIFAR10, *second])  # noqa: E731
    table = pathlib.Path(folder("table.csv"))
    table.write_text("a,y\n" + "".join("%d,%d\n" % (i, 3 * i) for i in range(20)))
    regression = [BIN + "/linear_regression", "--csv=%s" % table, "--start_timeout=%d" % START]
    both = r"the tasks have different %s: '%s' in task 0 \(.*, but '%s' in task 1 \("
    cases = [
        (two(flags("--learning_rate=0.1"), flags("--learning_rate=0.2")),
         both % ("flags", "--learning_rate=0.1", "--learning_rate=0.2")),
        (two(flags(), flags("--model=resnet20")), both % ("flags", "--model=cifar_net", "--model=resnet20")),
        (several([CIFAR10, *flags()], regression), both % ("flags", "cifar10", "linear_regression")),
        (two(flags(), flags("--explain")), both % ("flags", "--explain=false", "--explain=true")),
        (two(flags(), flags(data=make_data("other", seed=2))),
         both % ("settings", "(test )?data: .*", "(test )?data: .*")),
        (two(flags(), flags(data=make_data("more tests", test=41))),
         both % ("settings", "test data: .*; 40 examples, .*", "test data: .*; 41 examples, .*")),
        (two(flags(), flags(data="generated")),
         both % ("settings", "test data: .*; 40 examples.*", "test data: .*; 2000 examples.*")),
        (two(flags(data="generated"), flags()),
         both % ("settings", "test data: .*; 2000 examples.*", "test data: .*; 40 examples.*")),
        (two(flags(), flags(data="/nowhere")), r"NOT_FOUND: in task 1 \(.*: /nowhere: no such directory"),
        (two(flags(data="/nowhere"), flags()), r"NOT_FOUND: in task 0 \(.*: /nowhere: no such directory"),
        (two(flags(), flags("--devices=gpu:1000")), r"in task 1 \(.*Requested 1000 GPUs, but found"),
        (two(flags(), flags("--nonsense=1")), "Unknown command line flag 'nonsense'"),
        (["-n", "2", CIFAR10, *flags("--train_dir=/proc/x")], "in task 0 .*Cannot create --train_dir=/proc/x"),
        (["-n", "2", CIFAR10, *flags("--metrics_file=/dev/full")], "in task 0 .*No space left on device"),
        (["-n", "2", "sh", "-c", "exec %s >/dev/full" % " ".join([CIFAR10, *flags()])],
         "cannot write to standard output"),
        # Task 0 may write files of 7 MiB: MPI's shared memory is smaller, and the checkpoint larger.
        (several(["sh", "-c", "trap '' XFSZ; ulimit -f 14336; exec %s" % " ".join(
            [CIFAR10, *flags("--momentum=0.9", "--train_dir=" + folder())])],
                 [CIFAR10, *flags("--momentum=0.9")]),
         "in task 0 .*safetensors: cannot write [0-9]+ bytes: File too large"),
    ]
    # Open MPI, the first, takes two seconds to end a job that failed.
    for arguments, pattern in mine(cases, every=4):
        job = run(*arguments, seconds=START + END)
        check(job.status != 0 or LOSES_STATUS, arguments, "status 0", job.output())
        check(re.search(pattern, job.output()), arguments, "no '%s' in:" % pattern, job.output())
    # A second run in the directory of one.
    directory = folder()
    job = Job(*in_layout(2, "--checkpoint_every=0", "--train_dir=" + directory, steps=100_000))
    job.await_text("step 0/")
    again = Job(*in_layout(2, "--train_dir=" + directory, steps=100_000))
    status = again.process.wait(START + END)
    check(status != 0 and "another training run saves its checkpoints here" in again.output(), status, again.output())
    os.kill(job.ranks(2)[0], signal.SIGUSR1)
    job.end(END)
    check(job.status == 138 and len(checkpoints(directory)) == 1, job.status, job.output())
    if not OPEN_MPI:
        # A process of Open MPI under another launcher: Open MPI itself would start two worlds of one process each.
        job = run(*in_layout(2), environment={"OMPI_COMM_WORLD_SIZE": "2"}, seconds=START + END)
        check(job.status != 0 and re.search("knows of 1 process, but the launcher started 2|built or installed without it",
                                            job.output()), job.status, job.output())


tests = {name[5:]: test for name, test in globals().items() if name.startswith("test_")}
check(GROUP in tests, "the groups are", ", ".join(tests))
tests[GROUP]()
