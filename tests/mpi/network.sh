# Two network namespaces with host names of their own, joined by a bridge, which each mpirun takes for two machines; the
# place of ssh has a script that enters the namespace. If there are two cores, each machine has one of its own: else the
# scheduler would at times put both on one. To be sourced after machines.sh.
network_name=belfry$$  # before the names of namespaces
hosts=(10.77.0.1 10.77.0.2)

# Every process in a namespace was started here, and all go with it.
finish_network() {
  local status=$? space
  for space in "$network_name"-{a,b,switch}; do
    ip netns pids "$space" | xargs -r kill -KILL
    ip netns delete "$space"
  done 2>/dev/null
  rm -rf "$work"
  exit $status
}

# Skips the test where namespaces cannot be made. They end with the shell.
make_network() {
  trap finish_network EXIT
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  need ip iproute2
  need tc iproute2
  local space reason number=0 own_core='taskset -c $core'
  taskset -c 0,1 true 2>/dev/null && [ "$(nproc)" -ge 2 ] || own_core=''
  reason=$(ip netns add "$network_name-switch" 2>&1) || skip "there are no network namespaces here: $reason"
  reason=$(ip -n "$network_name-switch" link add bridge type bridge 2>&1) || skip "there are no bridges here: $reason"
  ip -n "$network_name-switch" link set bridge up
  for space in a b; do
    ip netns add "$network_name-$space" &&
      ip -n "$network_name-$space" link set lo up &&
      ip -n "$network_name-$space" link add name eth0 type veth peer name "port_$space" netns "$network_name-switch" &&
      ip -n "$network_name-switch" link set "port_$space" master bridge up &&
      ip -n "$network_name-$space" address add "${hosts[number]}/24" dev eth0 &&
      ip -n "$network_name-$space" link set eth0 up || fail "the namespaces cannot be joined"
    number=$((number + 1))
  done
  # remote HOST COMMAND...: as ssh and rsh are called.
  cat >"$work/remote" <<END
#!/bin/sh
host=\$1
shift
case \$host in
  ${hosts[0]} | node-a | a) host=a core=0 ;;
  ${hosts[1]} | node-b | b) host=b core=1 ;;
esac
exec ip netns exec $network_name-\$host $own_core unshare --uts sh -c "hostname node-\$host; \$*"
END
  chmod +x "$work/remote"
}

# limit_rate RATE: of what each machine sends, as tc writes it (1gbit). A second call changes it. After a pause the
# first 70 KB go at once, which no cable would let happen; they must be at least a packet of the kernel's own, of 64 KiB.
limit_rate() {
  local space
  for space in a b; do
    ip netns exec "$network_name-$space" tc qdisc replace dev eth0 root tbf rate "$1" burst 70kb latency 20ms ||
      fail "the rate of a link cannot be limited to $1"
  done
}

# across LIBRARY=MPIRUN SECONDS PROGRAM FLAGS...: one task on each machine.
across() {
  local library=${1%%=*} mpirun=${1#*=} seconds=$2
  local command=("$mpirun" -n 2)
  shift 2
  case $library in
    openmpi)
      # By name: mpirun of Open MPI 5 asks a machine for its name, and no longer finds it by its address then.
      command+=(--mca plm_rsh_agent "$work/remote" --mca btl 'tcp,self,vader' --mca btl_tcp_if_include 10.77.0.0/24
        --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none -H node-a:1,node-b:1)
      ;;
    mpich)
      # The MPI_Finalize of MPICH 4.0.2 hangs at times: one task waits for an answer of the other, which is in a barrier
      # that gives none. With UCX_TCP_PUT_ENABLE=n it does so less often.
      command+=(-launcher rsh -launcher-exec "$work/remote" -iface eth0 -genv UCX_TLS 'tcp,self'
        -genv UCX_TCP_PUT_ENABLE n -genv UCX_NET_DEVICES eth0 -hosts "${hosts[0]},${hosts[1]}")
      ;;
    *) fail "no MPI library is called $library" ;;
  esac
  command+=("$@")
  limit "$seconds" "$work/remote" a "exec ${command[*]@Q}"
}
