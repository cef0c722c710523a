//! Layouts against messages that a real Open MPI sent: tests/programs/collectives.c forces each algorithm, and Open MPI's
//! monitoring layer counts what each rank sends to each other inside the collective.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use throughline_shares::collective::{
    Call, Edge, IntercommCall, Library, Operation, RootBetween, assumed, assumed_nonblocking, layout,
    sends_between,
};

/// Bytes of MPI_INT.
const ELEMENT: u64 = 4;

/// Algorithms of each operation by their numbers in coll_tuned_OPERATION_algorithm of Open MPI 4.1, from 1 on.
const FORCED: [(&str, &[&str]); 14] = [
    ("allgather", &["basic_linear", "bruck", "recursivedoubling", "ring", "neighborexchange", "two_procs"]),
    ("allgatherv", &["basic_default", "bruck", "ring", "neighborexchange", "two_procs"]),
    (
        "allreduce",
        &[
            "basic_linear",
            "nonoverlapping",
            "recursivedoubling",
            "ring",
            "ring_segmented",
            "redscat_allgather",
        ],
    ),
    ("alltoall", &["basic_linear", "pairwise", "bruck", "linear_sync", "two_procs"]),
    ("alltoallv", &["basic_linear", "pairwise"]),
    ("barrier", &["basic_linear", "doublering", "recursivedoubling", "bruck", "two_procs", "tree"]),
    (
        "bcast",
        &[
            "basic_linear",
            "chain/4",
            "pipeline",
            "split_bintree",
            "bintree",
            "binomial",
            "knomial",
            "scatter_allgather",
            "scatter_allgather_ring",
        ],
    ),
    ("exscan", &["linear", "recursivedoubling"]),
    ("gather", &["basic_linear", "binomial", "linear_sync"]),
    (
        "reduce",
        &["basic_linear", "chain/4", "pipeline", "binary", "binomial", "in_order_binary", "redscat_gather"],
    ),
    ("reduce_scatter", &["nonoverlapping", "basic_recursivehalving", "ring", "butterfly"]),
    ("reduce_scatter_block", &["basic_linear", "recursivedoubling", "recursivehalving", "butterfly"]),
    ("scan", &["linear", "recursivedoubling"]),
    ("scatter", &["basic_linear", "binomial", "linear_nb"]),
];

/// Algorithms of nonblocking operations by their numbers in coll_libnbc_OPERATION_algorithm of Open MPI 4.1, from 1 on. Others
/// have one.
const FORCED_NONBLOCKING: [(&str, &[&str]); 13] = [
    ("iallgather", &["libnbc:linear", "libnbc:recursive_doubling"]),
    ("iallgatherv", &[]),
    ("iallreduce", &["libnbc:ring", "libnbc:binomial", "libnbc:rabenseifner", "libnbc:recursive_doubling"]),
    ("ialltoall", &[]),
    ("ibarrier", &[]),
    ("ibcast", &["libnbc:linear", "libnbc:binomial", "libnbc:chain", "libnbc:knomial"]),
    ("iexscan", &["libnbc:linear", "libnbc:recursive_doubling"]),
    ("igather", &[]),
    ("ireduce", &["libnbc:chain", "libnbc:binomial", "libnbc:rabenseifner"]),
    ("ireduce_scatter", &[]),
    ("ireduce_scatter_block", &[]),
    ("iscan", &["libnbc:linear", "libnbc:recursive_doubling"]),
    ("iscatter", &[]),
];

/// The operation whose algorithm Open MPI 4.1 sets only at the start of a program, unlike all others.
const AT_START: &str = "allgatherv";
/// Operations for which Open MPI 4.1 has one algorithm.
const SINGLE: [&str; 2] = ["gatherv", "scatterv"];

#[derive(Clone, Debug)]
struct Request {
    operation: &'static str,
    /// 0: the library's own choice.
    number: usize,
    root: u32,
    count: u64,
    step: u64,
    is_in_place: bool,
}

