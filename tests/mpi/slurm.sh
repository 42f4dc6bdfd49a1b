#!/usr/bin/env bash
# slurm.sh CIFAR10 LIBRARY...: starts Slurm on this machine alone, in a folder of its own, trains in two tasks of srun with
# each of the MPI libraries (openmpi, mpich), and compares the checkpoints with one process's. With Open MPI it also stops
# a batch job by SIGUSR1, as Slurm does before a time limit, then by --max_run_time, and lets it go on each time.
cifar10=${1:?the program cifar10}
shift
libraries=$*
name=slurm
source "$(dirname "${BASH_SOURCE[0]}")/machines.sh"
daemons=()

finish() {
  local status=$? job i pid
  if [ ${#daemons[@]} = 3 ]; then
    for job in $(limit 5 squeue --noheader --format=%A); do limit 5 scancel "$job"; done
    for ((i = 0; i < 50; ++i)); do
      idle && break
      sleep 0.1
    done
  fi
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
    kill "${daemons[i]}"
    limit 5 tail --pid="${daemons[i]}" -f /dev/null || kill -KILL "${daemons[i]}"
  done 2>/dev/null
  # What serves a job is no child of slurmd, and outlives it.
  for pid in $(pgrep -x slurmstepd); do
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qxF "SLURM_CONF=$work/slurm.conf" || kill -KILL "$pid"
  done 2>/dev/null
  rm -rf "$work"
  exit $status
}
trap finish EXIT

[ "$(id -u)" = 0 ] || skip "Slurm's daemons need root"
[ -d /sys/devices/system/cpu ] || skip "/sys, where slurmd reads the cores, is not mounted"
case $(stat -f -c %T /sys/fs/cgroup 2>/dev/null) in
  cgroup2fs | tmpfs) ;;
  *) skip "slurmd starts only where control groups are mounted, at /sys/fs/cgroup" ;;
esac
for command in srun slurmctld slurmd; do need $command slurm-wlm; done
need munged munge

# daemon NAME COMMAND...: in the background; what it prints goes to a file.
daemon() {
  local log=$work/$1.txt
  shift
  "$@" >"$log" 2>&1 &
  daemons+=($!)
}

start_slurm() {
  local port=$((20000 + RANDOM % 20000))
  export SLURM_CONF=$work/slurm.conf
  mkdir -p "$work/state" "$work/spool"
  cat >"$SLURM_CONF" <<END
ClusterName=belfry
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=localhost Default=YES
END
  (umask 077 && head -c 128 /dev/urandom >"$work/key")
  daemon munged munged --force --foreground --key-file="$work/key" --socket="$work/munge" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/seed"
  await 10 "munged does not start" test -S "$work/munge"
  daemon slurmctld slurmctld -D
  daemon slurmd slurmd -D -N localhost
  await 20 "Slurm does not start" idle
}

idle() {
  [ "$(limit 5 sinfo --noheader --format=%T)" = idle ]
}

# train LIBRARY PMI: the MPI library is the one that speaks this PMI.
train() {
  local log=$work/$1.txt
  limit 60 srun --mpi="$2" --kill-on-bad-exit=1 -n 2 "$cifar10" --devices=cpu:1 "${training[@]}" \
    --train_dir="$work/$1" >"$log" 2>&1 || fail "srun --mpi=$2 ended with status $?" "$log"
  expect_same "$work/$1" "srun --mpi=$2 -n 2, $1"
}

# Without --mpi each task would be a process that knows nothing of the other.
refuse_without_mpi() {
  local log=$work/plain.txt
  ! limit 60 srun --mpi=none -n 2 "$cifar10" --devices=cpu:1 "${training[@]}" --train_dir="$work/plain" >"$log" 2>&1 ||
    fail "srun without --mpi trained" "$log"
  expect_text "$log" "which gave them no way to find each other; use srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or mpirun" "srun without --mpi"
  [ ! -e "$work/plain" ] || fail "srun without --mpi wrote something"
  echo "srun without --mpi: an error"
}

logged() {
  [ "$(wc -l <"$work/batch/metrics.jsonl")" -ge "$1" ]
}

ended() {
  [ -z "$(limit 5 squeue --noheader --job="$1")" ]
}

# A step has the number of the one before, so that must be gone: its manager is a process with that name.
restart() {
  ! grep -qs "slurmstepd: \[$1\." /proc/[0-9]*/cmdline || return 1
  [ "$(limit 5 squeue --noheader --job="$1" --format=%T)" = PENDING ] && limit 5 scontrol update jobid="$1" starttime=now
}

# The batch script of docs/machines.md: it saves when told and when its time is over, puts itself back into the queue
# and goes on there.
requeue() {
  local log=$work/batch.txt job
  cat >"$work/batch.sh" <<END
#!/bin/bash
#SBATCH --ntasks=2 --signal=USR1@120 --time=60 --requeue --open-mode=append --output=$log
case \${SLURM_RESTART_COUNT:-0} in
  0) limits=--steps=100000 ;;
  1) limits="--steps=100000 --max_run_time=1s" ;;
  *) limits=--steps=1 ;;
esac
srun --mpi=pmix --kill-on-bad-exit=1 "$cifar10" --devices=cpu:1 --threads_per_device=1 --batch_size=8 \$limits \\
  --schedule=constant --train_dir="$work/batch"
status=\$?
echo "srun ended with \$status in run \${SLURM_RESTART_COUNT:-0}"
case \$status in 138 | 142) scontrol requeue "\$SLURM_JOB_ID" ;; esac
END
  job=$(limit 10 sbatch --parsable "$work/batch.sh") || fail "sbatch ended with status $?"
  await 30 "the batch job does not train" logged 3
  limit 10 scancel --signal=USR1 "$job"
  await 30 "the batch job does not stop" grep -q "srun ended with 138 in run 0" "$log"
  expect_text "$log" "Stopped by SIGUSR1 after step" "the batch job"
  # Slurm would let it wait for two minutes.
  await 20 "the batch job is not put back into the queue" restart "$job"
  await 30 "the batch job does not stop again" grep -q "srun ended with 142 in run 1" "$log"
  expect_text "$log" "Resuming from $work/batch/checkpoints/step-" "the batch job"
  expect_text "$log" "Stopped by the time limit after step" "the batch job"
  await 20 "the batch job is not put back into the queue again" restart "$job"
  await 30 "the batch job does not end" grep -q "srun ended with 0 in run 2" "$log"
  await 20 "the batch job stays in the queue" ended "$job"
  echo "sbatch: saved after SIGUSR1 and after its time, and resumed each time"
}

train_alone
start_slurm
refuse_without_mpi
for library in $libraries; do
  case $library in
    openmpi) train openmpi pmix && requeue ;;
    mpich) train mpich pmi2 ;;
    *) fail "no MPI library is called $library" ;;
  esac
done
