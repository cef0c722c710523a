//! What really crossed each cable, by source and destination: counters of nftables in each namespace, where packets come in.
//!
//! Each packet is counted once a cable, behind the limit of the port that sent it, so that a flow's counters on a cable add up
//! to the port's. They are read four times a second and interpolated at the edges of windows.
//!
//! An nft in each namespace stays and answers in a millisecond: one that is started for each reading takes tenths of a second
//! on a busy machine, and nobody knows at which moment of them it read.

use anyhow::Context;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use throughline_demo::emulate::counters::port_bytes;
use throughline_demo::emulate::plan::{IP_HEADER_BYTES, Plan, port_of};
use throughline_demo::emulate::space::{FabricNamespaces, run};
use throughline_infiniband::topology::PortEnd;

/// From one reading to the next.
const STEP: Duration = Duration::from_millis(250);

/// A set that the kernel fills by itself: a counter for each way in, source and destination.
const TABLE: &str = "table ip emulate {
  set flows {
    type ifname . ipv4_addr . ipv4_addr
    size 65535
    flags dynamic
    counter
  }
  chain in {
    type filter hook prerouting priority -300; policy accept;
    add @flows { iifname . ip saddr . ip daddr }
  }
}
";

/// A flow on a direction of a cable: the end that sends there, source and destination.
pub type Flow = (PortEnd, Ipv4Addr, Ipv4Addr);

/// A flow by the port where it comes in.
type Incoming = (u8, Ipv4Addr, Ipv4Addr);

/// Readings of a flow: seconds since 1970, and bytes as a port counts them.
pub type Series = Vec<(f64, f64)>;

/// Reads the counters until it is stopped.
pub struct Truth {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<BTreeMap<Flow, Series>>>,
}

impl Truth {
    /// Lays the tables and starts reading.
    ///
    /// # Errors
    /// nft refuses the table.
    pub async fn start(plan: &Plan, spaces: &FabricNamespaces, nft: PathBuf) -> anyhow::Result<Truth> {
        let mut readers = Vec::new();
        for node in 0..plan.nodes.len() {
            let pid = spaces.pid(node);
            let mut command = spaces.command(pid, &nft);
            command.args(["-f", "-"]);
            run(command, TABLE)
                .await
                .with_context(|| format!("nft in the namespace of {}", plan.nodes[node].name))?;
            let mut words = spaces.entering(pid);
            words.push(nft.display().to_string());
            readers.push(Reader::start(&words).context("starting nft")?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, plan) = (stop.clone(), plan.clone());
        let thread = std::thread::spawn(move || {
            let mut series = BTreeMap::new();
            let mut times = vec![now(); readers.len()];
            while !stopped.load(Ordering::Relaxed) {
                read_all(&plan, &mut readers, &mut times, &mut series)?;
                std::thread::sleep(STEP);
            }
            read_all(&plan, &mut readers, &mut times, &mut series)?;
            Ok(series)
        });
        Ok(Truth { stop, thread })
    }

    /// All readings.
    ///
    /// # Errors
    /// A reading failed.
    pub fn finish(self) -> anyhow::Result<BTreeMap<Flow, Series>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread that reads flows broke off"))?
    }
}

