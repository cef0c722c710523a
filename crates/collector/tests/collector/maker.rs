//! Valid and invalid records in any order, from a seed, and what of them is to be found afterwards.

use std::collections::BTreeSet;

use throughline_sample::Message;
use throughline_sample::wire::*;

use crate::site::{HOUR, now};

/// Valid records of each kind in an entry.
pub const VALID: u64 = 3;

/// A small generator that a seed repeats (Vigna's SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}

/// What is to be found afterwards, and what was sent besides.
#[derive(Default)]
pub struct Ledger {
    /// Table and the time, or the key, of a record.
    pub valid: BTreeSet<(&'static str, String)>,
    pub invalid: u64,
}

/// One entry in the making: each record encoded as a batch of its own, so that all of them can be put in any order.
pub struct Entry<'a> {
    pub records: Vec<Vec<u8>>,
    pub ledger: &'a mut Ledger,
}

pub fn micros(time: i64) -> String {
    (time / 1000).to_string()
}

impl Entry<'_> {
    pub fn valid(&mut self, table: &'static str, key: String, batch: Batch) {
        self.ledger.valid.insert((table, key));
        self.records.push(batch.encode_to_vec());
    }

    pub fn invalid(&mut self, batch: Batch) {
        self.ledger.invalid += 1;
        self.records.push(batch.encode_to_vec());
    }
}

/// A text that no name may be.
pub fn bad_name(random: &mut Random) -> String {
    match random.below(4) {
        0 => "a\0b".into(),
        1 => "a\u{202e}b".into(),
        2 => "\u{1b}[2J".into(),
        _ => "x".repeat(257),
    }
}

/// A time that is not admitted.
pub fn bad_time(random: &mut Random) -> i64 {
    let day = 24 * HOUR;
    match random.below(5) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => now() + day * (1 + random.below(60_000) as i64),
        3 => now() - day * (8 + random.below(15_000) as i64),
        _ => 0,
    }
}

/// Puts kinds with a time into an entry: valid ones, such with a bad time, and such as `spoil` makes.
macro_rules! timed {
    ($entry:ident, $random:ident, $time:ident, $kind:ident, $table:literal, $make:expr, [$($spoil:expr),+ $(,)?]) => {
        for _ in 0..VALID {
            $time += 1000;
            let record = $make($time);
            $entry.valid($table, micros($time), Batch { $kind: vec![record], ..Batch::default() });
        }
        let record = $make(bad_time($random));
        $entry.invalid(Batch { $kind: vec![record], ..Batch::default() });
        $({
            $time += 1000;
            let mut record = $make($time);
            #[allow(clippy::redundant_closure_call)]
            ($spoil)(&mut record, &mut *$random);
            $entry.invalid(Batch { $kind: vec![record], ..Batch::default() });
        })+
    };
}

/// An encoded message is the sum of its parts in any order (Protocol Buffers, "Last One Wins").
pub fn finish(random: &mut Random, mut entry: Entry<'_>, sender: Batch) -> Vec<u8> {
    entry.records.push(sender.encode_to_vec());
    random.shuffle(&mut entry.records);
    entry.records.concat()
}
