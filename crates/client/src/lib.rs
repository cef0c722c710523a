//! `throughline job`, `link`, `multicast` and `status`: what a user of the cluster sees, queried from the JSON API of
//! `throughline serve`.
//!
//! [`Connection`] has the options of every command that queries, [`Settings`] is what they and the configuration
//! come to, [`Server`] sends requests. [`job`], [`link`], [`multicast`] and [`status`] have a file for each command, [`text`] lays out tables for
//! people. Nothing here opens a database.

mod answer;
pub mod check;
mod connection;
mod csv;
mod detail;
mod error;
pub mod job;
pub mod link;
pub mod multicast;
pub mod pause;
mod server;
pub mod settings;
pub mod status;
pub mod text;

pub use answer::Answer;
pub use connection::Connection;
pub use error::Error;
pub use server::Server;
pub use settings::Settings;