/// An nft that answers a line with a line. Dropped, it ends.
struct Reader {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Reader {
    /// Starts the program of these words.
    fn start(words: &[String]) -> anyhow::Result<Reader> {
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args(["--json", "--interactive"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("its input is closed")?;
        let output = child.stdout.take().context("its output is closed")?;
        Ok(Reader { child, input, output: BufReader::new(output), line: String::new() })
    }

    /// What it says now of the flows.
    fn read(&mut self) -> anyhow::Result<&str> {
        self.input.write_all(b"list set ip emulate flows\n")?;
        self.line.clear();
        let length = self.output.read_line(&mut self.line)?;
        anyhow::ensure!(length > 0, "it ended");
        Ok(&self.line)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Readings of all namespaces; `times` are those of the readings before.
fn read_all(
    plan: &Plan,
    readers: &mut [Reader],
    times: &mut [f64],
    series: &mut BTreeMap<Flow, Series>,
) -> anyhow::Result<()> {
    for (node, reader) in readers.iter_mut().enumerate() {
        let before = now();
        let said = reader.read().with_context(|| format!("nft of {}", plan.nodes[node].name))?;
        let time = f64::midpoint(before, now());
        let last = std::mem::replace(&mut times[node], time);
        for ((port, source, destination), bytes) in read(said)? {
            // What comes in here was sent at the other end.
            let Some(sender) = plan.across(PortEnd { node, port }) else { continue };
            // A new flow had nothing when its namespace was read before.
            let own = series.entry((sender, source, destination)).or_insert_with(|| vec![(last, 0.0)]);
            own.push((time, bytes as f64));
        }
    }
    Ok(())
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What `nft -j list set` prints: bytes of each flow as a port counts them.
fn read(json: &str) -> anyhow::Result<Vec<(Incoming, u64)>> {
    #[derive(Deserialize)]
    struct Document {
        nftables: Vec<Object>,
    }
    #[derive(Deserialize)]
    struct Object {
        set: Option<Set>,
    }
    #[derive(Deserialize)]
    struct Set {
        #[serde(default)]
        elem: Vec<Element>,
    }
    #[derive(Deserialize)]
    struct Element {
        elem: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        val: Concatenation,
        counter: Counter,
    }
    #[derive(Deserialize)]
    struct Concatenation {
        concat: (String, Ipv4Addr, Ipv4Addr),
    }
    #[derive(Deserialize)]
    struct Counter {
        packets: u64,
        bytes: u64,
    }
    let document: Document = serde_json::from_str(json).context("reading what nft printed")?;
    let elements = document.nftables.into_iter().filter_map(|object| object.set).flat_map(|set| set.elem);
    Ok(elements
        .filter_map(|Element { elem: Inner { val: Concatenation { concat }, counter } }| {
            let bytes = port_bytes(counter.bytes, counter.packets, IP_HEADER_BYTES);
            Some(((port_of(&concat.0)?, concat.1, concat.2), bytes))
        })
        .collect())
}

/// Bytes of a flow between two times, interpolated; nothing before its first reading.
#[must_use]
pub fn between(series: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let at = |time: f64| {
        let after = series.partition_point(|(read, _)| *read < time);
        match (after.checked_sub(1).map(|before| series[before]), series.get(after)) {
            (Some((t0, v0)), Some((t1, v1))) => v0 + (v1 - v0) * (time - t0) / (t1 - t0).max(1e-9),
            (Some((_, last)), None) => last,
            (None, _) => 0.0,
        }
    };
    at(to) - at(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_as_ports_count_them() {
        // As nft 1.0.6 prints it.
        let json = r#"{"nftables":[{"metainfo":{"version":"1.0.6","json_schema_version":1}},{"set":{"family":"ip",
            "name":"flows","table":"emulate","type":["ifname","ipv4_addr","ipv4_addr"],"handle":2,"size":65535,
            "flags":["dynamic"],"elem":[{"elem":{"val":{"concat":["p5","10.64.0.3","10.64.0.7"]},
            "counter":{"packets":10,"bytes":41480}}},{"elem":{"val":{"concat":["management","10.65.0.1","10.65.0.2"]},
            "counter":{"packets":1,"bytes":52}}}]}}]}"#;
        let flow = (5, Ipv4Addr::new(10, 64, 0, 3), Ipv4Addr::new(10, 64, 0, 7));
        assert_eq!(read(json).unwrap(), [(flow, 10 * (4096 + 24))]);
        assert!(read("no such set").is_err());
    }

    #[test]
    fn edges_between_readings_are_interpolated() {
        let series = [(10.0, 0.0), (12.0, 200.0), (14.0, 200.0)];
        assert_eq!(between(&series, 11.0, 13.0), 100.0);
        assert_eq!(between(&series, 0.0, 20.0), 200.0);
        assert_eq!(between(&[], 0.0, 20.0), 0.0);
    }
}
