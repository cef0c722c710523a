//! The current schema: functions and views as files, or made from the catalogue, applied where they differ from what is installed, and a text that
//! shows the whole schema. Tables change by migrations only ([`crate::migrate`]).

mod dependents;
mod fault;
mod install;
mod objects;
mod readings;
mod rules;
mod text;

pub(crate) use fault::Fault;
pub(crate) use install::{LOCK_LIMIT, install, readers_of_views};
pub use text::schema_text;
