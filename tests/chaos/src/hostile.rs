//! What a stolen node certificate and an ordinary user may send: claims about everything, and floods of short ranks.

mod claims;
mod node;
mod user;

pub use node::{Options as NodeOptions, run as run_node};
pub use user::{Options as UserOptions, run as run_user};

use std::sync::mpsc::{Receiver, channel};

/// From one line of counts to the next.
const COUNTS_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

/// Disconnected when standard input ends.
fn end_of_input() -> Receiver<()> {
    let (closed, is_closed) = channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        drop(closed);
    });
    is_closed
}
