//! Answers of the API as they came: what `--json` prints.
//!
//! A command that sends one request prints its answer, and one answer per line where a list has several pages. A command that
//! joins several routes prints one object with each answer under the name of its route. Keys, their order and units are those of
//! the API, also those that this program does not know.

use std::io::Write;

/// An answer, parsed and as it came.
#[derive(Clone, Debug, Default)]
pub struct Answer<T> {
    /// What this program reads of it.
    pub value: T,
    /// All of it.
    pub body: String,
}

/// One object with these answers, each under its name.
#[must_use]
pub fn joined<'a>(answers: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<String> = answers.into_iter().map(|(name, body)| format!("\"{name}\":{body}")).collect();
    format!("{{{}}}", members.join(","))
}

/// Writes each answer as a line to the standard output.
///
/// # Errors
/// The output is gone.
pub fn print<'a>(bodies: impl IntoIterator<Item = &'a str>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for body in bodies {
        out.write_all(body.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_under_their_names_as_they_came() {
        assert_eq!(
            joined([("job", "{\"b\":1,\"a\":null}"), ("ranks", "[]")]),
            r#"{"job":{"b":1,"a":null},"ranks":[]}"#
        );
        assert_eq!(joined([]), "{}");
    }
}
