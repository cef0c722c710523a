//! What `--help` says below the options: examples. Text only.

/// Of the program.
pub const ALL: &str = "\
Examples:
  throughline-fabric discover                    nodes, ports and cables as a table
  throughline-fabric links --degraded            links narrower or slower than they could be
  throughline-fabric top                         the hottest links, live
  throughline-fabric errors                      ports whose error counters grow
  throughline-fabric check                       whatever is wrong; exit status 2 where something is
  throughline-fabric sweep --once                counters of all ports with a link
  throughline-fabric route 0x98039b0300123456 0x98039b0300abcdef
  throughline-fabric run --config fabric.toml    sweeps into the spool, /metrics on port 9462

Every command but run reads saved files as well, with --saved FOLDER. To save a fabric there:
  ibnetdiscover --cache FOLDER/cache             or: ibnetdiscover > FILE; iblinkinfo > FILE
  dump_fts > FOLDER/tables                       for routes; dump_fts -M for multicast trees
  ibqueryerrors --counters --data > FOLDER/1     for counters; several over time give rates
  saquery -g > FOLDER/groups                     for groups; saquery -m for their members
ibdiagnet's db_csv, lst, fdbs and mcfdbs will do, too, and so will .gz of each. What a file is, is
recognised by its content.

A node with an InfiniBand adapter and access to /dev/infiniband/umad* is needed. To try it on a
simulated fabric: `make prefix` unpacks ibsim and opensm and installs nothing. With BIN for bin/
of the folder that it names, and NET for what `ibnetdiscover` printed on any cluster:
  export IBSIM_SOCKNAME=mine OSM_TMP_DIR=/tmp OSM_CACHE_DIR=/tmp
  BIN/ibsim -s NET                               stays in this terminal; in a second one
  BIN/ibsim-run BIN/opensm -f opensm.log &       with the same variables: LIDs and routes
  BIN/ibsim-run throughline-fabric discover

Exit status: 0 done, 1 failed, 2 a check found something, 64 wrong usage or configuration,
69 no device or no subnet manager, 77 no permission.";

/// Of `rejected-batches`.
pub const REJECTED_BATCHES: &str = "\
Examples:
  throughline-fabric rejected-batches
  throughline-fabric rejected-batches --json | jq .

Run it as the daemon's user, with the daemon's --config or --state-dir. The daemon may run meanwhile.";

/// Of `recorder`.
pub const RECORDER: &str = "\
Examples:
  throughline-fabric recorder                                  what there is, by kind
  throughline-fabric recorder --last 10m --of 0x98039b0300123456/1 --json
  throughline-fabric recorder --last 1m --json | jq 'select(.transmit_wait > 0)'

Each reading of each sweep with all counters that were read, of the last hour by default ([recorder] of
fabric.toml), also of ports that stood still and have no row in the database. Run it as the daemon's user, with
the daemon's --config or --state-dir; the daemon runs meanwhile. A standby reads nothing and has nothing.";

/// Of `discover`.
pub const DISCOVER: &str = "\
Examples:
  throughline-fabric discover
  throughline-fabric discover --json | jq -r '.nodes[] | select(.type == \"switch\") | .guid'
  throughline-fabric discover --json | jq '[.nodes[].ports[] | select(.remote)] | length / 2'

A summary, then switch by switch what each port is cabled to; switches with hosts come first. The
second one lists the switches, the third one counts the cables. JSON is one document: every
port of every node but a switch's port 0; null is what is not known. What could not be read is
named on standard error.";

/// Of `links`.
pub const LINKS: &str = "\
Examples:
  throughline-fabric links
  throughline-fabric links --switch leaf003 --down         free or dead ports of one switch
  throughline-fabric links --degraded --json | jq -r '[.a.description, .a.num, .b.description] | @tsv'

One line a cable, the switch's end first. COULD BE is shown where the link is less than both ends
support: DEGRADED where both ends are set to more and the link did not come up with it (a bad cable,
connector or transceiver, most often), \"set to\" where a port's setting keeps it below. A switch's
port that has a link and no REMOTE leads to something that did not answer.";

/// Of `errors`.
pub const ERRORS: &str = "\
Examples:
  throughline-fabric errors                                    what grows within 10 seconds
  throughline-fabric errors --totals --thresholds /etc/infiniband-diags/error_thresholds
  throughline-fabric errors --totals --suppress PortXmitWait,symbol_error
  throughline-fabric errors --totals --details                         and why, if the device reports it
  throughline-fabric errors --interval 60 --json | jq -c 'select(.errors.link_downed)'

One line a port with a counter above its threshold, in rates the growth within the interval. >= is a
counter that stands at its end or was cleared meanwhile: it counted at least so much. Ports of
switches without a link are looked at as well. What could not be read is listed below the errors;
in JSON such lines have `errors` null and the reason in `unread`.";

/// Of `top`.
pub const TOP: &str = "\
Examples:
  throughline-fabric top                               live on a terminal; q quits, s sorts
  throughline-fabric top --sort wait --node leaf003
  throughline-fabric top --once --limit 5
  throughline-fabric top --json --count 60 | jq -c 'select(.a_to_b.utilisation > 0.9) | [.time, .a, .b]'

