//! Configuration: one TOML file per daemon, each key overridable by `THROUGHLINE__SECTION__KEY`.
//!
//! A configuration type derives `Serialize`, `Deserialize` and `Default` with
//! `#[serde(default, deny_unknown_fields)]` on every level, so that a wrong key is an error that names the line.

use crate::{Failure, hide_secrets};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Where a site's configuration lies.
pub const DIRECTORY: &str = "/etc/throughline";

/// Variables with this beginning override keys; parts are divided by two underscores.
pub const VARIABLE_PREFIX: &str = "THROUGHLINE__";

/// Reads the configuration: `explicit` (`--config`) or `/etc/throughline/{name}.toml` if it exists, then the
/// environment. Without any file the defaults hold.
///
/// # Errors
/// A file that is not there or no text (64), that can't be read (69, 77), and a wrong key or value (64) with file, line and key.
pub fn load<T>(name: &str, explicit: Option<&Path>) -> Result<T, Failure>
where
    T: Serialize + DeserializeOwned + Default,
{
    let default = PathBuf::from(DIRECTORY).join(format!("{name}.toml"));
    let (path, must_exist) = explicit.map_or((default.as_path(), false), |path| (path, true));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => String::new(),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::InvalidData
            ) =>
        {
            let what = format!("configuration {}: {error}", path.display());
            return Err(Failure::usage(format!(
                "{what}; name a TOML file in UTF-8 with --config, or leave it out for the defaults"
            )));
        }
        Err(error) => {
            let remedy = "let this user read it, or name another file with --config";
            return Err(Failure::from_io(format!("configuration {}", path.display()), &error, remedy));
        }
    };
    let variables =
        std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    parse(&text, path, variables)
}

