//! What every Throughline process does the same way.
//!
//! Configuration ([`config`]), exit codes ([`Failure`]), logging ([`LogOptions`]), state and run folders
//! ([`paths`]), the pages `/metrics` and `/healthz` ([`Page`], [`LargeMetrics`], [`Health`], [`http`],
//! [`Listening`], [`connections`]), metrics about itself ([`SelfMetrics`]), clean stop
//! ([`stop_signal`]), memory ([`bound_allocator`], [`give_back_free_memory`]), time ([`Clock`], [`Ticker`]), a terminal that is drawn again in place ([`Screen`]). It knows no source, no spool and no SQL.

pub mod arguments;
pub mod certificates;
mod clock;
mod clock_spans;
pub mod config;
pub mod connections;
mod descriptors;
mod drain;
mod exit;
mod families;
mod health;
pub mod http;
mod large;
mod listening;
mod logging;
mod memory;
mod page;
pub mod paths;
pub mod peer;
mod renewed;
mod screen;
mod seconds;
mod secrets;
mod self_metrics;
mod sock_diag;
mod ticker;
mod token;

pub use clock::{Clock, UtcReading, boot_id};
pub use clock_spans::{ClockSpan, ClockSpans, SPANS_MAX};
pub use descriptors::raise_descriptors;
pub use drain::{GRACE, stop_signal};
pub use exit::{ExitStatus, Failure, finish, usage};
pub use families::{Families, label_text};
pub use health::{AlwaysHealthy, Condition, Health, Level};
pub use large::{LargeMetrics, Piece, Scrape};
pub use listening::{BoundState, Listening};
pub use logging::{LogFormat, LogOptions};
pub use memory::{bound_allocator, give_back_free_memory};
pub use page::{Expose, Format, Page, Value};
pub use renewed::ReloadingValue;
pub use screen::Screen;
pub use seconds::Seconds;
pub use secrets::hide_secrets;
pub use self_metrics::{Labels, SelfMetrics};
pub use ticker::Ticker;
pub use token::{Token, TokenFile};
