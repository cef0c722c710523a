//! Readings as JSON lines and as a table for people.

use crate::mad::counter_metrics;
use crate::topology::{Topology, aligned, label};
use crate::{reading::PortReading, reading::Sets};
use std::io::{self, Write};
use throughline_sample::catalogue::PORT_RATE_BYTES_PER_SECOND;

/// Writes readings as JSON lines: one object a port, every counter of the chosen sets by its name, null where
/// it was not read or is saturated; saturated ones are named in `saturated`.
pub struct JsonLines {
    /// Position and `,"name":` of each metric.
    keys: Vec<(usize, String)>,
    line: Vec<u8>,
    /// UTC second of `second_text`.
    second: i64,
    second_text: String,
}

/// Nanoseconds in a second.
const NANOSECONDS: i64 = 1_000_000_000;

impl Default for JsonLines {
    fn default() -> Self {
        JsonLines::of(Sets::USUAL)
    }
}

impl JsonLines {
    /// Lines with the counters of these sets.
    #[must_use]
    pub fn of(sets: Sets) -> JsonLines {
        let chosen = sets.metrics();
        let keys = counter_metrics().iter().enumerate().filter(|(index, _)| chosen & (1 << index) != 0);
        let keys = keys.map(|(index, metric)| (index, format!(",\"{}\":", metric.name))).collect();
        JsonLines { keys, line: Vec::with_capacity(1024), second: i64::MIN, second_text: String::new() }
    }

    /// Writes one line per port with anything read.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&mut self, out: &mut dyn Write, readings: &[PortReading]) -> io::Result<()> {
        for reading in readings.iter().filter(|reading| !reading.counters.is_empty()) {
            self.format(reading);
            out.write_all(&self.line)?;
        }
        Ok(())
    }

    fn format(&mut self, reading: &PortReading) {
        self.line.clear();
        // Writing to a Vec can't fail.
        let _ = write!(
            self.line,
            "{{\"guid\":\"{}\",\"num\":{},\"lid\":{},\"time\":\"",
            reading.guid, reading.port, reading.lid
        );
        self.push_time(reading.time);
        self.line.push(b'"');
        for (index, key) in &self.keys {
            self.line.extend_from_slice(key.as_bytes());
            match reading.counters.exact(*index) {
                Some(value) => push_number(&mut self.line, value),
                None => self.line.extend_from_slice(b"null"),
            }
        }
        match reading.rate_bytes_per_second {
            // Writing to a Vec can't fail.
            Some(rate) => drop(write!(self.line, ",\"{}\":{rate}", PORT_RATE_BYTES_PER_SECOND.name)),
            None => drop(write!(self.line, ",\"{}\":null", PORT_RATE_BYTES_PER_SECOND.name)),
        }
        self.line.extend_from_slice(b",\"saturated\":[");
        let mut separator = "\"";
        for (index, metric) in counter_metrics().iter().enumerate() {
            if reading.counters.is_saturated(index) {
                let _ = write!(self.line, "{separator}{}\"", metric.name);
                separator = ",\"";
            }
        }
        self.line.extend_from_slice(b"]}\n");
    }

    /// RFC 3339 to the microsecond; the text of a second is made once.
    fn push_time(&mut self, time: i64) {
        let second = time.div_euclid(NANOSECONDS);
        if second != self.second {
            let text = throughline_sample::to_rfc3339(second.saturating_mul(NANOSECONDS));
            self.second_text = text.split('.').next().unwrap_or_default().to_owned();
            self.second = second;
        }
        let _ = write!(self.line, "{}.{:06}Z", self.second_text, time.rem_euclid(NANOSECONDS) / 1000);
    }
}

/// Decimal digits of a number.
fn push_number(line: &mut Vec<u8>, value: u128) {
    let Ok(mut rest) = u64::try_from(value) else {
        let _ = write!(line, "{value}");
        return;
    };
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
}

