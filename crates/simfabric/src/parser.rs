//! Words of a command: splitting a line, and reading times, numbers, rates and nodes. Pure.

use crate::model::{End, Fabric};
use std::collections::VecDeque;

/// The words of a line that are not read yet.
pub(crate) struct CommandWords(VecDeque<String>);

impl CommandWords {
    /// Splits at blanks; quotes keep blanks together.
    pub fn of(line: &str) -> Result<CommandWords, String> {
        let mut words = VecDeque::new();
        let (mut word, mut is_quoted, mut is_word) = (String::new(), false, false);
        for c in line.chars() {
            match c {
                '"' => (is_quoted, is_word) = (!is_quoted, true),
                c if c.is_whitespace() && !is_quoted => {
                    if std::mem::take(&mut is_word) {
                        words.push_back(std::mem::take(&mut word));
                    }
                }
                '#' if !is_word && !is_quoted => break,
                c => {
                    word.push(c);
                    is_word = true;
                }
            }
        }
        if is_quoted {
            return Err("a quote is not closed".to_owned());
        }
        if is_word {
            words.push_back(word);
        }
        Ok(CommandWords(words))
    }

    pub fn next(&mut self) -> Option<String> {
        self.0.pop_front()
    }

    pub fn peek(&self) -> Option<&str> {
        self.0.front().map(String::as_str)
    }

    pub fn text(&mut self, what: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("expected {what}"))
    }

    /// # Errors
    /// There are more words.
    pub fn end(&mut self) -> Result<(), String> {
        self.next().map_or(Ok(()), |word| Err(format!("`{word}` is one word too many")))
    }

    pub fn number(&mut self, what: &str) -> Result<u64, String> {
        number(&self.text(what)?, what)
    }

    /// A time in nanoseconds.
    pub fn time(&mut self, what: &str) -> Result<u64, String> {
        let text = self.text(what)?;
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
        let (number, scale) = found.unwrap_or((&text, &0.0));
        let value: f64 = number.parse().unwrap_or(f64::NAN);
        let known = (found.is_some() || value == 0.0) && value >= 0.0 && value.is_finite();
        if known {
            Ok((value * scale) as u64)
        } else {
            Err(format!("{what}: `{text}` is no time like 100us"))
        }
    }

    pub fn share(&mut self, what: &str) -> Result<f64, String> {
        let text = self.text(what)?;
        let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.ok_or_else(|| format!("{what}: `{text}` is not from 0 to 1"))
    }

    /// A rate in bytes per second.
    pub fn rate(&mut self) -> Result<f64, String> {
        let text = self.text("the rate")?;
        let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
        let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
        let (number, scale) = found.unwrap_or((&text, 1.0));
        let rate = number.parse().ok().map(|rate: f64| rate * scale);
        let known = rate.filter(|rate| rate.is_finite() && *rate >= 0.0);
        known.ok_or_else(|| format!("`{text}` is no rate like 1.5G (bytes per second)"))
    }

    pub fn node(&mut self, fabric: &Fabric) -> Result<usize, String> {
        let name = self.text("a node")?;
        fabric.find(&name).ok_or_else(|| format!("there is no node `{name}`"))
    }

    /// A node and one of its ports.
    pub fn end_of(&mut self, fabric: &Fabric) -> Result<End, String> {
        let node = self.node(fabric)?;
        let number = self.number("a port")?;
        let end = u8::try_from(number).ok().map(|port| End { node, port });
        let end = end.filter(|end| fabric.port(*end).is_some());
        end.ok_or_else(|| format!("`{}` has no port {number}", fabric.nodes[node].description))
    }

    /// A host's first port that has a cable.
    pub fn host(&mut self, fabric: &Fabric) -> Result<End, String> {
        let node = self.node(fabric)?;
        let mut ends = fabric.nodes[node].end_ports().map(|port| End { node, port: port as u8 });
        let end = ends.find(|end| !fabric.nodes[node].is_switch() && fabric.across(*end).is_some());
        end.ok_or_else(|| format!("`{}` is no host with a link", fabric.nodes[node].description))
    }
}

/// A number, decimal or with 0x.
pub(crate) fn number(text: &str, what: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{what}: `{text}` is no number"))
}

/// The nodes that a word means.
pub(crate) fn nodes(fabric: &Fabric, word: &str) -> Result<Vec<usize>, String> {
    let filtered = |wanted: &dyn Fn(&crate::model::Node) -> bool| -> Vec<usize> {
        (0..fabric.nodes.len()).filter(|index| wanted(&fabric.nodes[*index])).collect()
    };
    let found = match word {
        "all" => filtered(&|_| true),
        "hosts" => filtered(&|node| !node.is_switch()),
        "switches" => filtered(&|node| node.is_switch()),
        pattern if pattern.contains('*') => {
            filtered(&|node| matches(pattern, &node.description) || matches(pattern, &node.id))
        }
        name => fabric.find(name).into_iter().collect(),
    };
    if found.is_empty() { Err(format!("there is no node `{word}`")) } else { Ok(found) }
}

/// Whether a text matches a pattern in which * stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_read() {
        let mut words = CommandWords::of("latency 1.5us \"node 1\" 0x1F 2.5G 0.1 # why").unwrap();
        assert_eq!(words.next().unwrap(), "latency");
        assert_eq!(words.time("t"), Ok(1500));
        assert_eq!(words.text("n").unwrap(), "node 1");
        assert_eq!(words.number("n"), Ok(31));
        assert_eq!(words.rate(), Ok(2.5e9));
        assert_eq!(words.share("s"), Ok(0.1));
        assert_eq!(words.end(), Ok(()));
        assert!(CommandWords::of("\"open").is_err());
        for (text, is_time) in [("5", false), ("0", true), ("-1us", false), ("3m", false), ("1s", true)] {
            assert_eq!(CommandWords::of(text).unwrap().time("t").is_ok(), is_time, "{text}");
        }
    }

    #[test]
    fn patterns_match() {
        for (pattern, text, is_match) in [
            ("leaf*", "leaf001", true),
            ("leaf*", "a leaf", false),
            ("*mlx5_0", "node1 mlx5_0", true),
            ("n*1*0", "node1 mlx5_0", true),
            ("n*x", "node", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }
}
