//! Families of series written straight into a [`Piece`], for parts of a page too large for [`Page`](crate::Page):
//! nothing is cached of a series but its compressed line. A test compares both.

use crate::large::PieceWriter;
use crate::{Format, Piece, Value};
use std::fmt::Write;
use throughline_sample::catalogue::Kind;

/// Text that is compressed at once.
const GATHERED_BYTES: usize = 64 << 10;

/// Text under construction. Series belong to the family that was begun last.
#[derive(Debug)]
pub struct Families {
    format: Format,
    written: PieceWriter,
    /// What is not compressed yet.
    text: String,
    /// Name as the lines of the present family have it.
    name: String,
}

impl Families {
    /// Nothing yet.
    #[must_use]
    pub fn new(format: Format) -> Families {
        Families { format, written: PieceWriter::default(), text: String::new(), name: String::new() }
    }

    /// Begins a family; each name once. `name` is without `_total`.
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let (suffix, word) = match kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
        };
        self.name.clear();
        self.name.push_str(name);
        self.name.push_str(suffix);
        // OpenMetrics forbids the suffix in comment lines, the text format wants it.
        let shown = if self.format == Format::Text { self.name.as_str() } else { name };
        // Writing to a String can't fail.
        let _ = write!(self.text, "# HELP {shown} {help}\n# TYPE {shown} {word}\n");
    }

    /// Adds a series; `labels` as [`label_text`] makes them.
    pub fn series(&mut self, labels: &str, value: impl Into<Value>) {
        self.text.push_str(&self.name);
        if !labels.is_empty() {
            self.text.push('{');
            self.text.push_str(labels);
            self.text.push('}');
        }
        // Writing to a String can't fail.
        let _ = match value.into() {
            Value::Whole(value) => writeln!(self.text, " {value}"),
            Value::Real(value) => writeln!(self.text, " {value:?}"),
        };
        if self.text.len() >= GATHERED_BYTES {
            self.written.push(&self.text);
            self.text.clear();
        }
    }

    /// The text, without an end mark.
    #[must_use]
    pub fn finish(mut self) -> Piece {
        self.written.push(&self.text);
        self.written.finish()
    }
}

/// Labels as they stand between the braces of a series.
#[must_use]
pub fn label_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (key, value) in labels {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(key);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Page;
    use throughline_sample::catalogue::{
        PORT_RATE_BYTES_PER_SECOND, SWITCH_PORT_PREFIX, TRANSMIT_DATA_BYTES,
    };

    #[test]
    fn the_text_is_that_of_a_page() {
        for format in [Format::Text, Format::OpenMetrics] {
            let mut page = Page::default();
            let mut families = Families::new(format);
            let odd = "a \"b\"\\\n c";
            let labels = [("guid", "0x1"), ("port", odd)];
            for metric in [&PORT_RATE_BYTES_PER_SECOND, &TRANSMIT_DATA_BYTES] {
                families.begin(&format!("{SWITCH_PORT_PREFIX}{}", metric.name), metric.kind, metric.help);
                for value in [Value::Whole(u64::MAX >> 1), Value::Real(0.5), Value::Real(1e6)] {
                    page.metric(metric, SWITCH_PORT_PREFIX, &labels, value);
                    families.series(&label_text(&labels), value);
                }
            }
            let text = page.encode(format);
            let mut written = Vec::new();
            families.finish().append_text(&mut written);
            assert_eq!(written, text.strip_suffix(format.end_mark()).unwrap().as_bytes());
        }
    }
}
