//! Random sequences of readings: counters of any width that wrap, are reset, are absent for a while. Within an epoch no
//! counter falls and none grows by more than what really moved, so no rate is negative or absurd.

use std::collections::HashMap;

use throughline_gpu::convert::Converter;
use throughline_gpu::cupti::convert::CuptiConverter;
use throughline_gpu::cupti::metrics::Quantity;
use throughline_gpu::cupti::sums::Sums;
use throughline_gpu::cupti_frame::{CuptiGpu, CuptiPoll, QuantitySum};
use throughline_gpu::field::{self, value_type};
use throughline_gpu::frame::{GpuPoll, GpuSurvey, LinkSurvey, Poll, RawField, Survey};
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::increase;

/// GPUs of one poll: each is an epoch, and so a sequence, of its own.
const GPUS: usize = 50;
/// Readings of each sequence.
const READINGS: usize = 6;
/// Sequences of an ordinary run; `benches/gpu.sh` requests a million by [`SEQUENCES_VARIABLE`].
const SEQUENCES: usize = 50_000;
const SEQUENCES_VARIABLE: &str = "THROUGHLINE_TEST_SEQUENCES";
/// What a sample lasts, nanoseconds.
const SECOND: u64 = 1_000_000_000;
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

/// What a GPU counts of its link: bytes sent and received, and three kinds of errors.
const METRICS: [&Metric; 5] = [
    &catalogue::NVLINK_TRANSMIT_BYTES,
    &catalogue::NVLINK_RECEIVE_BYTES,
    &catalogue::NVLINK_REPLAY_ERRORS,
    &catalogue::NVLINK_RECOVERY_ERRORS,
    &catalogue::NVLINK_CRC_ERRORS,
];
/// From here on they are errors, which are there or not there together: a driver reports none with ECC off.
const ERRORS: usize = 2;

/// A counter in hardware: its field, width and unit, and all that it ever counted.
struct Counter {
    field: u32,
    /// Bytes, or errors, of one.
    unit: u64,
    bits: u32,
    /// In its unit, with the wraps of its width left out.
    raw: u64,
    /// What really moved so far.
    moved: u128,
}

impl Counter {
    /// All of one GPU.
    fn all(random: &mut Random) -> Vec<Self> {
        // Bytes are counted in KiB up to NVLink 4, and in bytes from NVLink 5 on.
        let bytes = if random.below(2) == 0 {
            [(field::DATA_TX_KIB, 1024), (field::DATA_RX_KIB, 1024)]
        } else {
            [(field::XMIT_BYTES, 1), (field::RCV_BYTES, 1)]
        };
        let errors = [(field::DL_REPLAY, 1), (field::DL_RECOVERY, 1), (field::DL_CRC, 1)];
        bytes.into_iter().chain(errors).map(|(field, unit)| Self::new(field, unit, random)).collect()
    }

