//! SIGTERM and SIGINT end a one-shot command in an orderly way: exit handlers run (libumad2sim's removes its
//! folder). A command that is stuck in libibumad ends all the same.

use nix::sys::signal::{SigSet, Signal, raise};
use std::time::Duration;
use throughline_crawler::stop::Stop;

/// Time to end in an orderly way. The engine looks for a stop ten times a second; only a call that does not
/// come back (a wedged driver, a simulator that is gone) takes longer.
const GRACE: Duration = Duration::from_secs(3);

/// Takes both signals over. Call before any thread is started. A second signal, or the end of the grace time,
/// ends the process at once, without exit handlers.
///
/// # Errors
/// The signals can't be blocked or the thread can't be started.
pub fn on_signals() -> anyhow::Result<Stop> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block()?;
    let stop = Stop::default();
    let reported = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(signal) = signals.wait() else { return };
        reported.set();
        // Where no thread can be started, a second signal remains.
        let _ = std::thread::Builder::new().name("grace".to_owned()).spawn(move || {
            std::thread::sleep(GRACE);
            die(signals, signal);
        });
        if let Ok(second) = signals.wait() {
            die(signals, second);
        }
    })?;
    Ok(stop)
}

/// Ends the process by a signal's default action. Not by `exit`: a handler may be what hangs.
fn die(blocked: SigSet, signal: Signal) {
    // What fails here leaves the process as it is, to be ended by SIGKILL.
    let _ = blocked.thread_unblock();
    let _ = raise(signal);
}
