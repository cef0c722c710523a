//! The recorded input, and errors that are seeded into it.

use crate::renames::lines;
use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Lines of JSON in the order of their times `at` (nanoseconds since 1970): a `batch` with its sender, a `post` to the API,
/// `upkeep`, or a `moment` at which everything is compared.
///
/// # Errors
/// A file is not there, or a line has no time.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let mut text = String::new();
    GzDecoder::new(File::open(folder.join("input.jsonl.gz"))?).read_to_string(&mut text)?;
    text += &std::fs::read_to_string(folder.join("crafted.jsonl"))?;
    let lines = text.lines().filter(|line| !line.is_empty());
    let lines: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
    let mut lines = lines?;
    ensure!(lines.iter().all(|line| line["at"].is_i64()), "a line of the input has no time");
    lines.sort_by_key(|line| line["at"].as_i64());
    Ok(lines)
}

/// One error: `NAME | SURFACE | REQUEST | PATH | LIST | FIELD=VALUE | POINTER | CHANGE`. In the last record of the list that has
/// this value the field at the pointer is changed: by `+NUMBER`, or to a text. It is found where an answer to a request with
/// this part differs at a path with this part.
pub struct Seed {
    /// For people.
    pub name: String,
    /// Where it must be found.
    pub surface: String,
    /// Part of the request.
    pub request: String,
    /// Part of the path in its answer.
    pub path: String,
    list: String,
    field: (String, String),
    pointer: String,
    change: String,
}

impl Seed {
    /// Reads the list.
    ///
    /// # Errors
    /// A line has another form.
    pub fn read(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let seed = |line: String| {
            let parts: Vec<String> = line.split(" | ").map(|part| part.trim().to_owned()).collect();
            let Ok([name, surface, request, path, list, field, pointer, change]) =
                <[String; 8]>::try_from(parts)
            else {
                bail!("seeds.txt: `{line}`")
            };
            let (key, value) = field.split_once('=').context("FIELD=VALUE")?;
            let field = (key.to_owned(), value.to_owned());
            Ok(Self { name, surface, request, path, list, field, pointer, change })
        };
        lines(folder, "seeds.txt")?.into_iter().map(seed).collect()
    }

    /// Puts the error into the input.
    ///
    /// # Errors
    /// No record has the value, or the field is not there.
    pub fn plant(&self, lines: &mut [Value]) -> anyhow::Result<()> {
        let (key, value) = &self.field;
        let is_it =
            |record: &Value| record[key].as_str() == Some(value) && record.pointer(&self.pointer).is_some();
        let batches = lines.iter_mut().rev().filter_map(|line| line.get_mut("batch"));
        let records = batches.filter_map(|batch| batch.get_mut(&self.list)?.as_array_mut());
        let record = records.flat_map(|list| list.iter_mut().rev()).find(|record| is_it(record));
        let record = record.with_context(|| format!("{}: no such record in the input", self.name))?;
        let field = record.pointer_mut(&self.pointer).context("a field")?;
        *field = match self.change.strip_prefix('+') {
            None => self.change.as_str().into(),
            Some(more) => {
                let text = field.as_str().map_or_else(|| field.to_string(), str::to_owned);
                // Numbers of 64 bits are text in the JSON of protobuf.
                match text.parse::<u64>() {
                    Ok(number) => (number + more.parse::<u64>()?).to_string().into(),
                    Err(_) => (text.parse::<f64>()? + more.parse::<f64>()?).into(),
                }
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_is_in_the_last_record_of_the_list_and_nowhere_else() {
        let seed = Seed {
            name: "bytes".into(),
            surface: "routes".into(),
            request: String::new(),
            path: String::new(),
            list: "peers".into(),
            field: ("job".into(), "a".into()),
            pointer: "/bytes".into(),
            change: "+5".into(),
        };
        let batch =
            |bytes: &str, job: &str| json!({ "batch": { "peers": [{ "job": job, "bytes": bytes }] } });
        let mut lines = [batch("1", "a"), batch("2", "a"), batch("3", "b"), json!({ "upkeep": true })];
        seed.plant(&mut lines).unwrap();
        assert_eq!(lines, [batch("1", "a"), batch("7", "a"), batch("3", "b"), json!({ "upkeep": true })]);
        assert!(seed.plant(&mut [json!({ "batch": {} })]).is_err());
    }
}
