//! Every program of this folder: runs the target of the list that has the program's name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use throughline_crawler::fuzz::{Target, target};

static TARGET: LazyLock<&'static Target> =
    LazyLock::new(|| target(env!("CARGO_BIN_NAME")).expect("the list has a target of this name"));

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
