//! What can be wrong with saved files. Each error names the file, the place, the cause and the remedy.

use std::path::PathBuf;

/// A folder of saved files can't be read.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The system refused.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// A line is not what its format has there.
    #[error("{file}:{line}: expected {expected}, found `{found}`")]
    Line {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: u64,
        /// What should be there.
        expected: &'static str,
        /// The beginning of what is there.
        found: String,
    },
    /// A file ends too early, or says something that can't be.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The folder has no file from which nodes and cables can be read.
    #[error(
        "{} holds no topology; save one there with `ibnetdiscover > {}/topology`, or the files of `ibdiagnet`{}",
        folder.display(), folder.display(), unknown_text(unknown)
    )]
    NoTopology {
        /// The folder.
        folder: PathBuf,
        /// Files whose content is of no known format.
        unknown: Vec<String>,
    },
    /// More files than a support case has.
    #[error("{} holds more than {limit} files; is it the folder that was meant?", folder.display())]
    TooMany {
        /// The folder.
        folder: PathBuf,
        /// The limit.
        limit: usize,
    },
}

/// Most names of unknown files that a message lists.
const UNKNOWN_SHOWN: usize = 5;

fn unknown_text(unknown: &[String]) -> String {
    match unknown.len() {
        0 => String::new(),
        count if count <= UNKNOWN_SHOWN => format!(" (of no known format: {})", unknown.join(", ")),
        count => format!(
            " (of no known format: {} and {} more)",
            unknown[..UNKNOWN_SHOWN].join(", "),
            count - UNKNOWN_SHOWN
        ),
    }
}
