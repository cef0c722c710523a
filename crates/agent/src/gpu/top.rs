//! `gpu top`: how much of each link is used.

use super::draw::{percent, rate};
use super::read::{Readings, UnreadableLibraries};
use crate::config::Config;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::{Screen, stop_signal};
use throughline_gpu::convert::link_name;
use throughline_sample::catalogue::{
    Metric, NVLINK_RECEIVE_BYTES, NVLINK_SPEED_BYTES_PER_SECOND, NVLINK_TRANSMIT_BYTES, NVLINK_UP,
    PCIE_RECEIVE_BYTES, PCIE_TRANSMIT_BYTES,
};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{Batch, GpuInfo, Values};

/// What the command line says.
pub struct TopOptions {
    /// From one reading to the next.
    pub interval: Duration,
    /// How many, or without end.
    pub count: Option<u64>,
    /// Each link.
    pub links: bool,
    /// As lines of JSON.
    pub json: bool,
}

/// Prints readings until their number is reached or the program is stopped.
pub async fn run(config: &Config, how: &TopOptions) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    let first = tokio::select! {
        first = Readings::first(config, how.interval) => first?,
        () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    let (mut readings, mut before) = match first {
        Ok(first) => first,
        Err(nothing) => return nothing.report(),
    };
    let whole = |batch: &Batch| -> Vec<GpuInfo> {
        batch.gpus.iter().filter(|gpu| gpu.parent_uuid.is_empty()).cloned().collect()
    };
    let mut gpus = whole(&before);
    let mut shown = 0;
    let screen = if how.json || how.count.is_some() { None } else { Screen::open()? };
    while how.count.is_none_or(|count| shown < count) {
        let read = tokio::select! {
            read = readings.next() => read,
            // The terminal is given back as it was.
            () = stop.cancelled() => break,
        };
        let batch = match read {
            Ok(batch) => batch,
            Err(status) => {
                drop(screen);
                let vendor = readings.vendor();
                readings.stop().await;
                return UnreadableLibraries::of(vendor, *status).report();
            }
        };
        if !batch.gpus.is_empty() {
            gpus = whole(&batch);
        }
        let now = links(&before, &batch);
        let text = if how.json { lines(&gpus, &now) } else { table(&gpus, &now, how.links) };
        show(screen.as_ref(), &text)?;
        shown += 1;
        if let Some(screen) = &screen
            && screen.key(Duration::ZERO)? == Some(b'q')
        {
            break;
        }
        before = batch;
    }
    readings.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// In place on a terminal, one after the other elsewhere.
fn show(screen: Option<&Screen>, text: &str) -> std::io::Result<()> {
    match screen {
        Some(screen) => screen.draw(&format!("{text}\nq: quit")),
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()
        }
    }
}

/// One link, or PCIe, between two readings. What is not known is absent.
#[derive(Clone, Debug, PartialEq)]
struct Use {
    gpu: String,
    /// `None` for PCIe.
    link: Option<u32>,
    time: i64,
    up: Option<bool>,
    speed: Option<f64>,
    transmit: Option<f64>,
    receive: Option<f64>,
}

impl Use {
    fn share(&self, rate: Option<f64>) -> Option<f64> {
        Some(rate? / self.speed.filter(|speed| *speed > 0.0)?)
    }

    fn busiest(&self) -> Option<f64> {
        [self.share(self.transmit), self.share(self.receive)].into_iter().flatten().reduce(f64::max)
    }
}

/// The rate of a counter of one epoch, or nothing.
fn grown(before: Option<&Values>, now: Option<&Values>, metric: &Metric, seconds: f64) -> Option<f64> {
    throughline_sample::rate(before?.get(metric)?, now?.get(metric)?, seconds)
}

/// All links and PCIe of two readings that follow one another.
fn links(before: &Batch, now: &Batch) -> Vec<Use> {
    let mut found = Vec::new();
    for sample in &now.gpu_links {
        let old =
            before.gpu_links.iter().find(|old| old.gpu_uuid == sample.gpu_uuid && old.epoch == sample.epoch);
        let seconds = old.map_or(0.0, |old| (sample.time - old.time) as f64 / 1e9);
        for link in &sample.links {
            let last = old.and_then(|old| old.links.iter().find(|last| last.link == link.link));
            let (last, values) = (last.and_then(|last| last.values.as_ref()), link.values.as_ref());
            let gauge = |metric| values.and_then(|values| values.get(metric));
            found.push(Use {
                gpu: sample.gpu_uuid.clone(),
                link: Some(link.link),
                time: sample.time,
                up: gauge(&NVLINK_UP).map(|up| up != 0),
                speed: gauge(&NVLINK_SPEED_BYTES_PER_SECOND).map(|speed| speed as f64),
                transmit: grown(last, values, &NVLINK_TRANSMIT_BYTES, seconds),
                receive: grown(last, values, &NVLINK_RECEIVE_BYTES, seconds),
            });
        }
    }
    for sample in &now.gpu_pcie {
        let old =
            before.gpu_pcie.iter().find(|old| old.gpu_uuid == sample.gpu_uuid && old.epoch == sample.epoch);
        let seconds = old.map_or(0.0, |old| (sample.time - old.time) as f64 / 1e9);
        let (last, values) = (old.and_then(|old| old.values.as_ref()), sample.values.as_ref());
        found.push(Use {
            gpu: sample.gpu_uuid.clone(),
            link: None,
            time: sample.time,
            up: None,
            speed: None,
            transmit: grown(last, values, &PCIE_TRANSMIT_BYTES, seconds),
            receive: grown(last, values, &PCIE_RECEIVE_BYTES, seconds),
        });
    }
    found
}

