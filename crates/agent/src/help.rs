//! Examples, files and variables for `--help`. Only text.

/// For `throughline-agent`.
pub const ALL: &str = "\
Examples:
  throughline-agent once                            what can be read here, what not and why
  throughline-agent gpu topo                        GPUs, adapters and the links between them
  throughline-agent run                             as root, all in its standard place
  throughline-agent run --state-dir ~/throughline   as any user
  mpirun -n 4 throughline-exec ./program            ranks that this node's agent sees

Files:
  /etc/throughline/agent.toml       configuration; see `throughline-agent check-config`
  STATE/spool                       what the collector does not have yet
  STATE/recorder                    the last hour in full resolution; see `throughline-agent recorder`
  /run/throughline/mpi.sock         where ranks connect; STATE/run/mpi.sock with --state-dir
  /run/throughline/agent.sock       where `gpu pause` and `gpu resume` reach a running agent
  /run/throughline/gpu-leases/      while a file is there the GPUs are a profiler's

Environment:
  THROUGHLINE__SECTION__KEY=VALUE   any key, for instance THROUGHLINE__HTTP__LISTEN=127.0.0.1:0
  THROUGHLINE_SOCKET=PATH           for ranks of an agent with another socket (throughline-exec)
  XDG_STATE_HOME, XDG_RUNTIME_DIR   folders for users other than root

Exit status: 0 done, 64 wrong usage or configuration, 69 something needed is not there (a port
in use, a folder), 77 no permission, 1 any other failure.";

/// For `run`.
pub const RUN: &str = "\
Prints `listening agent=ADDRESS` on standard output when ranks and Prometheus find it. Without a
GPU, an adapter, ranks or a collector it runs and waits: what it reads stays in the spool, up to
spool.bytes_max. On SIGTERM or Ctrl-C it delivers what waits for at most 8 seconds; what is
left is sent after the next start.

Example, beside a server on the same machine:
  throughline serve & throughline-agent run
  curl -s http://127.0.0.1:9461/metrics";

/// For `once`.
pub const ONCE: &str = "\
Needs no collector and no state folder, and ends with 0 whatever is missing. While an agent runs
here, ranks are connected to it: mpi then says start_failed and all else is read.

Examples:
  throughline-agent once | jq '.sources | map_values({up, state, reason})'
  throughline-agent once | jq '.sources.nvml.links[0]'";

/// For `recorder`.
pub const RECORDER: &str = "\
Reads the folder STATE/recorder beside the agent that writes it, with up to half a second of delay. Without
--json it prints the number of records of each kind. Ends with 1 where a part of the ring is damaged;
the rest is printed.

Examples:
  throughline-agent recorder                                        what there is
  throughline-agent recorder --last 10m --kind operations --json    bins of 100 ms of each rank
  throughline-agent recorder --last 1m --device mlx5_0 --json       readings of one adapter
  throughline-agent recorder --job slurm:4711.0 --json > job.jsonl  all of one job on this node";
