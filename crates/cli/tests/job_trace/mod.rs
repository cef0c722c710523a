//! `throughline job trace` on a real program: 4 ranks, messages of every kind, known pauses, clocks that are off,
//! drift and step. The file is read by a JSON parser that knows nothing of it.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

const ROUNDS: u64 = 40;
/// What the program sends in each round.
const MESSAGES: u64 = 32;

/// Clocks of ranks 1 to 3, in THROUGHLINE_TEST_CLOCK's words. The step is as long as a comparison on a busy machine
/// may take, and ten times that.
const CLOCKS: &str = ";1:offset=50,drift=50;2:offset=-50,drift=-50;3:offset=20,drift=50,step=50@1200";

fn run(stack: &Stack) {
    let folder = stack.folder.path();
    let (program_file, source) =
        (folder.join("timeline"), crates().join("mpit-bridge/tests/programs/timeline.c"));
    done(Command::new("mpicc.openmpi").arg("-O1").arg("-o").arg(&program_file).arg(source));
    let objects = Path::new(env!("CARGO_BIN_EXE_throughline")).with_file_name("lib/throughline");
    let out = format!("OUT={}", objects.display());
    done(Command::new("make").arg("-s").arg("-C").arg(crates().join("mpit-bridge/shim")).arg(out));
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    let origin = now.tv_sec() * 1_000_000_000 + now.tv_nsec();
    let mut launch = Command::new("mpirun.openmpi");
    launch.args(["--oversubscribe", "--bind-to", "none", "-np", "4"]);
    launch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    launch.env("OMPI_MCA_plm", "isolated").env("OMPI_MCA_btl", "self,vader");
    launch.arg(program("throughline-mpit-bridge", "throughline-exec")).arg("--trace").arg(&program_file);
    launch.args([ROUNDS.to_string(), "40".to_owned()]);
    launch.env("THROUGHLINE_SOCKET", folder.join("mpi.sock")).env("THROUGHLINE_LIB_DIR", objects);
    launch.env("THROUGHLINE_TRACE_DIR", folder).env("THROUGHLINE_TRACE_SYNC_MS", "100");
    launch.env("THROUGHLINE_TEST_CLOCK", format!("origin={origin}{CLOCKS}"));
    done(&mut launch);
}

/// Writes the trace again until all of it is in the database.
fn whole(stack: &Stack, file: &str) -> Value {
    let begin = Instant::now();
    loop {
        let output = stack.job(&["trace", "last", "-o", file, "--force", "--json"]);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        let all = ROUNDS * MESSAGES;
        if summary["sent"] == all && summary["received"] == all && summary["lost"] == 0 {
            return summary;
        }
        assert!(begin.elapsed() < PATIENCE, "{summary} {}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// One end of an arrow and the slice around it.
#[derive(Debug)]
struct End {
    process: u64,
    time: f64,
    is_stepped: bool,
    bytes: u64,
    operation: String,
}

/// The ends of all arrows by their number: those that leave, those that arrive. Each lies within a slice.
fn arrows(events: &[Value]) -> [BTreeMap<String, End>; 2] {
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let mut slices: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(number(event, "dur") > 0.0 && number(event, "ts") >= 0.0, "{event}");
        slices
            .entry((event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap()))
            .or_default()
            .push(event);
    }
    ["s", "f"].map(|phase| {
        let mut ends = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] == phase) {
            assert_eq!(event["bp"] == "e", phase == "f", "{event}");
            let (process, time) = (event["pid"].as_u64().unwrap(), number(event, "ts"));
            let around = slices[&(process, event["tid"].as_u64().unwrap())].iter().find(|slice| {
                (number(slice, "ts")..=number(slice, "ts") + number(slice, "dur")).contains(&time)
            });
            let around = around.unwrap_or_else(|| panic!("no slice around {event}"));
            let end = End {
                process,
                time,
                is_stepped: around["args"]["clock"] == "stepped",
                bytes: around["args"]["bytes"].as_u64().unwrap(),
                operation: around["name"].as_str().unwrap().to_owned(),
            };
            assert!(ends.insert(event["id"].as_str().unwrap().to_owned(), end).is_none(), "{event}");
        }
        ends
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_lines_up_and_its_arrows_join_sends_with_receives() {
    let stack = Stack::start().await;
    run(&stack);
    let path = stack.folder.path().join("trace.json");
    let file = path.to_str().unwrap();
    let summary = whole(&stack, file);
    let ranks = summary["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 4);
    assert_eq!(ranks[0]["clock"], "rank 0 itself");
    for rank in &ranks[1..] {
        assert_eq!(rank["clock"], "comparisons", "{rank}");
        assert!(rank["comparisons"].as_u64().unwrap() >= 5, "{rank}");
    }
    assert_eq!(
        ranks.iter().map(|rank| rank["steps"].as_array().unwrap().len()).collect::<Vec<_>>(),
        [0, 0, 0, 1]
    );

    let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(document["otherData"]["job"], summary["job"]);
    let events = document["traceEvents"].as_array().unwrap();
    let names: BTreeSet<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["rank 0 on n1", "rank 1 on n1", "rank 2 on n1", "rank 3 on n1"]));
    assert_eq!(events.iter().filter(|event| event["ph"] == "i").count(), 2, "both ends of the step");

    let [sent, received] = arrows(events);
    assert!(sent.keys().eq(received.keys()));
    assert_eq!(sent.len() as u64, ROUNDS * MESSAGES);
    let error = |end: &End| {
        let rank = usize::try_from(end.process - 1).unwrap();
        ranks[rank]["error_seconds"].as_f64().unwrap_or(0.0) * 1e6
    };
    let mut checked = 0;
    for (id, send) in &sent {
        let receive = &received[id];
        if send.is_stepped || receive.is_stepped {
            continue;
        }
        checked += 1;
        let bound = error(send) + error(receive) + 1.0;
        assert!(receive.time + bound >= send.time, "{id}: {send:?} {receive:?}, within {bound} µs");
        if send.operation == "send" && receive.operation == "recv" {
            assert_eq!(send.bytes, receive.bytes, "{id}: {send:?} {receive:?}");
        }
    }
    // How long the stretch around the step is depends on which comparisons went well on a busy machine.
    assert!(checked * 2 > sent.len(), "{checked} of {} are not near the step", sent.len());

    // The file is not overwritten unasked; parts of it; standard output.
    assert_eq!(stack.job(&["trace", "last", "-o", file]).status.code(), Some(64));
    let part = stack.job(&["trace", "last", "-o", "-", "--ranks", "0-1", "--until", "0.5"]);
    let part: Value = serde_json::from_slice(&part.stdout).unwrap();
    let events = part["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|event| event["pid"].as_u64().unwrap() <= 2), "two ranks");
    assert!(
        events.iter().filter(|event| event["ph"] == "X").all(|event| event["ts"].as_f64().unwrap() <= 5e5)
    );
    assert!(events.iter().any(|event| event["ph"] == "X"));
    let none = stack.job(&["trace", "last", "-o", "-", "--ranks", "9"]);
    assert_eq!(none.status.code(), Some(69), "{}", String::from_utf8_lossy(&none.stderr));
}
