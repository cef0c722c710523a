//! What the new build calls otherwise: the committed map from old names to new ones, and the list of what is not compared.

use anyhow::{Context, bail};
use serde_json::{Map, Number, Value};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Kinds of names in `renames.txt`.
const KINDS: [&str; 7] = ["wire", "json", "text", "metric", "label", "view", "request"];

/// Name, source and label of a self-metric.
type Stat = [String; 3];

/// The map: `KIND OLD NEW`, and for an old key of JSON `scale KEY FACTOR` where the new one has another unit, `time KEY` where it is
/// RFC 3339 in place of milliseconds since 1970.
#[derive(Default)]
pub struct Renames {
    names: HashMap<(String, String), String>,
    scales: HashMap<String, f64>,
    times: HashSet<String>,
    /// By old name and source; a source `*` is any.
    stats: HashMap<(String, String), Stat>,
}

/// Lines of a committed list without remarks.
pub fn lines(folder: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(folder.join(name)).with_context(|| format!("reading {name}"))?;
    let lines = text.lines().map(|line| line.split(" # ").next().unwrap_or_default().trim().to_owned());
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect())
}

/// Gives a crawler's batch that names its fabric by the subnet prefix a switch of that number, and the fabric the same name.
pub fn fabric(batch: &mut Value) {
    let Some(prefix) = batch.as_object_mut().and_then(|batch| batch.remove("subnet_prefix")) else { return };
    let Some(number) = prefix.as_str().and_then(|text| text.parse::<u64>().ok()) else { return };
    let name = format!("{number:#018x}");
    batch["fabric"] = serde_json::json!({
        "switch_guids": [&prefix], "lowest_guid": &prefix, "subnet_prefix": &prefix, "name": name,
    });
}

impl Renames {
    /// Reads the map.
    ///
    /// # Errors
    /// A line is no rename.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut renames = Self::default();
        for line in lines(folder, "renames.txt")? {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["scale", key, factor] => drop(renames.scales.insert(key.into(), factor.parse()?)),
                ["time", key] => drop(renames.times.insert(key.into())),
                ["stat", old, from, new, source, label] => {
                    let stat = [new, source, label].map(str::to_owned);
                    renames.stats.insert((old.into(), from.into()), stat);
                }
                [kind, old, new] if KINDS.contains(&kind) => {
                    renames.names.insert((kind.into(), old.into()), new.into());
                }
                _ => bail!(
                    "renames.txt: `{line}` is neither KIND OLD NEW, scale KEY FACTOR, time KEY nor stat"
                ),
            }
        }
        Ok(renames)
    }

    /// The new name of one.
    pub fn name<'a>(&'a self, kind: &str, old: &'a str) -> &'a str {
        if self.names.is_empty() {
            return old;
        }
        self.names.get(&(kind.to_owned(), old.to_owned())).map_or(old, String::as_str)
    }

    /// The new name, source and label of a self-metric; an empty label where it has none.
    pub fn stat(&self, name: &str, source: &str) -> Option<Stat> {
        let of = |source: &str| self.stats.get(&(name.to_owned(), source.to_owned()));
        let [new, part, label] = of(source).or_else(|| of("*"))?;
        let value = |word: &String| match word.as_str() {
            "*" => source.to_owned(),
            "-" => String::new(),
            word => word.to_owned(),
        };
        Some([new.clone(), value(part), value(label)])
    }

    /// Whether an old self-metric has a line, whatever its source.
    pub fn has_stat(&self, name: &str) -> bool {
        self.stats.keys().any(|(old, _)| old == name)
    }

    /// Whether a new self-metric is what a line makes of an old one.
    pub fn makes_stat(&self, name: &str) -> bool {
        self.stats.values().any(|[new, ..]| new == name)
    }

    /// Gives self-metrics of a batch their new names, sources and labels.
    pub fn self_stats(&self, batch: &mut Value) {
        let stats = batch.get_mut("self_stats").and_then(Value::as_array_mut);
        for stat in stats.into_iter().flatten() {
            let [name, source] =
                ["name", "source"].map(|key| stat[key].as_str().unwrap_or_default().to_owned());
            let Some([new, part, label]) = self.stat(&name, &source) else { continue };
            (stat["name"], stat["source"], stat["label"]) = (new.into(), part.into(), label.into());
        }
    }

    /// A text with the new names of its words.
    pub fn text(&self, kind: &str, old: &str) -> String {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let mut new = String::with_capacity(old.len());
        let mut rest = old;
        while !rest.is_empty() {
            let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            new.push_str(self.name(kind, &rest[..end]));
            let next = rest[end..].find(is_word).map_or(rest.len(), |at| at + end);
            new.push_str(&rest[end..next]);
            rest = &rest[next..];
        }
        new
    }

    /// A document with the new names and units of its keys.
    pub fn json(&self, kind: &str, old: Value) -> Value {
        match old {
            Value::Object(fields) => {
                let renamed = fields.into_iter().map(|(key, value)| {
                    let value = match self.scales.get(&key) {
                        Some(factor) if kind == "json" => scale(value, *factor),
                        None if kind == "json" && self.times.contains(&key) => time(value),
                        _ => value,
                    };
                    (self.name(kind, &key).to_owned(), self.json(kind, value))
                });
                Value::Object(renamed.collect::<Map<_, _>>())
            }
            Value::Array(items) => items.into_iter().map(|item| self.json(kind, item)).collect(),
            other => other,
        }
    }
}