/// A table of the counters most often needed, one line per port.
#[must_use]
pub fn to_table(topology: &Topology, readings: &[PortReading]) -> String {
    let metric = |name: &str| counter_metrics().iter().position(|metric| metric.name == name);
    let shown = ["transmit_data_bytes", "receive_data_bytes", "transmit_wait"].map(metric);
    let traffic =
        ["transmit_data_bytes", "receive_data_bytes", "transmit_packets", "receive_packets", "transmit_wait"];
    let errors: Vec<usize> = (0..counter_metrics().len())
        .filter(|index| {
            let name = counter_metrics()[*index].name;
            !traffic.contains(&name)
                && !name.ends_with("cast_transmit_packets")
                && !name.ends_with("cast_receive_packets")
                && !name.ends_with("_flow_packets")
                && !name.starts_with("operation_")
                && !name.starts_with("fec_corrected")
        })
        .collect();
    let mut rows = vec![
        ["NODE", "PORT", "LID", "SENT BYTES", "RECEIVED BYTES", "WAIT TICKS", "ERRORS"].map(str::to_owned),
    ];
    for reading in readings {
        let node = &topology.nodes[reading.node];
        let cell = |index: Option<usize>| {
            let value = index.and_then(|index| reading.counters.exact(index));
            let saturated = index.is_some_and(|index| reading.counters.is_saturated(index));
            value.map_or_else(
                || if saturated { "saturated" } else { "?" }.to_owned(),
                |value| value.to_string(),
            )
        };
        let errors: Vec<String> = errors
            .iter()
            .filter(|index| reading.counters.exact(**index) != Some(0))
            .filter(|index| {
                reading.counters.exact(**index).is_some() || reading.counters.is_saturated(**index)
            })
            .map(|index| format!("{}={}", counter_metrics()[*index].name, cell(Some(*index))))
            .collect();
        let errors =
            if let Some(reason) = reading.failure { format!("not read: {reason}") } else { errors.join(" ") };
        let [sent, received, wait] = shown.map(cell);
        rows.push([
            label(&node.description, node.guid),
            reading.port.to_string(),
            reading.lid.to_string(),
            sent,
            received,
            wait,
            errors,
        ]);
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{ClassPortInfo, Counters, NodeKind, PMA_DATA_BYTES, PortCounterSet};
    use throughline_sample::Guid;

    #[test]
    fn a_line_is_one_json_object_with_every_counter() {
        let capabilities = ClassPortInfo { capabilities: 0x1200, ..ClassPortInfo::default() };
        let mut counters = Counters::default();
        let mut data = [0; PMA_DATA_BYTES];
        data[4..6].fill(0xFF);
        counters.decode(PortCounterSet::Classic, &data, &capabilities).unwrap();
        let mut data = [0; PMA_DATA_BYTES];
        data[8..15].fill(0xFF);
        data[15] = 0xFE;
        counters.decode(PortCounterSet::Extended, &data, &capabilities).unwrap();
        let reading = PortReading {
            rate_bytes_per_second: Some(12_500_000_000),
            time: 1_790_000_000_123_456_789,
            counters,
            ..PortReading::new(0, Guid(0x10), NodeKind::Switch, 3, 7)
        };
        let mut out = Vec::new();
        JsonLines::default().write(&mut out, &[reading, reading]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2);
        let line = text.lines().next().unwrap();
        assert!(line.contains(r#""transmit_data_bytes":73786976294838206456,"#), "{line}");
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["guid"], "0x0000000000000010");
        assert_eq!(object["time"], "2026-09-21T14:13:20.123456Z");
        assert_eq!(object["symbol_error"], serde_json::Value::Null);
        assert_eq!(object["saturated"], serde_json::json!(["symbol_error"]));
        assert_eq!(object["link_downed"], 0);
        let names: Vec<_> = counter_metrics().iter().map(|metric| metric.name).collect();
        assert!(names[..22].iter().all(|name| object.get(name).is_some()));
        assert!(names[22..].iter().all(|name| object.get(name).is_none()), "not requested: not there");
        let mut out = Vec::new();
        JsonLines::of(Sets::ALL).write(&mut out, &[reading]).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(names.iter().all(|name| object.get(name).is_some()), "{object}");
    }

    #[test]
    fn numbers_are_decimal() {
        for value in [0, 9, 10, u128::from(u64::MAX), u128::from(u64::MAX) * 4] {
            let mut line = Vec::new();
            push_number(&mut line, value);
            assert_eq!(String::from_utf8(line).unwrap(), value.to_string());
        }
    }
}
