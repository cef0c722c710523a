//! Log lines on standard error, as text or JSON.

use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Options of every program about its log.
#[derive(Args, Clone, Debug)]
pub struct LogOptions {
    /// Write log lines on standard error in this format
    #[arg(long, value_enum, default_value = "text", global = true, value_name = "FORM")]
    pub log_format: LogFormat,
    /// Write log lines of this level: error, warn, info, debug, trace, or per module (info,throughline_crawler=debug) [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogOptions {
    /// Starts logging; call once, first thing in `main`.
    ///
    /// # Errors
    /// A level that is no level (64).
    pub fn start(&self) -> Result<(), crate::Failure> {
        self.start_at("info")
    }

    /// The same for a command that draws for people, whom lines about its own doings would only disturb: without
    /// `--log-level` warnings and errors are shown.
    ///
    /// # Errors
    /// As [`LogOptions::start`].
    pub fn start_quietly(&self) -> Result<(), crate::Failure> {
        self.start_at("warn")
    }

    fn start_at(&self, otherwise: &str) -> Result<(), crate::Failure> {
        let level = self.log_level.as_deref().unwrap_or(otherwise);
        let filter = EnvFilter::try_new(level).map_err(|error| {
            crate::Failure::usage(format!("--log-level {level}: {error}; for instance info or debug"))
        })?;
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        // A closed standard error must not stop a daemon: the library would panic.
        let builder = builder.log_internal_errors(false);
        let started = match self.log_format {
            LogFormat::Text => {
                builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
            }
            LogFormat::Json => builder.json().try_init(),
        };
        // Only a second start in one process (tests) fails: the first one's settings stay.
        drop(started);
        Ok(())
    }
}
