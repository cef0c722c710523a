//! HTTP connections within bounds: so many in number, in all and of each peer, and in time. A peer that is silent, slow
//! or greedy takes nothing from others, and the descriptors of a process are left to its work.
//!
//! [`serve`] is the whole for the pages of a daemon; the server's roles query and collect have their own accept sides, of the same
//! parts.

mod counts;
mod held_body;
mod places;
mod serve;
mod watched;

pub use counts::{CountGuard, Counts};
pub use held_body::HeldBody;
pub use places::{EvictionCause, GivesWay, LastBytes, Peer, Place, Places, PlacesFullError, Usefulness};
pub use serve::serve;
pub use watched::{WRITE_STALL_MAX, WatchedStream};
