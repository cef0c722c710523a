//! SIGTERM and SIGINT end a one-shot command in an orderly way: exit handlers run (libumad2sim's removes its
//! folder).

use nix::sys::signal::{SigSet, Signal};
use throughline_fabric::stop::Stop;

/// Takes both signals over. Call before any thread is started; a second signal ends the process at once.
///
/// # Errors
/// The signals can't be blocked or the thread can't be started.
pub fn on_signals() -> anyhow::Result<Stop> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block()?;
    let stop = Stop::default();
    let told = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while signals.wait().is_ok() {
            if told.set() {
                std::process::exit(1);
            }
        }
    })?;
    Ok(stop)
}
