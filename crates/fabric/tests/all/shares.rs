//! `shares`: a job's traffic from a file, laid on the routes of saved tables and fitted to saved counters.

use crate::simulated::{self, CRAWLER, SMALL, Simulated, start};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Node GUID and port of each sending end between two nodes.
fn ends(simulated: &Simulated, from: &str, to: &str) -> Vec<(u64, u64)> {
    let route: Value = serde_json::from_str(&simulated.crawl(&["route", from, to, "--json"])).unwrap();
    let hops = route["hops"].as_array().unwrap().iter();
    let guid = |hop: &Value| u64::from_str_radix(&hop["guid"].as_str().unwrap()[2..], 16).unwrap();
    hops.filter_map(|hop| Some((guid(hop), hop["out_port"].as_u64()?))).collect()
}

fn save(simulated: &Simulated, folder: &Path, name: &str, tool: &str, arguments: &[&str]) {
    std::fs::write(folder.join(name), simulated.tool(tool, arguments)).unwrap();
}

/// Tries until `ibqueryerrors` got an answer of each port: on a busy machine it gives up some after its timeout, leaves them out and ends
/// as if nothing were amiss.
const READS_MAX: u32 = 10;

/// `ibqueryerrors` ends with 1 where it found errors, and says on standard error what did not answer.
fn save_counters(simulated: &Simulated, file: &Path, seconds_ago: u64) {
    let read = || {
        let mut command = simulated.fabric.tool("ibqueryerrors", None).unwrap();
        let output = command.args(["--counters", "--data"]).output().unwrap();
        // The simulator's client says that it is there.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines =
            said.lines().filter(|line| !line.trim().is_empty() && !line.contains("sim_connect: attached"));
        let problems = lines.collect::<Vec<_>>().join("\n");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}: {problems}", output.status);
        (output.stdout, problems)
    };
    let whole = (0..READS_MAX).map(|_| read()).find(|(_, problems)| problems.is_empty());
    let (counters, _) = whole.unwrap_or_else(|| panic!("ibqueryerrors: {}", read().1));
    std::fs::write(file, counters).unwrap();
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds_ago);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

