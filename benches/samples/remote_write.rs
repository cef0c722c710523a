//! Samples of records as requests of Prometheus' remote write, version 1 (`prompb/remote.proto`), with the names and labels of
//! scraping.

use std::collections::HashMap;
use throughline_sample::catalogue::{HCA_PORT_PREFIX, Metric, SWITCH_PORT_PREFIX, Table};
use throughline_sample::wire::{Batch, Values};

/// Samples that wait for a request: each a message `TimeSeries` with one sample.
pub struct Request {
    names: HashMap<(u32, bool), String>,
    series: Vec<Vec<u8>>,
    pub samples: u64,
}

impl Request {
    pub fn new() -> Self {
        let name = |metric: &Metric, prefix| metric.prometheus_name(prefix);
        let ports = [(SWITCH_PORT_PREFIX, false), (HCA_PORT_PREFIX, true)];
        let of_ports = ports.iter().flat_map(|(prefix, is_host)| {
            let metrics = Table::IbPortCounters.metrics().iter();
            metrics.map(move |metric| ((metric.id, *is_host), name(metric, prefix)))
        });
        let of_links = Table::NvlinkCounters.metrics().iter();
        let of_links = of_links.map(|metric| ((metric.id, false), name(metric, "throughline_nvlink_")));
        Self { names: of_ports.chain(of_links).collect(), series: Vec::new(), samples: 0 }
    }

    /// All samples of a batch's ports and links.
    pub fn add(&mut self, batch: &Batch) {
        let instance = batch.fabric.as_ref().map(|fabric| fabric.name.clone()).unwrap_or_default();
        for sample in &batch.ib_ports {
            // Switches have GUIDs of another maker here.
            let is_host = sample.node_guid >> 32 != 0x0002_c903;
            let guid = format!("{:#018x}", sample.node_guid);
            let labels = [("guid", guid), ("instance", instance.clone()), ("port", sample.port.to_string())];
            self.values(sample.values.as_ref(), is_host, &labels, sample.time / 1_000_000);
        }
        for sample in &batch.gpu_links {
            for link in &sample.links {
                let labels = [
                    ("gpu", sample.gpu_uuid.clone()),
                    ("instance", batch.node.clone()),
                    ("link", link.link.to_string()),
                ];
                self.values(link.values.as_ref(), false, &labels, sample.time / 1_000_000);
            }
        }
    }

    fn values(&mut self, values: Option<&Values>, is_host: bool, labels: &[(&str, String)], time: i64) {
        let Some(values) = values else { return };
        for (metric, value) in values.metric.iter().zip(&values.value) {
            let Some(name) = self.names.get(&(*metric, is_host)) else { continue };
            let mut series = Vec::with_capacity(200);
            put_label("__name__", name, &mut series);
            labels.iter().for_each(|(name, text)| put_label(name, text, &mut series));
            let mut sample = vec![9];
            sample.extend((*value as f64).to_le_bytes());
            sample.push(16);
            put_varint(time.cast_unsigned(), &mut sample);
            put_field(18, &sample, &mut series);
            self.series.push(series);
            self.samples += 1;
        }
    }

    /// Bodies of what waits, of so many samples each.
    pub fn take(&mut self, most: usize) -> anyhow::Result<Vec<Vec<u8>>> {
        let body = |series: &[Vec<u8>]| {
            let mut message = Vec::new();
            series.iter().for_each(|series| put_field(10, series, &mut message));
            Ok(snap::raw::Encoder::new().compress_vec(&message)?)
        };
        let bodies = self.series.chunks(most).map(body).collect();
        self.series.clear();
        bodies
    }
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A field of bytes, by its key with the wire type.
fn put_field(key: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(key);
    put_varint(bytes.len() as u64, out);
    out.extend(bytes);
}

fn put_label(name: &str, value: &str, out: &mut Vec<u8>) {
    let mut label = Vec::with_capacity(name.len() + value.len() + 4);
    put_field(10, name.as_bytes(), &mut label);
    put_field(18, value.as_bytes(), &mut label);
    put_field(10, &label, out);
}