/// Numbers of a value, or of its elements, in another unit.
fn scale(value: Value, factor: f64) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| scale(item, factor)).collect(),
        Value::Number(number) => {
            let scaled = number.as_f64().map(|number| number * factor);
            #[allow(clippy::cast_possible_truncation)] // tested
            let whole = scaled.filter(|scaled| scaled.fract() == 0.0 && scaled.abs() < 9e15);
            let whole = whole.map(|scaled| Number::from(scaled as i64));
            whole.or(scaled.and_then(Number::from_f64)).map_or(Value::Null, Value::Number)
        }
        other => other,
    }
}

/// Milliseconds since 1970, or those of its elements, as RFC 3339.
fn time(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(time).collect(),
        value => {
            let time = value.as_i64().and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
            time.map_or(value, |time| time.to_string().into())
        }
    }
}

/// What is not compared: `SURFACE ANSWER KEY` in `excluded.txt`, where ANSWER and KEY may be `*` for all, and
/// `instance NAME` for rows about the server itself.
#[derive(Default)]
pub struct Excluded {
    keys: HashSet<(String, String, String)>,
}

impl Excluded {
    /// Reads the list.
    ///
    /// # Errors
    /// A line has another form.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut keys = HashSet::new();
        for line in lines(folder, "excluded.txt")? {
            let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let [surface, answer, key] = parts[..] else { bail!("excluded.txt: `{line}`") };
            keys.insert((surface.to_owned(), answer.to_owned(), key.to_owned()));
        }
        Ok(Self { keys })
    }

    /// Whether a key, or a line's first word, of an answer is left out.
    pub fn has(&self, surface: &str, answer: &str, key: &str) -> bool {
        let of = |answer: &str| self.keys.contains(&(surface.to_owned(), answer.to_owned(), key.to_owned()));
        of("*") || of(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_whole_words_and_values_stay() {
        let folder = tempfile::tempdir().unwrap();
        let map = "# remark\njson longest_seconds max_ms # unit, too\nscale longest_seconds 1000\ntext took lasted\n\
                   time at_ms\n";
        std::fs::write(folder.path().join("renames.txt"), map).unwrap();
        let renames = Renames::read(folder.path()).unwrap();
        assert_eq!(renames.text("text", "It took 3 s, mistook"), "It lasted 3 s, mistook");
        let old = json!([{ "longest_seconds": [0.25, null], "name": "longest_seconds", "at_ms": 1500 }]);
        let at = "1970-01-01T00:00:01.5Z";
        assert_eq!(
            renames.json("json", old),
            json!([{ "at_ms": at, "max_ms": [250, null], "name": "longest_seconds" }])
        );
        std::fs::write(folder.path().join("renames.txt"), "stat calls * mpi_calls mpi *\n").unwrap();
        let mut batch = json!({ "self_stats": [{ "name": "calls", "source": "send" }, { "name": "up", "source": "mpi" }] });
        Renames::read(folder.path()).unwrap().self_stats(&mut batch);
        assert_eq!(batch["self_stats"][0], json!({ "name": "mpi_calls", "source": "mpi", "label": "send" }));
        assert_eq!(batch["self_stats"][1], json!({ "name": "up", "source": "mpi" }));
        std::fs::write(folder.path().join("renames.txt"), "value 1 2\n").unwrap();
        assert!(Renames::read(folder.path()).is_err());
    }
}
