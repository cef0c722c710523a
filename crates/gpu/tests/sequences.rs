//! Random sequences of readings: counters of any width that wrap, are reset, are absent for a while. Within an epoch no
//! counter falls and none grows by more than what really moved, so no rate is negative or absurd.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;

use throughline_gpu::convert::Converter;
use throughline_gpu::field::{self, value_type};
use throughline_gpu::frame::{GpuPoll, GpuSurvey, LinkSurvey, Poll, RawField, Survey};
use throughline_sample::catalogue;
use throughline_sample::increase;

/// GPUs of one poll: each is an epoch, and so a sequence, of its own.
const GPUS: usize = 50;
/// Readings of each sequence.
const READINGS: usize = 6;
/// Sequences of an ordinary run; `benches/gpu.sh` asks for a million by [`SEQUENCES_VARIABLE`].
const SEQUENCES: usize = 50_000;
const SEQUENCES_VARIABLE: &str = "THROUGHLINE_TEST_SEQUENCES";
/// Threads that share them.
const THREADS: usize = 2;

/// xorshift64*: good enough to choose, and the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A counter in hardware: its width and unit, and all that it ever counted.
struct Counter {
    bits: u32,
    /// In its unit, with the wraps of its width left out.
    raw: u64,
    /// Bytes that really moved so far.
    moved: u128,
    kib: bool,
}

impl Counter {
    fn new(random: &mut Random) -> Self {
        let bits = 8 + u32::try_from(random.below(57)).unwrap();
        let mut made = Self { bits, raw: 0, moved: 0, kib: random.below(2) == 0 };
        made.raw = random.next() & made.mask();
        // Many begin just below a wrap.
        if random.below(3) == 0 {
            made.raw = made.mask() - random.below(1000).min(made.mask());
        }
        made
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn advance(&mut self, random: &mut Random) {
        let shift = 24 + random.below(40);
        let grown = random.next() >> shift;
        match random.below(20) {
            // A driver reload, or somebody's reset, and traffic after it.
            0 => {
                let grown = random.below(1000) & self.mask();
                self.raw = grown;
                self.moved += u128::from(grown) * if self.kib { 1024 } else { 1 };
            }
            1 => {}
            _ => {
                self.raw = self.raw.wrapping_add(grown) & self.mask();
                self.moved += u128::from(grown) * if self.kib { 1024 } else { 1 };
            }
        }
    }

    fn read(&self, random: &mut Random, transmit: bool) -> RawField {
        let field = match (self.kib, transmit) {
            (true, true) => field::DATA_TX_KIB,
            (true, false) => field::DATA_RX_KIB,
            (false, true) => field::XMIT_BYTES,
            (false, false) => field::RCV_BYTES,
        };
        let code = if random.below(12) == 0 { 3 } else { 0 };
        RawField { field, scope: 0, code, value_type: value_type::UNSIGNED_LONG_LONG, bits: self.raw }
    }
}

fn check(seed: u64, rounds: usize) -> (u64, u64) {
    let mut random = Random(seed);
    let (mut rates, mut epochs) = (0, 0);
    let links = vec![LinkSurvey { link: 0, active: true, ..LinkSurvey::default() }];
    let gpus = (0..GPUS).map(|gpu| GpuSurvey {
        uuid: gpu.to_string(),
        links: links.clone(),
        ..GpuSurvey::default()
    });
    let survey = Survey { gpus: gpus.collect(), unreadable: 0 };
    for _ in 0..rounds {
        let mut converter = Converter::default();
        converter.survey(&survey);
        let mut counters: Vec<[Counter; 2]> =
            (0..GPUS).map(|_| [Counter::new(&mut random), Counter::new(&mut random)]).collect();
        // What was last stored of a counter: epoch, value, and what had really moved then.
        let mut stored: HashMap<(usize, usize), (i64, u64, u128)> = HashMap::new();
        for time in 0..READINGS {
            let time = i64::try_from(time).unwrap() * 1_000_000_000;
            let polls = counters.iter_mut().map(|pair| {
                pair.iter_mut().for_each(|counter| counter.advance(&mut random));
                let link_fields = vec![pair[0].read(&mut random, true), pair[1].read(&mut random, false)];
                GpuPoll { links_monotonic_nanoseconds: time, link_fields, ..GpuPoll::default() }
            });
            let poll = Poll { gpus: polls.collect(), ..Poll::default() };
            let converted = converter.poll(&poll, &|time| time);
            for sample in &converted.batch.gpu_links {
                let gpu: usize = sample.gpu_uuid.parse().unwrap();
                let values = sample.links[0].values.as_ref().unwrap();
                let metrics = [&catalogue::NVLINK_TRANSMIT_BYTES, &catalogue::NVLINK_RECEIVE_BYTES];
                for (at, metric) in metrics.into_iter().enumerate() {
                    let Some(value) = values.get(metric) else { continue };
                    let moved = counters[gpu][at].moved;
                    let before = stored.insert((gpu, at), (sample.epoch, value, moved));
                    let Some((epoch, last, moved_then)) = before else { continue };
                    if epoch != sample.epoch {
                        epochs += 1;
                        continue;
                    }
                    rates += 1;
                    let grown = increase(last, value);
                    assert!(
                        u128::from(grown) <= moved - moved_then,
                        "seed {seed}: {last} to {value} is {grown}, and {} moved",
                        moved - moved_then
                    );
                }
            }
        }
    }
    (rates, epochs)
}

#[test]
fn no_rate_is_negative_or_absurd() {
    let sequences = std::env::var(SEQUENCES_VARIABLE).map_or(SEQUENCES, |number| number.parse().unwrap());
    let rounds = sequences / GPUS / THREADS;
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| std::thread::spawn(move || check(0x9e37_79b9_7f4a_7c15 + thread as u64, rounds)))
        .collect();
    let (rates, epochs) = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // The sequences hold both rates and resets in plenty: the test is not empty.
    assert!(rates > sequences as u64 && epochs > sequences as u64 / 10, "{rates} rates, {epochs} new epochs");
}