/// A sum that is absent where nothing is there to add up.
fn sum<'u>(uses: impl Iterator<Item = &'u Use>, value: impl Fn(&Use) -> Option<f64>) -> Option<f64> {
    uses.filter_map(value).reduce(|sum, value| sum + value)
}

fn table(gpus: &[GpuInfo], uses: &[Use], each: bool) -> String {
    let mut text = String::new();
    let time = uses.first().map_or_else(String::new, |first| to_rfc3339(first.time));
    // Writing to a String can't fail.
    let _ = writeln!(
        text,
        "{:<7} {:>11} {:>11}  {:>7}  {:<22} {:>11} {:>11}  {time}",
        "", "links sent", "received", "of all", "busiest", "PCIe sent", "received"
    );
    let source = gpus.first().map_or("", |gpu| gpu.source.as_str());
    let mut of_gpu: BTreeMap<&str, Vec<&Use>> = BTreeMap::new();
    uses.iter().for_each(|one| of_gpu.entry(one.gpu.as_str()).or_default().push(one));
    for gpu in gpus {
        let uses = of_gpu.get(gpu.uuid.as_str()).map(Vec::as_slice).unwrap_or_default();
        let on_links = || uses.iter().copied().filter(|one| one.link.is_some());
        let pcie = uses.iter().find(|one| one.link.is_none());
        let (sent, received) = (sum(on_links(), |one| one.transmit), sum(on_links(), |one| one.receive));
        // Of the links whose bytes are counted; C2C links have a speed and no bytes.
        let speed = sum(on_links().filter(|one| one.transmit.is_some()), |one| one.speed);
        let more = sent.zip(received).map(|(sent, received)| sent.max(received));
        let busiest = on_links()
            .filter_map(|one| Some((one.busiest().filter(|share| *share > 0.0)?, one.link?)))
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        let busiest = busiest.map_or_else(
            || "-".to_owned(),
            |(share, link)| format!("{} {}", link_name(source, link), percent(Some(share))),
        );
        let _ = writeln!(
            text,
            "GPU {:<3} {:>11} {:>11}  {:>7}  {busiest:<22} {:>11} {:>11}",
            gpu.index,
            rate(sent),
            rate(received),
            percent(more.zip(speed).map(|(rate, speed)| rate / speed)),
            rate(pcie.and_then(|pcie| pcie.transmit)),
            rate(pcie.and_then(|pcie| pcie.receive)),
        );
        for one in on_links().filter(|_| each) {
            let state = if one.up == Some(false) { "down" } else { "" };
            let _ = writeln!(
                text,
                "  {:<13} {:>11} {:>11}  {:>7} {:>7} {state}",
                one.link.map(|link| link_name(source, link)).unwrap_or_default(),
                rate(one.transmit),
                rate(one.receive),
                percent(one.share(one.transmit)),
                percent(one.share(one.receive)),
            );
        }
    }
    if uses.is_empty() {
        let _ = writeln!(text, "{NOTHING_COUNTED}");
    }
    text
}

/// Said where no GPU gives a number.
const NOTHING_COUNTED: &str = "no bytes are counted here: `throughline-agent gpu doctor` shows why";

fn lines(gpus: &[GpuInfo], uses: &[Use]) -> String {
    let mut text = String::new();
    for one in uses {
        let index = gpus.iter().find(|gpu| gpu.uuid == one.gpu).map(|gpu| gpu.index);
        let line = json!({
            "time": to_rfc3339(one.time), "gpu": one.gpu, "index": index,
            "kind": if one.link.is_some() { "link" } else { "pcie" }, "link": one.link, "up": one.up,
            "speed_bytes_per_second": one.speed,
            "transmit_bytes_per_second": one.transmit, "receive_bytes_per_second": one.receive,
            "transmit_utilisation": one.share(one.transmit), "receive_utilisation": one.share(one.receive),
        });
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{GpuLinksSample, LinkValues};

    fn reading(time: i64, epoch: i64, sent: u64) -> Batch {
        let mut values = Values::default();
        values.put(&NVLINK_TRANSMIT_BYTES, sent);
        values.put(&NVLINK_SPEED_BYTES_PER_SECOND, 1000);
        values.put(&NVLINK_UP, 1);
        let links = vec![LinkValues { link: 3, values: Some(values) }];
        let sample = GpuLinksSample { time, epoch, gpu_uuid: "GPU-1".into(), source: "nvml".into(), links };
        Batch { gpu_links: vec![sample], ..Batch::default() }
    }

    #[test]
    fn a_rate_is_of_one_epoch_and_what_was_not_read_has_none() {
        let used = links(&reading(0, 0, 100), &reading(2_000_000_000, 0, 1100));
        assert_eq!((used[0].transmit, used[0].receive), (Some(500.0), None));
        assert_eq!((used[0].share(used[0].transmit), used[0].busiest()), (Some(0.5), Some(0.5)));
        let anew = links(&reading(0, 0, 100), &reading(2_000_000_000, 7, 1100));
        assert_eq!((anew[0].transmit, anew[0].up), (None, Some(true)));
        let gpus = [GpuInfo { uuid: "GPU-1".into(), index: 4, ..GpuInfo::default() }];
        let text = table(&gpus, &used, true);
        assert!(
            text.contains("GPU 4") && text.contains("NVLink 3 50.0 %") && text.contains("500 B/s"),
            "{text}"
        );
        let line: serde_json::Value = serde_json::from_str(&lines(&gpus, &anew)).unwrap();
        assert_eq!((&line["index"], &line["transmit_utilisation"]), (&json!(4), &json!(null)));
    }
}
