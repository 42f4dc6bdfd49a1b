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
network=belfry$$
hosts=(10.77.0.1 10.77.0.2)

# Every process in a namespace was started here, and all go with it.
finish() {
  local status=$? space
  for space in "$network"-{a,b,switch}; do
    ip netns pids "$space" | xargs -r kill -KILL
    ip netns delete "$space"
  done 2>/dev/null
  rm -rf "$work"
  exit $status
}
trap finish EXIT

[ "$(id -u)" = 0 ] || skip "network namespaces need root"
need ip iproute2
need tc iproute2

make_network() {
  local space reason
  reason=$(ip netns add "$network-switch" 2>&1) || skip "there are no network namespaces here: $reason"
  reason=$(ip -n "$network-switch" link add bridge type bridge 2>&1) || skip "there are no bridges here: $reason"
  ip -n "$network-switch" link set bridge up
  local number=0
  for space in a b; do
    ip netns add "$network-$space" &&
      ip -n "$network-$space" link set lo up &&
      ip -n "$network-$space" link add name eth0 type veth peer name "port_$space" netns "$network-switch" &&
      ip -n "$network-switch" link set "port_$space" master bridge up &&
      ip -n "$network-$space" address add "${hosts[number]}/24" dev eth0 &&
      ip -n "$network-$space" link set eth0 up || fail "the namespaces cannot be joined"
    [ -z "$rate" ] || ip netns exec "$network-$space" tc qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 20ms ||
      fail "the rate of a link cannot be limited"
    number=$((number + 1))
  done
  # remote HOST COMMAND...: as ssh and rsh are called.
  cat >"$work/remote" <<END
#!/bin/sh
host=\$1
shift
case \$host in
  ${hosts[0]}) host=a ;;
  ${hosts[1]}) host=b ;;
esac
exec ip netns exec $network-\$host unshare --uts sh -c "hostname node-\$host; \$*"
END
  chmod +x "$work/remote"
}

# across LIBRARY=MPIRUN SECONDS FLAGS...: one task on each machine.
across() {
  local library=${1%%=*} mpirun=${1#*=} seconds=$2
  local command=("$mpirun" -n 2)
  shift 2
  case $library in
    openmpi)
      command+=(--mca plm_rsh_agent "$work/remote" --mca btl 'tcp,self,vader' --mca btl_tcp_if_include 10.77.0.0/24
        --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none -H "${hosts[0]}:1,${hosts[1]}:1")
      ;;
    mpich)
      # The MPI_Finalize of MPICH 4.0.2 hangs at times: one task waits for an answer of the other, which is in a barrier
      # that gives none. With UCX_TCP_PUT_ENABLE=n it does so less often.
      command+=(-launcher rsh -launcher-exec "$work/remote" -iface eth0 -genv UCX_TLS 'tcp,self'
        -genv UCX_TCP_PUT_ENABLE n -genv UCX_NET_DEVICES eth0 -hosts "${hosts[0]},${hosts[1]}")
      ;;
    *) fail "no MPI library is called $library" ;;
  esac
  command+=("$cifar10" --devices=cpu:1 --threads_per_device=1 "$@")
  limit "$seconds" "$work/remote" a "exec ${command[*]@Q}"
}

train() {
  local library=${1%%=*}
  local log=$work/$library.txt
  across "$1" 60 "${training[@]}" --quiet=false --start_timeout=20 --train_dir="$work/$library" >"$log" 2>&1 || {
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
  for pid in $(ip netns pids "$network-$1"); do
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
  across "$1" 60 --batch_size=8 --steps=1000000 --step_timeout=2 --train_dir="$work/$folder" >"$log" 2>&1 &
  pid=$!
  await 30 "$library does not train" logged "$folder"
  ip -n "$network-b" link set eth0 down
  await 15 "$library: the task at this end of the cut cable does not end: $(cat "$log")" rests a
  await 15 "$library: the task at the other end of the cut cable does not end" rests b
  # The error of a lane that waited, and the roll call.
  grep -qE '^  task 1 \(node-b, pid [0-9]+\)  says nothing: stopped, dead, or cut off' "$log" ||
    fail "$library: the error of a cut cable does not name the task" "$log"
  echo "node-a and node-b, $library: a cut cable is an error that names the task"
  # mpirun itself may wait for the other machine.
  ip netns pids "$network-a" | xargs -r kill -KILL
  ip netns pids "$network-b" | xargs -r kill -KILL
  wait $pid 2>/dev/null
  ip -n "$network-b" link set eth0 up
}

make_network
if [ ${#measured[@]} -gt 0 ]; then
  for mpirun in "${mpiruns[@]}"; do across "$mpirun" 600 "${measured[@]}"; done
  exit
fi
train_alone
for mpirun in "${mpiruns[@]}"; do
  train "$mpirun"
  cut_cable "$mpirun"
done