One line a cable. OUT is from LINK to REMOTE, BACK the other way: share of the link's data rate, and
bytes. PACKETS is both ways together. WAIT is how long each end had data and could not send it: a
share of time where the device's tick is known, else ticks. '-' is what was not read.";

/// Of `check`.
pub const CHECK: &str = "\
Examples:
  throughline-fabric check || echo \"status $?\"
  throughline-fabric check --interval 60 --thresholds site.conf        only what grows
  throughline-fabric check --json | jq -r 'select(.kind == \"link.degraded\") | .description'

Looks for: no subnet manager, LIDs missing or given twice, ports that stay in Initialize or Armed,
nodes and counters that do not answer, links narrower or slower than both ends are set to, errors
above their thresholds, names given twice. transmit_wait is congestion and judged only where a
thresholds file is given.

Exit status: 0 nothing found, 2 something found, 69 it could not look, 64 and 77 as elsewhere.";

/// Of `sweep`.
pub const SWEEP: &str = "\
Examples:
  throughline-fabric sweep --once                          a table
  throughline-fabric sweep --count 10 --interval 0.5 --json
  throughline-fabric sweep --once --json | jq -c 'select(.symbol_error != 0) | [.guid, .num]'
  throughline-fabric sweep --once --json --sets errors,details,fec
  throughline-fabric sweep --plan --config fabric.toml     what the daemon will ask for

Data counters are bytes. A counter that stands at its largest value is null and named in
`saturated`. Counters are only read, never cleared. Ports without any reading have no line
and are named on standard error.";

/// Of `clear`.
pub const CLEAR: &str = "\
Examples:
  throughline-fabric clear --node leaf001 --ports 3           what would be cleared
  throughline-fabric clear --node leaf001 --ports 3 --yes     its error counters are 0 then
  throughline-fabric clear --node leaf001 --counters symbol_error,link_downed --yes

Clearing takes the counters from every other tool, too, and begins a new epoch in the database. It
is never needed for rates: `errors` and the daemon make them from differences.";

/// Of `route`.
pub const ROUTE: &str = "\
Examples:
  throughline-fabric route node0001 node0024
  throughline-fabric route 0x98039b0300123456 0x98039b0300abcdef
  throughline-fabric route --json 17 42 | jq -c '.hops[]'
  throughline-fabric route node0001 node0024 --all-lids
  throughline-fabric route --check
  throughline-fabric route --all --json | gzip > routes.jsonl.gz

A node is named by its node or port GUID, by a LID, by its name as `discover` prints it, by the
name's first word, or by a part that no other node has. The way is read from the switches' linear
forwarding tables: exact with static routing, one possibility with adaptive routing; `kind` says
which. --check walks all pairs, names the table entries that lose packets or let them circle, and
links that can wait for each other's buffers in a circle (a credit loop), and ends with status 2
where it found any. A circle is judged by virtual lane: by the service level of each path, which the
subnet administrator is queried, and the mappings of the switches. Where those are not known, that
is said and is no finding. --all counts all pairs of hosts, or with --json prints each
way on a line of its own.";

/// Of `multicast`.
pub const MULTICAST: &str = "\
Examples:
  throughline-fabric multicast                      all groups as a table
  throughline-fabric multicast 0xc000               one of them: members and tree
  throughline-fabric multicast ff12:401b:ffff::ffff:ffff --json | jq '.tree.links'
  throughline-fabric multicast --check || echo a tree is broken

What the subnet administrator reports about each group, and the tree in the switches' multicast
forwarding tables: the links that carry a broadcast, the hosts it reaches, members it misses.
A line `10 -> 2 NODE` says: out by port 10, in by port 2 of NODE. Members are reported to those who know
the SM_Key; without an administrator only the trees are shown.";

/// Of `usage`.
pub const USAGE: &str = "\
Examples:
  throughline-fabric usage                     the 20 most used links
  throughline-fabric usage --top 0 --json | jq -c '.links[] | select(.pairs == 0)'
  throughline-fabric usage --between rack07 storage

Each direction of a link, with the number of pairs (source host, destination host) whose way
passes it, from the switches' forwarding tables: what each link carries when all hosts talk to
all. The second example lists links that no pair uses; the third counts pairs between two groups
of nodes, in both directions. All pairs together add up to the lengths of all ways.";

/// Of `save`.
pub const SAVE: &str = "\
Examples:
  throughline-fabric save case-17
  throughline-fabric --saved case-17 route node0001 node0002
  throughline-fabric --saved case-17 usage --top 10

The files are what ibnetdiscover, dump_fts -n and dump_fts -M print, without dates: saved twice, a
fabric that has not changed gives the same files. They do not hold the states of ports, nor
counters: add ibqueryerrors --counters --data > case-17/counters.";

/// Of `run`.
pub const RUN: &str = "\
Examples:
  throughline-fabric check-config --config fabric.toml
  throughline-fabric run --config fabric.toml
  THROUGHLINE__SWEEP__INTERVAL_SECONDS=5 throughline-fabric run

It prints `listening fabric=ADDRESS` once it can be scraped, keeps sweeping while the collector
is away (the spool holds the rows), and ends in order on SIGTERM.";