impl Request {
    /// Whether it goes on after its call, and the operation.
    fn parsed(&self) -> (bool, Operation) {
        match self.operation.strip_prefix('i') {
            Some(name) => (true, name.parse().unwrap()),
            None => (false, self.operation.parse().unwrap()),
        }
    }

    fn line(&self) -> String {
        let Self { operation, number, root, count, step, is_in_place } = self;
        let number = if *number == 0 { -1 } else { *number as i32 };
        format!("{operation} {number} {root} {count} {step} {}\n", u8::from(*is_in_place))
    }

    fn call(&self, ranks: u32) -> Call {
        let of_rank = |rank: u32| (self.count + u64::from(rank % 3) * self.step) * ELEMENT;
        let has_each = ["allgatherv", "gatherv", "scatterv", "reduce_scatter"]
            .iter()
            .any(|name| self.operation.ends_with(name));
        let blocks = if has_each { (0..ranks).map(of_rank).collect() } else { vec![self.count * ELEMENT] };
        Call { ranks, root: self.root, blocks, element: ELEMENT }
    }

    fn algorithm(&self, ranks: u32) -> String {
        let own = || {
            let (goes_on, operation) = self.parsed();
            let of = if goes_on { assumed_nonblocking } else { assumed };
            of(Library::OpenMpi, operation, &self.call(ranks)).unwrap().to_owned()
        };
        let all = FORCED.iter().chain(&FORCED_NONBLOCKING);
        let forced = all.clone().find(|(operation, _)| *operation == self.operation);
        match (self.number, forced) {
            (0, _) | (_, None) => own(),
            (number, Some((_, names))) => names[number - 1].to_owned(),
        }
    }
}

/// All operations and algorithms with some sizes, roots, and in place.
fn requests(ranks: u32, counts: &[u64]) -> Vec<Request> {
    let mut requests = Vec::new();
    let all = FORCED.iter().chain(&FORCED_NONBLOCKING).map(|(operation, names)| (*operation, names.len()));
    for (operation, algorithms) in all.chain(SINGLE.iter().map(|operation| (*operation, 0))) {
        let blocking = operation.strip_prefix('i').unwrap_or(operation);
        let has_root = matches!(blocking, "bcast" | "gather" | "gatherv" | "reduce" | "scatter" | "scatterv");
        let roots = if has_root { vec![0, 1, ranks - 1] } else { vec![0] };
        for number in 0..=algorithms {
            let forced = FORCED.iter().find(|(name, _)| *name == operation);
            if forced.is_some_and(|(_, names)| number > 0 && names[number - 1] == "two_procs") && ranks != 2 {
                continue;
            }
            for root in &roots {
                for count in counts {
                    let step = if count % 2 == 1 { count / 3 } else { 0 };
                    for is_in_place in [false, true] {
                        // What can't be in place, or has another algorithm then.
                        let can_be_in_place =
                            !matches!(blocking, "barrier" | "bcast" | "alltoall" | "alltoallv")
                                && (operation, number) != ("iallreduce", 0);
                        if is_in_place && !can_be_in_place {
                            continue;
                        }
                        requests.push(Request {
                            operation,
                            number,
                            root: *root,
                            count: *count,
                            step,
                            is_in_place,
                        });
                    }
                }
            }
        }
    }
    requests
}

