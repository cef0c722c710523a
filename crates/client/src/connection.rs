//! The options of every command that queries a server.

use std::path::PathBuf;

/// Which server, and with which credentials; what is not given comes from the environment or `client.toml`.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server")]
pub struct Connection {
    /// Query this server, for instance https://monitor.example:9460 [default: THROUGHLINE_SERVER, `server` of
    /// client.toml, else http://127.0.0.1:9460]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Read the server's token from FILE [default: THROUGHLINE_TOKEN_FILE, THROUGHLINE_TOKEN, `token_file` of client.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Trust the certificates in FILE (PEM) [default: THROUGHLINE_CA_FILE, `ca_file` of
    /// client.toml, else those of the system]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}
