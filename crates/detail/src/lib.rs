//! Detail on demand of a daemon that has a recorder: the recorder as it is configured ([`Recording`]), and the thread that answers
//! the collector's requests from it ([`Details`]). And the command that shows what a recorder has ([`ListOptions`]).
//!
//! What the agent and the crawler do alike. Knows no source; what is particular to a daemon comes through [`Origin`].

mod answer;
mod list;
mod recording;

pub use answer::{Details, Lift, Origin, PART_RECORDS_MAX, WAITING_MAX};
pub use list::{DaemonRecorder, ListOptions};
pub use recording::{NAME, RecorderSection, Recording};
pub use throughline_recorder::Filter;
