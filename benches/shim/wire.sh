#!/bin/sh
# Is the `wire` matrix what really went? Ranks in network namespaces send over TCP, and the bytes that the interfaces
# counted are held against the matrix, for collectives of several sizes. Needs root, iproute2, Open MPI, a C compiler:
#   benches/shim/wire.sh
#
# Each of the four nodes has two interfaces: `data` carries the ranks' messages and nothing else, `control` the launcher.
# The interfaces must have carried at least what the matrix says, and at most
#   7 % more: headers of Ethernet, IP and TCP (66 bytes) and acknowledgements for segments of 1,448 bytes
#   256 bytes more a message: Open MPI's own header (64 at most), a rendezvous's handshake, segments that are not full
#   256 KiB more a run: connections, and the barrier within MPI_Finalize, which the shim does not see any more.
# Exits 2 if a figure is out of its bounds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nodes=4
folder=$(mktemp -d)
name=tl$$
agent=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    test -z "$agent" || kill "$agent" || true
    for i in $(seq 0 $((nodes - 1))); do
        ip netns del "$name-$i" 2>/dev/null || true
        rm -rf "/etc/netns/$name-$i"
    done
    for part in data control; do ip link del "$name-$part" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap cleanup EXIT

make -s -C "$here/../../crates/mpit-bridge/shim" OUT="$folder"
mpicc.openmpi -O2 -Wall -Wextra -o "$folder/wire" "$here/wire.c"

# Two bridges in the host's namespace would mix with its own links: they are in the first node's.
add_node() {
    space=$name-$1
    ip netns add "$space"
    ip -n "$space" link set lo up
    mkdir -p "/etc/netns/$space"
    for other in $(seq 0 $((nodes - 1))); do echo "10.99.1.$((other + 1)) $name-$other"; done >"/etc/netns/$space/hosts"
    echo "127.0.0.1 localhost" >>"/etc/netns/$space/hosts"
}
add_link() { # part, node, third number of the address
    ip link add "$name-$1" netns "$name-hub" type veth peer name "$1" netns "$name-$2"
    ip -n "$name-hub" link set "$name-$1" name "$1$2" master "$1" up
    ip -n "$name-$2" address add "10.99.$3.$(($2 + 1))/24" dev "$1"
    ip -n "$name-$2" link set "$1" up
}
ip netns add "$name-hub"
trap 'ip netns del "$name-hub" 2>/dev/null || true; cleanup' EXIT
for part in data control; do
    ip -n "$name-hub" link add "$part" type bridge
    ip -n "$name-hub" link set "$part" up
done
for i in $(seq 0 $((nodes - 1))); do
    add_node "$i"
    add_link data "$i" 2
    add_link control "$i" 1
done

# What mpirun calls instead of ssh: enters a node, under its own host name.
cat >"$folder/enter" <<EOF
#!/bin/sh
node=\$1
shift
exec ip netns exec "\$node" unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$1"' "\$node" "\$*"
EOF
chmod +x "$folder/enter"

carried() {
    total=0
    for i in $(seq 0 $((nodes - 1))); do
        total=$((total + $(ip netns exec "$name-$i" cat /sys/class/net/data/statistics/tx_bytes)))
    done
    echo "$total"
}

hosts=$(for i in $(seq 0 $((nodes - 1))); do printf '%s,' "$name-$i"; done)
status=0
measure() {
    rm -f "$folder/mpi.sock"
    python3 "$here/agent.py" "$folder/mpi.sock" >"$folder/reported" &
    agent=$!
    while ! test -S "$folder/mpi.sock"; do sleep 0.05; done
    before=$(carried)
    "$folder/enter" "$name-0" mpirun.openmpi --allow-run-as-root --host "${hosts%,}" -n "$nodes" \
        --mca plm rsh --mca plm_rsh_agent "$folder/enter" --mca btl tcp,self --mca pml ^ucx,cm \
        --mca btl_tcp_if_include data --mca oob_tcp_if_include control --mca orte_keep_fqdn_hostnames 1 \
        -x THROUGHLINE_SOCKET="$folder/mpi.sock" -x THROUGHLINE_WIRE=1 -x LD_PRELOAD="$folder/libthroughline-openmpi.so" \
        "$folder/wire" "$@"
    after=$(carried)
    for _ in $(seq 100); do
        test "$(grep -c wire "$folder/reported")" -lt "$nodes" || break
        sleep 0.05
    done
    kill "$agent"
    wait "$agent" 2>/dev/null || true
    agent=
    awk -v what="$1 of $2 bytes" -v there=$((after - before)) -v ranks="$nodes" '
        $2 == "wire" { bytes += $3; messages += $4; reported++ }
        $2 == "logical" { logical += $3 }
        END {
            most = bytes * 1.07 + messages * 256 + 262144
            good = reported == ranks && there >= bytes && there <= most
            printf "%-28s logical %11d  wire %11d in %6d  interfaces %11d = +%.2f %%  at most %11d  %s\n", what, logical,
                bytes, messages, there, (there / bytes - 1) * 100, most, good ? "PASS" : "FAIL"
            exit !good
        }' "$folder/reported" || status=2
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for operation in allreduce bcast alltoall; do
    measure "$operation" 1000 500
    measure "$operation" 65536 100
    measure "$operation" 1048576 10
done
exit $status
