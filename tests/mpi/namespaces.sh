#!/usr/bin/env bash
# namespaces.sh [--rate=RATE] CIFAR10 LIBRARY=MPIRUN... [-- FLAGS...]: makes two network namespaces with host names of their
# own, joined by a bridge, which each mpirun takes for two machines; the place of ssh has a script that enters the namespace.
# Trains in one task on each, with each MPI library (openmpi, mpich): the checkpoint must be that of one process, and a
# run whose cable is cut must end with an error that names the task behind it.
# --rate=1gbit limits the traffic of each machine. After `--`: no checks; the program is run once with these flags.
name=namespaces
rate=''
if [[ ${1-} = --rate=* ]]; then
  rate=${1#--rate=}
  shift
fi
cifar10=${1:?the program cifar10}
shift
mpiruns=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  mpiruns+=("$1")
  shift
done
[ $# = 0 ] || shift
measured=("$@")
source "$(dirname "${BASH_SOURCE[0]}")/machines.sh"
source "$(dirname "${BASH_SOURCE[0]}")/network.sh"

# tasks LIBRARY=MPIRUN SECONDS FLAGS...: of cifar10, one on each machine.
tasks() {
  local library=$1 seconds=$2
  shift 2
  across "$library" "$seconds" "$cifar10" --devices=cpu:1 --threads_per_device=1 "$@"
}

train() {
  local library=${1%%=*}
  local log=$work/$library.txt
  tasks "$1" 60 "${training[@]}" --quiet=false --start_timeout=20 --train_dir="$work/$library" >"$log" 2>&1 || {
    grep -qF "MPI_Finalize did not return in time" "$log" || fail "mpirun of $library ended with status $?" "$log"
    echo "node-a and node-b, $library: MPI_Finalize did not return, after the run"
  }
  expect_text "$log" "task 0 (node-a, " "$library"
  expect_text "$log" "task 1 (node-b, " "$library"
  expect_same "$work/$library" "node-a and node-b, $library"
}

logged() {
  [ "$(wc -l <"$work/$1/metrics.jsonl")" -ge 2 ]
}

# trains MACHINE
trains() {
  local pid
  for pid in $(ip netns pids "$network_name-$1"); do
    [ "$(readlink "/proc/$pid/exe")" != "$(realpath "$cifar10")" ] || return 0
  done
  return 1
}

rests() {
  ! trains "$1"
}

cut_cable() {
  local library=${1%%=*}
  local log=$work/cut_$library.txt folder=cut_$library pid
  tasks "$1" 60 --batch_size=8 --steps=1000000 --step_timeout=2 --train_dir="$work/$folder" >"$log" 2>&1 &
  pid=$!
  await 30 "$library does not train" logged "$folder"
  ip -n "$network_name-b" link set eth0 down
  await 15 "$library: the task at this end of the cut cable does not end" rests a
  await 15 "$library: the task at the other end of the cut cable does not end" rests b
  # The error of a lane that waited, and the roll call. mpirun may pass it on after the task has ended.
  await 10 "$library: the error of a cut cable does not name the task" \
    grep -qE '^  task 1 \(node-b, pid [0-9]+\)  says nothing: stopped, dead, or cut off' "$log"
  echo "node-a and node-b, $library: a cut cable is an error that names the task"
  # mpirun itself may wait for the other machine.
  ip netns pids "$network_name-a" | xargs -r kill -KILL
  ip netns pids "$network_name-b" | xargs -r kill -KILL
  wait $pid 2>/dev/null
  ip -n "$network_name-b" link set eth0 up
}

make_network
[ -z "$rate" ] || limit_rate "$rate"
if [ ${#measured[@]} -gt 0 ]; then
  for mpirun in "${mpiruns[@]}"; do tasks "$mpirun" 600 "${measured[@]}"; done
  exit
fi
train_alone
for mpirun in "${mpiruns[@]}"; do
  train "$mpirun"
  cut_cable "$mpirun"
done
