//! How a test reports that it could not check anything: a skipped test is never a silent success.
//!
//! [`skip!`] ends a test that lacks something that the machine could have (root, a tool, a Python wheel). It prints one
//! line that begins with [`MARK`], past the capture of the test harness, and appends the same line to the file that
//! [`FILE_VARIABLE`] names, from which `make test` makes its list. In continuous integration (`CI=true`) it panics
//! instead, so that a check cannot disappear unnoticed. Tests that need hardware do not come here: they are `#[ignore]`d.
//!
//! For tests only: no product crate depends on this one.

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::path::Path;

/// The first word of each line about a skipped test.
pub const MARK: &str = "SKIPPED";

/// Environment variable with the absolute path of a file to which the lines are appended.
pub const FILE_VARIABLE: &str = "THROUGHLINE_SKIPPED_FILE";

/// Ends the test, which returns nothing, and reports what is missing and how to get it, as a `format!` string.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {
        return $crate::skipped(::std::format_args!($($reason)+))
    };
}

/// Reports that the running test, or a part of it, checks nothing, for this reason.
///
/// # Panics
/// In continuous integration: what is missing has to be installed there.
#[track_caller]
#[allow(clippy::panic)] // A failed test is a panic.
pub fn skipped(reason: impl Display) {
    let line = line(&reason);
    assert!(!in_ci(), "{line}\nCI=true: a test that checks nothing is a failure; install what is missing");
    record(&line);
}

/// Reports that the running test, or a part of it, was left out because a program that is not ours failed without us:
/// the caller has just shown that. It is listed as skipped, and fails nowhere.
#[track_caller]
pub fn left_out(reason: impl Display) {
    record(&line(&reason));
}

/// Whether this process runs as root; if not, reports the test as skipped: root is needed `to` do this.
///
/// # Panics
/// In continuous integration, as [`skipped`].
#[must_use]
#[track_caller]
pub fn is_root(to: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skipped(format_args!("needs root {to}; run the tests as root"));
    }
    is_root
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

#[track_caller]
fn line(reason: &dyn Display) -> String {
    let place = Location::caller();
    let thread = std::thread::current();
    // The harness names a test's thread after the test; with one test at a time it is `main`.
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    let reason = reason.to_string().replace('\n', " ");
    format!("{MARK} {}:{} {test}: {reason}", place.file(), place.line())
}

/// Prints the line and appends it to the file, in one write each, as other tests do the same.
#[allow(clippy::expect_used)] // A list that cannot be written would hide the skipped test.
fn record(line: &str) {
    let line = format!("{line}\n");
    // Not by `eprintln!`, whose output the harness shows for failed tests only.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(FILE_VARIABLE) {
        let file = std::fs::File::options().create(true).append(true).open(Path::new(&path));
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file of skipped tests is writable");
    }
}
