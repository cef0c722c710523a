# Last totals under the shipped unit, in a machine of benches/boot.sh, which sources this: alice's programs end while the
# agent is stopped, and the next agent has all of their calls, in its metrics and in the database.
# shellcheck shell=sh disable=SC2034,SC2154 # totals is what it sets; wrong and folder are the bench's
calls=300

has_metric() { page 9461 /metrics | grep -q "^throughline_$1"; }
stored_calls() {
    inside throughline job show "${1:-last}" --json | grep -o '"operation":"allreduce","calls":[0-9]*' | sed -n '1s/.*://p'
}
is_stored() { [ "$(stored_calls)" = $((2 * calls)) ] && [ "$(count_jobs)" = "$1" ]; }
count_jobs() { inside throughline job list --json | grep -o '"job_key"' | wc -l; }
left() { inside find /run/throughline/mpi.sock.last -mindepth 1 -printf '%u:%g %m\n'; }
nothing_left() { [ -z "$(left)" ]; }

program() {
    as alice mpirun -n 2 throughline-exec allreduce $calls 10 0 >"$folder/program" 2>&1
}

# Whether two files lie there that the agent's group alone may read, and bob finds and reads none.
is_left_for_agent() {
    [ "$(left | sort -u)" = 'alice:throughline 640' ] && [ "$(left | wc -l)" = 2 ] &&
        file=$(inside find /run/throughline/mpi.sock.last -type f -print -quit) &&
        ! as bob ls /run/throughline/mpi.sock.last >/dev/null && ! as bob cat "$file" >/dev/null
}

# Two programs: the agent knows the first one's ranks, and never saw those of the second.
last_totals() {
    program &
    running=$!
    expect "ranks did not connect" until_true has_metric 'connected_ranks{source="mpi"} 2'
    inside systemctl stop throughline-agent
    expect "the program failed" wait $running
    expect "last totals were not left" is_left_for_agent
    inside systemctl start throughline-agent
    expect "totals were not recovered" until_true has_metric "mpi_calls_total{operation=\"allreduce\"} $((2 * calls))\$"
    expect "ends were not recovered" has_metric 'recovered_ends_total{source="mpi"} 2'
    expect "the database has not all calls" until_true is_stored 1
    expect "files of recovered totals stay" until_true nothing_left

    inside systemctl stop throughline-agent
    expect "the second program failed" program
    expect "last totals were not left by the second program" is_left_for_agent
    inside systemctl start throughline-agent
    expect "the database has not all calls of the second program" until_true is_stored 2
    expect "files of the second program stay" until_true nothing_left
    totals="; calls of two programs that ended without an agent: $(stored_calls last-1) and $(stored_calls) of $((2 * calls))"
}
