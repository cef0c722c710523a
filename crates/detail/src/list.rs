//! `recorder`: what a daemon's recorder has, as a summary or record by record.
//!
//! Reads the folder beside the daemon that writes it; changes nothing.

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use throughline_daemon::arguments::{duration, time};
use throughline_daemon::{Clock, Failure};
use throughline_recorder::{Filter, read_folder};
use throughline_sample::wire::Batch;

/// What is wanted of a recorder, whatever it records.
#[derive(Clone, Debug, Args)]
pub struct ListOptions {
    /// List what is of this time or later: RFC 3339, a day, or an age [default: the oldest that is there]
    #[arg(long, value_name = "TIME", conflicts_with = "last", value_parser = time)]
    from: Option<Timestamp>,
    /// List what is before this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Timestamp>,
    /// List the last so much: 90s, 10m, 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    last: Option<SignedDuration>,
    /// List records of this kind only, as the summary calls it; may be repeated
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Print one JSON document per line and record
    #[arg(long)]
    json: bool,
}

/// The recorder of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct DaemonRecorder<'a> {
    /// The daemon's program.
    pub daemon: &'a str,
    /// Folder of its ring.
    pub folder: &'a Path,
    /// Its ring is in its memory, and not in the folder.
    pub is_memory_only: bool,
}

/// Records of one kind.
#[derive(Default)]
struct Count {
    records: u64,
    /// Least and largest of their times.
    times: Option<(String, String)>,
}

impl ListOptions {
    /// Prints what there is; `samples` are the records of a batch as JSON, by kind.
    ///
    /// # Errors
    /// There is no recorder here (69), or output fails.
    pub fn list(
        &self,
        listed: DaemonRecorder<'_>,
        filter: Filter,
        samples: impl Fn(&Batch) -> Map<String, Value>,
    ) -> anyhow::Result<ExitCode> {
        let DaemonRecorder { daemon, folder, is_memory_only } = listed;
        if is_memory_only {
            let text = format!(
                "the recorder is in {daemon}'s memory (spool.memory_only): this command reads one on disk"
            );
            return Err(Failure::unavailable(text).into());
        }
        let found = read_folder(folder, self.times(Clock::new().now()), filter).map_err(|error| {
            let remedy =
                format!("is {daemon} running here with this state folder, and [recorder] switched on?");
            Failure::from_io(format!("recorder {}", folder.display()), &error, &remedy)
        })?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        let mut lost = 0;
        for batch in found {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    eprintln!("{error}");
                    lost += 1;
                    continue;
                }
            };
            for (kind, records) in samples(&batch) {
                if !self.kind.is_empty() && !self.kind.contains(&kind) {
                    continue;
                }
                let Value::Array(records) = records else { continue };
                for mut record in records {
                    if self.json {
                        record["record"] = kind.as_str().into();
                        serde_json::to_writer(&mut out, &record)?;
                        writeln!(out)?;
                    } else {
                        counts.entry(kind.clone()).or_default().add(&record);
                    }
                }
            }
        }
        if !self.json {
            summarise(&counts, &mut out)?;
        }
        out.flush()?;
        Ok(if lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn times(&self, now: i64) -> Range<i64> {
        let nanoseconds = |span: SignedDuration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        let [from, to] = [self.from, self.to].map(|time| time.map(|time| nanoseconds(time.as_duration())));
        let end = to.unwrap_or(now);
        let to = to.unwrap_or(i64::MAX);
        let last = self.last.map(|last| end.saturating_sub(nanoseconds(last)));
        from.or(last).unwrap_or(i64::MIN)..to
    }
}

impl Count {
    fn add(&mut self, record: &Value) {
        self.records += 1;
        let Some(time) = record["time"].as_str() else { return };
        match &mut self.times {
            None => self.times = Some((time.to_owned(), time.to_owned())),
            Some((first, last)) => {
                // Texts of RFC 3339 in UTC sort as their times do.
                if time < first.as_str() {
                    time.clone_into(first);
                }
                if time > last.as_str() {
                    time.clone_into(last);
                }
            }
        }
    }
}

fn summarise(counts: &BTreeMap<String, Count>, out: &mut impl Write) -> std::io::Result<()> {
    if counts.is_empty() {
        return writeln!(out, "no record of that kind and time");
    }
    writeln!(out, "{:<22} {:>10}  {:<30}  LAST", "KIND", "RECORDS", "FIRST")?;
    for (kind, count) in counts {
        let (first, last) = count.times.clone().unwrap_or_else(|| ("-".to_owned(), "-".to_owned()));
        writeln!(out, "{kind:<22} {:>10}  {first:<30}  {last}", count.records)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ListOptions,
    }

    fn times(arguments: &[&str]) -> Range<i64> {
        let line = Line::try_parse_from([&["x"], arguments].concat()).map_err(|error| error.to_string());
        line.unwrap().options.times(1_000_000_000_000)
    }

    #[test]
    fn spans_of_time_are_understood() {
        assert_eq!(times(&[]), i64::MIN..i64::MAX);
        assert_eq!(times(&["--last", "10m"]), 400_000_000_000..i64::MAX);
        assert_eq!(times(&["--last", "10s", "--to", "1970-01-01T00:01:00Z"]), 50_000_000_000..60_000_000_000);
        assert_eq!(times(&["--from", "1970-01-01T00:00:01Z"]).start, 1_000_000_000);
        for wrong in [&["--from", "noon"][..], &["--last", "soon"]] {
            assert!(Line::try_parse_from([&["x"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