fn shares(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(CRAWLER);
    command.arg("--saved").arg(folder).arg("link-shares").args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn shares_add_up_to_the_counters_and_a_stranger_is_no_job() {
    const JOB_BYTES: u64 = 8_000_000_000;
    const STRANGER_BYTES: u64 = 2_000_000_000;
    let mut simulated = start(&SMALL.to_net().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("case");
    std::fs::create_dir(&case).unwrap();
    save(&simulated, &case, "net", "ibnetdiscover", &[]);
    save(&simulated, &case, "tables", "dump_fts", &[]);
    save_counters(&simulated, &case.join("counters-before"), 600);
    let mut words: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (from, bytes) in [("node0001", JOB_BYTES), ("node0002", STRANGER_BYTES)] {
        for end in ends(&simulated, from, "node0013") {
            *words.entry(end).or_default() += bytes / 4;
        }
    }
    for ((guid, port), words) in &words {
        // The simulator answers for the kind that the node is, and refuses the other.
        let done = ['S', 'H'].map(|letter| {
            let command = format!(
                "PerformanceSet \"{letter}-{guid:016x}\"[{port}] PortCountersExtended.PortXmitData={words}"
            );
            simulated.fabric.console(&command)
        });
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{guid:016x}[{port}]: {done:?}");
    }
    save_counters(&simulated, &case.join("counters-after"), 0);
    let table = folder.path().join("4711.csv");
    std::fs::write(
        &table,
        format!("from,to,bytes,messages\nnode0001,node0013,{JOB_BYTES},1000\nnode0001,node0001,5,1\n"),
    )
    .unwrap();
    let table = table.to_str().unwrap();

    let (code, text, problems) = shares(&case, &["--traffic", table, "--json", "--top", "0"]);
    assert_eq!(code, Some(0), "{problems}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["is_fitted"], true);
    let links = document["links"].as_array().unwrap();
    let near = |value: &Value, expected: u64| {
        let value = value.as_f64().unwrap();
        assert!(
            (value - expected as f64).abs() < 0.02 * (JOB_BYTES + STRANGER_BYTES) as f64,
            "{value} {expected}"
        );
    };
    // The last link, to the host that both send to.
    let last = links.iter().find(|link| link["to"].as_str().unwrap().contains("node0013")).unwrap();
    near(&last["counted_bytes"], JOB_BYTES + STRANGER_BYTES);
    let shares_of = |link: &Value| -> BTreeMap<String, Value> {
        let shares = link["shares"].as_array().unwrap().iter();
        shares
            .map(|share| (share["contributor"].as_str().unwrap().to_owned(), share["bytes"].clone()))
            .collect()
    };
    let found = shares_of(last);
    near(&found["4711"], JOB_BYTES);
    let is_stranger = |name: &str| name.starts_with("unreported, from") && name.contains("node0002");
    let stranger = found.iter().find(|(name, _)| is_stranger(name)).unwrap();
    near(stranger.1, STRANGER_BYTES);
    for link in links.iter().filter(|link| !link["counted_bytes"].is_null()) {
        let sum: f64 = shares_of(link).values().map(|bytes| bytes.as_f64().unwrap()).sum();
        let counted = link["counted_bytes"].as_f64().unwrap();
        let rest = link["rest_bytes"].as_f64().unwrap();
        assert!((sum + rest - counted).abs() < 5.0 + counted * 1e-6, "{link}");
    }
    // The stranger's own cable has nothing of the job.
    let own = links.iter().find(|link| link["from"].as_str().unwrap().contains("node0002")).unwrap();
    assert!(!shares_of(own).contains_key("4711"), "{own}");

    let (_, text, _) = shares(&case, &["--traffic", &format!("alice={table}"), "--top", "3"]);
    assert!(text.contains("alice, measured: 8.0 GB") && text.contains("node0002 mlx5_0: 2.0 GB"), "{text}");

    // Without counters: the file's bytes on its routes, and the text says so.
    std::fs::remove_file(case.join("counters-before")).unwrap();
    let (code, text, _) = shares(&case, &["--traffic", table]);
    assert_eq!(code, Some(0));
    assert!(text.contains("8.0 GB reported") && text.contains("no two readings of the counters"), "{text}");
}

#[test]
fn wrong_traffic_is_named() {
    let simulated = start(&SMALL.to_net().unwrap());
    let folder = tempfile::tempdir().unwrap();
    save(&simulated, folder.path(), "net", "ibnetdiscover", &[]);
    save(&simulated, folder.path(), "tables", "dump_fts", &[]);
    let table = folder.path().join("t.csv");
    let traffic = table.to_str().unwrap().to_owned();
    let failed = |content: &str| {
        std::fs::write(&table, content).unwrap();
        let (code, _, problems) = shares(folder.path(), &["--traffic", &traffic]);
        assert_eq!(code, Some(64), "{problems}");
        problems
    };
    assert!(
        failed("from,to,bytes\nnode0001,nowhere,5\n").contains("no node of this subnet is called 'nowhere'")
    );
    assert!(failed("a,b\n1,2\n").contains("expected the columns from,to,bytes,messages"));
    assert!(failed("from,to,bytes\nnode0001,node0002,-5\n").contains("t.csv"));
    let (code, _, problems) = shares(folder.path(), &["--traffic", "/nonexistent.csv"]);
    assert_eq!(code, Some(64), "{problems}");
    let live = Command::new(CRAWLER).args(["link-shares", "--traffic", &traffic]).output().unwrap();
    assert_eq!(live.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&live.stderr).contains("--saved"));
    simulated::succeed(Command::new(CRAWLER).args(["link-shares", "--help"]));
}