fn open_mpi(name: &str) -> Command {
    match std::env::var("THROUGHLINE_TEST_OPENMPI") {
        Ok(folder) => Command::new(format!("{folder}/bin/{name}")),
        Err(_) => Command::new(format!("{name}.openmpi")),
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; install it with apt"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
}

fn compile(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let program = folder.join("collectives");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/collectives.c");
    succeed(open_mpi("mpicc").args(["-O1", "-Wall", "-Wextra", "-rdynamic", "-o"]).arg(&program).arg(source));
    program
}

/// Bytes and messages of each request by sender and receiver.
type Measured = Vec<BTreeMap<(u32, u32), (u64, u64)>>;

fn measure(folder: &Path, program: &Path, ranks: u32, requests: &[Request], settings: &[String]) -> Measured {
    let (list, out) = (folder.join(format!("requests.{ranks}")), folder.join(format!("sent.{ranks}")));
    std::fs::write(&list, requests.iter().map(Request::line).collect::<String>()).unwrap();
    let mut command = open_mpi("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env_remove("LD_PRELOAD").arg("-n").arg(ranks.to_string()).arg("--oversubscribe");
    let always = [
        ("btl", "self,vader"),
        ("pml", "^ucx,cm"),
        ("pml_monitoring_enable", "1"),
        ("coll_tuned_use_dynamic_rules", "1"),
    ];
    for (name, value) in always {
        command.args(["--mca", name, value]);
    }
    for setting in settings.chunks(2) {
        command.arg("--mca").args(setting);
    }
    succeed(command.arg(program).arg(list).arg(&out));
    let mut measured = vec![BTreeMap::new(); requests.len()];
    for rank in 0..ranks {
        let text = std::fs::read_to_string(format!("{}.{rank}", out.display())).unwrap();
        for line in text.lines() {
            let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let [request, peer, bytes, messages] = numbers[..] else { panic!("{line}") };
            // Open MPI 5.0 copies some blocks of its own by messages to itself.
            if peer as u32 != rank {
                measured[request as usize].insert((rank, peer as u32), (bytes, messages));
            }
        }
    }
    measured
}

/// How far layouts are from what was measured.
#[derive(Clone, Debug, Default)]
struct Error {
    calls: usize,
    /// Sum over pairs of the differences, as a part of all bytes of the call; the largest of all calls.
    bytes: f64,
    /// The same for messages.
    messages: f64,
    /// The call with the largest error.
    worst: String,
}

fn compare(found: &mut Error, request: &Request, ranks: u32, measured: &BTreeMap<(u32, u32), (u64, u64)>) {
    let (_, operation) = request.parsed();
    let edges = layout(operation, &request.algorithm(ranks), &request.call(ranks)).unwrap();
    let mut differences = measured.iter().map(|(pair, cell)| (*pair, (cell.0 as i64, cell.1 as i64)));
    let mut by_pair: BTreeMap<(u32, u32), (i64, i64)> = differences.by_ref().collect();
    for Edge { source, destination, bytes, messages } in edges {
        let cell = by_pair.entry((source, destination)).or_default();
        cell.0 -= bytes as i64;
        cell.1 -= messages as i64;
    }
    let part = |wrong: u64, all: u64| if wrong == 0 { 0.0 } else { wrong as f64 / all.max(1) as f64 };
    let bytes = part(
        by_pair.values().map(|cell| cell.0.unsigned_abs()).sum(),
        measured.values().map(|cell| cell.0).sum(),
    );
    let messages = part(
        by_pair.values().map(|cell| cell.1.unsigned_abs()).sum(),
        measured.values().map(|cell| cell.1).sum(),
    );
    found.calls += 1;
    if found.worst.is_empty() || bytes > found.bytes || (bytes == found.bytes && messages > found.messages) {
        found.worst = format!("{ranks} ranks {} model - measured: {by_pair:?}", request.line().trim());
    }
    found.bytes = found.bytes.max(bytes);
    found.messages = found.messages.max(messages);
}

/// Errors by operation and algorithm; calls by the library's own choice are `own choice`.
fn errors(name: &str, worlds: &[u32], counts: &[u64]) -> BTreeMap<(&'static str, String), Error> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("collectives-{name}"));
    let program = compile(&folder);
    let mut errors: BTreeMap<_, Error> = BTreeMap::new();
    for ranks in worlds {
        let (at_start, settable): (Vec<_>, Vec<_>) = requests(*ranks, counts)
            .into_iter()
            .partition(|request| request.operation == AT_START && request.number > 0);
        let mut runs = vec![(Vec::new(), settable)];
        for requests in at_start.chunk_by(|one, other| one.number == other.number) {
            let settings = [format!("coll_tuned_{AT_START}_algorithm"), requests[0].number.to_string()];
            runs.push((settings.to_vec(), requests.to_vec()));
        }
        for (settings, requests) in runs {
            let measured = measure(&folder, &program, *ranks, &requests, &settings);
            for (request, measured) in requests.iter().zip(&measured) {
                let is_own = request.number == 0;
                let name = if is_own { "own choice".to_owned() } else { request.algorithm(*ranks) };
                compare(errors.entry((request.operation, name)).or_default(), request, *ranks, measured);
            }
        }
    }
    errors
}

#[test]
fn layouts_are_what_open_mpi_sends() {
    let all = errors("test", &[2, 5, 6], &[1, 7, 1001]);
    let wrong: Vec<_> = all.iter().filter(|(_, error)| error.bytes > 0.0).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Between the first half of the ranks, in which the root is, and the others.
fn layout_between(
    operation: Operation,
    ranks: u32,
    root: u32,
    block: u64,
) -> BTreeMap<(u32, u32), (u64, u64)> {
    let first = ranks / 2;
    let mut sent = BTreeMap::new();
    for rank in 0..ranks {
        let is_first = rank < first;
        let (here, there) = if is_first { (first, ranks - first) } else { (ranks - first, first) };
        let (own, other) = if is_first { (0, first) } else { (first, 0) };
        let root = if is_first { RootBetween::Here(root) } else { RootBetween::There(root) };
        let call =
            IntercommCall { here, there, root, block_here: block, block_there: block, element: ELEMENT };
        let sends = sends_between(Library::OpenMpi, operation, None, &call, rank - own).unwrap();
        let here = sends.here.iter().map(|sent| (own + sent.peer, sent));
        for (peer, one) in here.chain(sends.there.iter().map(|sent| (other + sent.peer, sent))) {
            let cell: &mut (u64, u64) = sent.entry((rank, peer)).or_default();
            *cell = (cell.0 + one.bytes, cell.1 + one.messages);
        }
    }
    sent
}

#[test]
fn layouts_between_groups_are_what_open_mpi_sends() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("collectives-between");
    let program = compile(&folder);
    let operations = ["allgather", "allreduce", "alltoall", "bcast", "gather", "reduce", "scatter"];
    let names = operations.map(|operation| format!("between_{operation}"));
    for ranks in [3, 7] {
        let all = names.iter().flat_map(|name| [1, 999].map(|count| (name.as_str(), count)));
        let requests: Vec<Request> = all
            .map(|(operation, count)| Request {
                operation: operation.to_owned().leak(),
                number: 0,
                root: ranks / 2 - 1,
                count,
                step: 0,
                is_in_place: false,
            })
            .collect();
        let measured =
            measure(&folder, &program, ranks, &requests, &["coll".to_owned(), "^monitoring".to_owned()]);
        for (request, measured) in requests.iter().zip(&measured) {
            let operation = request.operation.trim_start_matches("between_").parse().unwrap();
            let expected = layout_between(operation, ranks, request.root, request.count * ELEMENT);
            assert_eq!(*measured, expected, "{ranks} ranks {}", request.line());
        }
    }
}

/// The table of docs/BENCHMARKS.md; see benches/collectives.sh.
#[test]
#[ignore = "measures for minutes: benches/collectives.sh"]
fn table() {
    let numbers = |name: &str, default: &[u64]| -> Vec<u64> {
        let Ok(text) = std::env::var(name) else { return default.to_vec() };
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    let worlds: Vec<u32> =
        numbers("RANKS", &[2, 3, 4, 5, 6, 7, 8, 9]).into_iter().map(|ranks| ranks as u32).collect();
    let counts = numbers("COUNTS", &[1, 2, 5, 16, 63, 500, 1025, 4099, 20_000, 65_537, 300_001]);
    println!("| operation | algorithm | calls | bytes wrong, most | messages wrong, most |");
    println!("| --- | --- | --- | --- | --- |");
    let errors = errors("table", &worlds, &counts);
    for ((operation, algorithm), error) in &errors {
        let Error { calls, bytes, messages, worst } = error;
        println!(
            "| {operation} | {algorithm} | {calls} | {:.2} % | {:.1} % |",
            bytes * 100.0,
            messages * 100.0
        );
        if std::env::var_os("WORST").is_some() && (*bytes > 0.0 || *messages > 0.0) {
            println!("    {worst}");
        }
    }
}