/// Reads a configuration from its text and the given variables; see [`load`].
///
/// # Errors
/// A wrong key or value (64), with `path`, line and key or the variable's name.
pub fn parse<T>(
    text: &str,
    path: &Path,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<T, Failure>
where
    T: Serialize + DeserializeOwned + Default,
{
    let from_file: T = toml::from_str(text).map_err(|error| file_failure(path, text, &error))?;
    let mut overrides: Vec<(String, String)> =
        variables.filter(|(name, _)| name.starts_with(VARIABLE_PREFIX)).collect();
    if overrides.is_empty() {
        return Ok(from_file);
    }
    overrides.sort();
    let mut table: Table = toml::from_str(text).map_err(|error| file_failure(path, text, &error))?;
    for (name, value) in &overrides {
        set(&mut table, name, value)?;
        // One at a time, so that the message names the variable that is wrong.
        let check: Result<T, _> = table.clone().try_into();
        if let Err(error) = check {
            let message = error.message().to_owned();
            let given = format!("environment variable {name}={value}: {message}");
            return Err(Failure::usage(hide_secrets(&given)));
        }
    }
    table
        .try_into()
        .map_err(|error: toml::de::Error| Failure::usage(format!("environment: {}", error.message())))
}

/// The effective configuration as TOML, for `check-config`.
///
/// # Errors
/// A configuration type that TOML can't express: a defect of the program.
pub fn print<T: Serialize>(config: &T) -> Result<String, Failure> {
    toml::to_string_pretty(config).map_err(|error| Failure::usage(format!("configuration as TOML: {error}")))
}

fn file_failure(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let line =
        error.span().map_or(0, |span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
    let source = text.lines().nth(line.saturating_sub(1)).map(str::trim).unwrap_or_default();
    let message = error.message().trim_end();
    let found = format!("configuration {}, line {line} (`{source}`): {message}", path.display());
    Failure::usage(hide_secrets(&found))
}

/// Sets `SECTION__KEY` in the table. The text is taken as TOML where it is TOML (numbers, booleans, lists,
/// quoted strings), else as a string.
fn set(table: &mut Table, variable: &str, text: &str) -> Result<(), Failure> {
    let keys: Vec<String> =
        variable[VARIABLE_PREFIX.len()..].split("__").map(str::to_ascii_lowercase).collect();
    let Some((last, sections)) = keys.split_last().filter(|_| keys.iter().all(|key| !key.is_empty())) else {
        return Err(Failure::usage(format!(
            "environment variable {variable}: expected {VARIABLE_PREFIX}SECTION__KEY"
        )));
    };
    let mut place = table;
    for section in sections {
        let entry = place.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
        place = entry.as_table_mut().ok_or_else(|| {
            Failure::usage(format!("environment variable {variable}: '{section}' is a value and has no keys"))
        })?;
    }
    let parsed = format!("value = {text}").parse::<Table>().ok().and_then(|mut t| t.remove("value"));
    // A number for a key that is text so far stays text: node = "12".
    let was_text = place.get(last).is_some_and(Value::is_str);
    let value = parsed.filter(|v| !was_text || v.is_str()).unwrap_or_else(|| Value::String(text.to_owned()));
    place.insert(last.clone(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Config {
        node: String,
        spool: Spool,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Spool {
        bytes_max: u64,
        paths: Vec<String>,
    }

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        parse(text, Path::new("agent.toml"), variables).map_err(|failure| failure.to_string())
    }

    #[test]
    fn an_unknown_key_names_file_line_and_key() {
        let error = read("node = 'a'\n[spool]\nlimit_byte = 3\n", &[]).unwrap_err();
        assert!(error.contains("agent.toml, line 3"), "{error}");
        assert!(error.contains("limit_byte"), "{error}");
    }

    #[test]
    fn an_error_shows_no_password() {
        let error = read("[spool]\nurl = 'postgresql://me:s3cret@db/x'\n", &[]).unwrap_err();
        assert!(error.contains("postgresql://me:***@db/x") && !error.contains("s3cret"), "{error}");
        let variables = [("THROUGHLINE__SPOOL__URL", "host=db password=s3cret")];
        let error = read("", &variables).unwrap_err();
        assert!(error.contains("THROUGHLINE__SPOOL__URL") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_wrong_type_and_broken_toml_name_the_line() {
        let error = read("\n[spool]\nbytes_max = 'many'\n", &[]).unwrap_err();
        assert!(error.contains("line 3") && error.contains("bytes_max"), "{error}");
        let error = read("node = \n", &[]).unwrap_err();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn a_folder_and_what_is_no_text_are_wrong_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.toml");
        std::fs::write(&file, b"node = '\xff'").unwrap();
        for path in [folder.path(), &file] {
            let failure = load::<Config>("agent", Some(path)).unwrap_err();
            assert_eq!(failure.status, crate::ExitStatus::Usage, "{failure}");
            assert!(failure.to_string().contains(path.to_str().unwrap()), "{failure}");
        }
    }

    #[test]
    fn the_environment_overrides() {
        let variables = [
            ("THROUGHLINE__NODE", "12"),
            ("THROUGHLINE__SPOOL__BYTES_MAX", "7"),
            ("THROUGHLINE__SPOOL__PATHS", "['a', 'b']"),
            ("THROUGHLINE_SOCKET", "ignored"),
        ];
        let config = read("node = 'x'\n", &variables).unwrap();
        assert_eq!(config.node, "12");
        assert_eq!(config.spool, Spool { bytes_max: 7, paths: vec!["a".into(), "b".into()] });
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let error = read("", &[("THROUGHLINE__SPOOL__LIMIT", "7")]).unwrap_err();
        assert!(error.contains("THROUGHLINE__SPOOL__LIMIT"), "{error}");
        let error = read("", &[("THROUGHLINE__", "7")]).unwrap_err();
        assert!(error.contains("THROUGHLINE__SECTION__KEY"), "{error}");
        let error = read("node = 'x'", &[("THROUGHLINE__NODE__KEY", "7")]).unwrap_err();
        assert!(error.contains("'node' is a value"), "{error}");
    }

    #[test]
    fn a_missing_explicit_file_is_an_error() {
        let failure = load::<Config>("agent", Some(Path::new("/nonexistent/agent.toml"))).unwrap_err();
        assert_eq!(failure.status, crate::ExitStatus::Usage);
        assert!(failure.to_string().contains("/nonexistent/agent.toml"));
    }
}
