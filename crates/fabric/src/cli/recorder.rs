//! `recorder`: the readings that this crawler's recorder has, as a summary or reading by reading.

use super::DaemonOptions;
use clap::Args;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::str::FromStr;
use throughline_crawler::run::RECORDER_FOLDER;
use throughline_crawler::run::config::Config;
use throughline_daemon::paths;
use throughline_detail::{DaemonRecorder, Filter, ListOptions};
use throughline_sample::catalogue::by_id;
use throughline_sample::wire::{Batch, IbPortSample};
use throughline_sample::{Guid, to_rfc3339};

/// Options of `recorder`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    list: ListOptions,
    /// List readings of this port only, as 0x98039b0300123456/1 (GUID of its node and number); may be repeated
    #[arg(long, value_name = "GUID/PORT")]
    of: Vec<PortAt>,
    #[command(flatten)]
    pub daemon: DaemonOptions,
}

/// A port by the GUID of its node and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortAt(u64, u32);

impl FromStr for PortAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(guid, port)| {
            let guid: Guid = guid.parse().ok()?;
            Some(Self(guid.0, port.parse().ok()?))
        });
        parts.ok_or_else(|| format!("{text:?} is no port as 0x98039b0300123456/1"))
    }
}

/// Runs the command.
///
/// # Errors
/// There is no recorder here (69), or output fails.
pub fn run(options: &Options, config: &Config) -> anyhow::Result<ExitCode> {
    let state = paths::state_dir(options.daemon.state_dir.as_deref().or(config.state_dir.as_deref()))?;
    let filter =
        Filter { ports: options.of.iter().map(|port| (port.0, port.1)).collect(), ..Filter::default() };
    let listed = DaemonRecorder {
        daemon: "throughline-fabric",
        folder: &state.join(RECORDER_FOLDER),
        is_memory_only: config.spool.memory_only,
    };
    options.list.list(listed, filter, samples)
}

/// The readings of a batch as JSON, by kind.
fn samples(batch: &Batch) -> Map<String, Value> {
    let readings: Vec<Value> = batch.ib_ports.iter().map(reading).collect();
    let there = Some(readings).filter(|readings| !readings.is_empty());
    there.map(|readings| ("ports".to_owned(), Value::Array(readings))).into_iter().collect()
}

/// Keys are the catalogue's short names; what was not read is left out, and a counter that stood at its maximum is named.
fn reading(port: &IbPortSample) -> Value {
    let name = |id: &u32| by_id(*id).map(|metric| metric.name);
    let mut reading = json!({
        "node_guid": Guid(port.node_guid),
        "port": port.port,
        "time": to_rfc3339(port.time),
        "source": port.source,
    });
    if !port.saturated.is_empty() {
        reading["saturated"] = port.saturated.iter().filter_map(name).collect();
    }
    for (id, value) in port.values.iter().flat_map(|values| values.iter()) {
        if let Some(name) = name(&id) {
            reading[name] = value.into();
        }
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::catalogue::{SYMBOL_ERROR, TRANSMIT_DATA_BYTES};
    use throughline_sample::wire::Values;

    #[test]
    fn a_reading_names_what_was_read_and_what_stands_at_its_maximum() {
        let values = Values { metric: vec![TRANSMIT_DATA_BYTES.id], value: vec![4096] };
        let port = IbPortSample {
            time: 1_000_000_000,
            node_guid: 0x10,
            port: 3,
            values: Some(values),
            saturated: vec![SYMBOL_ERROR.id],
            source: "pma".into(),
            ..IbPortSample::default()
        };
        let found = samples(&Batch { ib_ports: vec![port], ..Batch::default() });
        let reading = &found["ports"][0];
        assert_eq!(reading["transmit_data_bytes"], 4096);
        assert_eq!(reading["saturated"], json!(["symbol_error"]));
        assert_eq!(reading["node_guid"], "0x0000000000000010");
        assert_eq!(reading["time"], "1970-01-01T00:00:01.000000Z");
        assert!(samples(&Batch::default()).is_empty());
    }

    #[test]
    fn a_port_is_a_guid_and_a_number() {
        assert_eq!("0x98039b0300123456/1".parse(), Ok(PortAt(0x9803_9b03_0012_3456, 1)));
        for wrong in ["0x98039b0300123456", "mlx5_0/1", "0x1/x", ""] {
            assert!(wrong.parse::<PortAt>().is_err(), "{wrong}");
        }
    }
}