    fn new(field: u32, unit: u64, random: &mut Random) -> Self {
        let bits = 8 + u32::try_from(random.below(57)).unwrap();
        let mut made = Self { field, unit, bits, raw: 0, moved: 0 };
        made.raw = random.next() & made.mask();
        // Many begin just below a wrap.
        if random.below(3) == 0 {
            made.raw = made.mask() - 1 - random.below(1000).min(made.mask() - 1);
        }
        made
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn advance(&mut self, random: &mut Random) {
        let shift = 24 + random.below(40);
        // Bytes below a terabyte a second: more is not believed of any link.
        let grown = random.next() >> shift >> self.unit.ilog2();
        match random.below(20) {
            // A driver reload, or somebody's reset, and traffic after it.
            0 => {
                let grown = random.below(1000) & self.mask();
                self.raw = grown;
                self.moved += u128::from(grown) * u128::from(self.unit);
            }
            1 => {}
            _ => {
                self.raw = self.raw.wrapping_add(grown) & self.mask();
                self.moved += u128::from(grown) * u128::from(self.unit);
            }
        }
        // That is no count.
        if self.raw == u64::MAX {
            (self.raw, self.moved) = (0, self.moved + u128::from(self.unit));
        }
    }

    /// Its field as NVML answers; not supported where it is absent.
    fn read(&self, is_absent: bool) -> RawField {
        // What stands there beside a code that is no success is no value.
        let (code, bits) = if is_absent { (3, 0) } else { (0, self.raw) };
        RawField { field: self.field, scope: 0, code, value_type: value_type::UNSIGNED_LONG_LONG, bits }
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
    let survey = Survey { gpus: gpus.collect(), ..Survey::default() };
    for _ in 0..rounds {
        let mut converter = Converter::default();
        converter.survey(&survey);
        let mut counters: Vec<Vec<Counter>> = (0..GPUS).map(|_| Counter::all(&mut random)).collect();
        // What was last stored of a counter: epoch, value, and what had really moved then.
        let mut stored: HashMap<(usize, usize), (i64, u64, u128)> = HashMap::new();
        for time in 0..READINGS {
            let time = i64::try_from(time).unwrap() * 1_000_000_000;
            let mut absent = Vec::with_capacity(GPUS);
            let polls = counters.iter_mut().map(|counters| {
                counters.iter_mut().for_each(|counter| counter.advance(&mut random));
                let no_errors = random.below(6) == 0;
                let gone: Vec<bool> = (0..METRICS.len())
                    .map(|at| random.below(12) == 0 || (at >= ERRORS && no_errors))
                    .collect();
                let link_fields =
                    counters.iter().zip(&gone).map(|(counter, gone)| counter.read(*gone)).collect();
                absent.push(gone);
                GpuPoll { links_monotonic_nanoseconds: time, link_fields, ..GpuPoll::default() }
            });
            let poll = Poll { gpus: polls.collect(), ..Poll::default() };
            let converted = converter.poll(&poll, &|time| time);
            let reported: u64 = converted.absent.values().sum();
            assert_eq!(
                reported,
                absent.iter().flatten().filter(|gone| **gone).count() as u64,
                "each has its reason"
            );
            for sample in &converted.batch.gpu_links {
                let gpu: usize = sample.gpu_uuid.parse().unwrap();
                let values = sample.links[0].values.as_ref().unwrap();
                for (at, metric) in METRICS.into_iter().enumerate() {
                    assert_eq!(
                        values.get(metric).is_none(),
                        absent[gpu][at],
                        "absent is absent, and never 0"
                    );
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

/// Sums of a performance monitor's samples, which CUPTI's sampler keeps itself: they wrap after 64 bits, are stored with 63,
/// and begin anew with each sampling. Their increase is exactly what the samples held.
#[test]
fn sums_of_samples_grow_by_what_the_samples_held() {
    let sequences = std::env::var(SEQUENCES_VARIABLE).map_or(SEQUENCES, |number| number.parse().unwrap());
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let wanted = Quantity::ALL;
    let metrics = [
        &catalogue::PM_NVLINK_TRANSMIT_BYTES,
        &catalogue::PM_NVLINK_RECEIVE_BYTES,
        &catalogue::PM_PCIE_READ_BYTES,
        &catalogue::PM_PCIE_WRITE_BYTES,
    ];
    for _ in 0..sequences / wanted.len() {
        let (mut converter, mut sums, mut begun) = (CuptiConverter::default(), Sums::default(), 0);
        let mut last: Option<(i64, [u64; 4])> = None;
        sums.add(&wanted, &[0.0; 4], SECOND);
        // Sums that began long ago: just below either wrap.
        let high = [u64::MAX, u64::MAX >> 1, 1 << 53, 0];
        let starts = sums.of.iter_mut().flatten();
        starts.for_each(|sum| sum.bytes = high[random.below(4) as usize].wrapping_sub(random.below(1 << 20)));
        for time in 1..=READINGS as i64 {
            if random.below(8) == 0 {
                (sums, begun) = (Sums::default(), time);
                sums.add(&wanted, &[0.0; 4], SECOND);
            }
            let mut held = [0_u64; 4];
            for _ in 0..random.below(4) {
                let values = [0; 4].map(|_| random.next() >> (24 + random.below(30)));
                if random.below(10) == 0 {
                    sums.add(&wanted, &[f64::NAN, 1.0, 1.0, 1.0], SECOND);
                    continue;
                }
                // Below 2^53, so that each is a number with a fraction without loss.
                sums.add(&wanted, &values.map(|value| value as f64), SECOND);
                held.iter_mut().zip(values).for_each(|(held, value)| *held += value);
            }
            let reported = sums.of.iter().flatten().zip(0..);
            let reported =
                reported.map(|(sum, quantity)| QuantitySum { quantity, bytes: sum.bytes, peak: 0 });
            let gpu = CuptiGpu {
                uuid: "GPU-1".into(),
                monotonic_nanoseconds: time,
                begun_nanoseconds: begun,
                sums: reported.collect(),
                ..CuptiGpu::default()
            };
            let poll = CuptiPoll { gpus: vec![gpu], ..CuptiPoll::default() };
            let batch = converter.poll(&poll, &|time| time).batch;
            let values = batch.gpu_pm[0].values.as_ref().unwrap();
            let now = metrics.map(|metric| values.get(metric).unwrap());
            if let Some((epoch, before)) = last
                && epoch == batch.gpu_pm[0].epoch
            {
                let grown: Vec<u64> =
                    before.iter().zip(now).map(|(before, now)| increase(*before, now)).collect();
                assert_eq!(grown, held, "from {before:?} to {now:?}");
            }
            last = Some((batch.gpu_pm[0].epoch, now));
        }
    }
}
