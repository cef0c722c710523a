//! Why a server did not answer a request: each with the address, the cause and the remedy.

use serde::Deserialize;
use throughline_daemon::{ExitStatus, Failure};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing answers there.
    #[error("no server at {server}: {cause}; {remedy}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// As the system says.
        cause: String,
        /// What to try.
        remedy: &'static str,
    },
    /// The server's certificate is not trusted, or there is no TLS there.
    #[error("no trusted connection to {server}: {cause}; {remedy}")]
    Tls {
        /// Its URL.
        server: String,
        /// As the TLS library says.
        cause: String,
        /// What to try.
        remedy: String,
    },
    /// The server knows no right of this user.
    #[error("{server} refuses access: {cause}; {remedy}")]
    Denied {
        /// Its URL.
        server: String,
        /// As the server says.
        cause: String,
        /// Which token or right is needed.
        remedy: String,
    },
    /// Another version of the API.
    #[error("{server} has version {theirs} of the API, and this program needs {ours}: {remedy}")]
    Version {
        /// Its URL.
        server: String,
        /// The server's.
        theirs: String,
        /// This program's.
        ours: String,
        /// Which of the two to replace.
        remedy: &'static str,
    },
    /// Something else answers there.
    #[error("what answers at {server} is not the API of `throughline serve`: {cause}; {remedy}")]
    Foreign {
        /// Its URL.
        server: String,
        /// What makes it so.
        cause: String,
        /// What to try.
        remedy: &'static str,
    },
    /// The server answered with an error.
    #[error("{server}: {}", .error.text())]
    Api {
        /// Its URL.
        server: String,
        /// What it says.
        error: ApiError,
    },
}

/// An error of the API, as openapi.yaml has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ApiError {
    /// One word: `not_found`, `busy`, …
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl ApiError {
    /// Message and remedy.
    #[must_use]
    pub fn text(&self) -> String {
        match self.remedy.is_empty() {
            true => self.message.clone(),
            false => format!("{}; {}", self.message, self.remedy),
        }
    }
}

/// Codes of errors that say what is missing on the server.
const UNAVAILABLE: [&str; 2] = ["database_absent", "busy"];

impl Error {
    /// How a program ends that could not go on.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        match self {
            Self::Unreachable { .. } | Self::Tls { .. } | Self::Version { .. } | Self::Foreign { .. } => {
                ExitStatus::Unavailable
            }
            Self::Denied { .. } => ExitStatus::Permission,
            Self::Api { error, .. } if UNAVAILABLE.contains(&error.code.as_str()) => ExitStatus::Unavailable,
            Self::Api { .. } => ExitStatus::Failed,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::new(error.status(), error.to_string())
    }
}
