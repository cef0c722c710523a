//! Bytes and time of a number: the series of this crate beside FastLanes' way (Afroozeh, Boncz: "The FastLanes Compression Layout", VLDB
//! 2023: blocks of 1,024, sixteen lanes of differences, one width and base a block) and Prometheus' chunks (XOR).
//!
//! `cargo bench -p throughline-packed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use throughline_packed::prometheus::{Chunk, chunks};
use throughline_packed::rows::{self, Row};
use throughline_packed::series::{Integers, unpack};

const BLOCK: usize = 1024;
const LANES: usize = 16;

/// Numbers of a lane.
const STEPS: usize = BLOCK / LANES;

/// A block of [`BLOCK`] numbers: number n of a lane is behind number n - 1 of it, so that lanes are added side by side.
struct Block {
    first: [i64; LANES],
    base: i64,
    width: u32,
    words: Vec<[u64; LANES]>,
}

impl Block {
    fn new(numbers: &[i64]) -> Block {
        let number = |lane: usize, step: usize| numbers[lane * STEPS + step];
        let first = std::array::from_fn(|lane| number(lane, 0));
        let steps =
            |step: usize| move |lane: usize| number(lane, step).wrapping_sub(number(lane, step.max(1) - 1));
        let all = (1..STEPS).flat_map(|step| (0..LANES).map(steps(step)));
        let base = all.clone().min().unwrap_or(0);
        let width = all.map(|step| u64::BITS - step.wrapping_sub(base).cast_unsigned().leading_zeros()).max();
        let width = width.unwrap_or(0);
        let mut words = vec![[0; LANES]; (STEPS * width as usize).div_ceil(64) + 2];
        for step in 1..STEPS {
            let at = step * width as usize;
            let rest = |lane: usize| steps(step)(lane).wrapping_sub(base).cast_unsigned();
            words[at / 64].iter_mut().enumerate().for_each(|(lane, word)| *word |= rest(lane) << (at % 64));
            let high = |lane: usize| rest(lane).checked_shr(64 - (at % 64) as u32).unwrap_or(0);
            words[at / 64 + 1].iter_mut().enumerate().for_each(|(lane, word)| *word |= high(lane));
        }
        Block { first, base, width, words }
    }

    fn bytes(&self) -> usize {
        8 * LANES + 8 + 1 + (BLOCK * self.width as usize).div_ceil(8)
    }

    fn unpack(&self, numbers: &mut [i64]) {
        let mask = u64::MAX.checked_shr(64 - self.width).unwrap_or(0);
        let mut now = self.first;
        for step in 0..STEPS {
            if step > 0 {
                let at = step * self.width as usize;
                let (low, high) = (&self.words[at / 64], &self.words[at / 64 + 1]);
                let shift = (at % 64) as u32;
                for ((now, low), high) in now.iter_mut().zip(low).zip(high) {
                    let rest = (low >> shift | (high << 1) << (63 - shift)) & mask;
                    *now = now.wrapping_add(self.base).wrapping_add(rest.cast_signed());
                }
            }
            numbers[step * LANES..(step + 1) * LANES].copy_from_slice(&now);
        }
    }
}

/// The best of some runs, a number in nanoseconds.
fn time(numbers: usize, mut run: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..30 {
        let begun = Instant::now();
        run();
        best = best.min(begun.elapsed());
    }
    best.as_secs_f64() * 1e9 / numbers as f64
}

fn sums(steps: impl Iterator<Item = i64>) -> Vec<i64> {
    let sum = |sum: &mut i64, step| {
        *sum += step;
        Some(*sum)
    };
    steps.scan(1_i64 << 41, sum).collect()
}

fn main() {
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = move |limit: i64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit.unsigned_abs()).cast_signed()
    };
    const COUNT: usize = 4 * BLOCK;
    let series: [(&str, Vec<i64>); 4] = [
        ("busy counter", sums((0..COUNT).map(|_| 11_000_000_000 + below(900_000_000)))),
        (
            "bursts of a counter",
            sums(
                (0..COUNT).map(|n| if n % 100 < 10 { 11_000_000_000 + below(900_000_000) } else { below(4) }),
            ),
        ),
        ("times, each second", sums((0..COUNT).map(|_| 1_000_000 + below(600)))),
        ("counter that stands still", vec![7; COUNT]),
    ];
    println!(
        "{:<28}{:>26}{:>26}{:>26}",
        "bytes, ns to read a number", "this crate", "FastLanes' way", "Prometheus"
    );
    for (name, numbers) in &series {
        let mut own = Integers::default();
        numbers.iter().enumerate().for_each(|(row, number)| own.push(row as i64, *number));
        let Some((own, _)) = own.finish(None) else { continue };
        assert_eq!(unpack(&own, None).map(|series| series.values).as_ref(), Some(numbers));
        let blocks: Vec<Block> = numbers.chunks(BLOCK).map(Block::new).collect();
        let points: Vec<(i64, f64)> =
            numbers.iter().zip(0..).map(|(number, n)| (n * 1000, *number as f64)).collect();
        let xor: Vec<Chunk> = chunks(&points).collect();
        let mut out = vec![0; BLOCK];
        for (block, numbers) in blocks.iter().zip(numbers.chunks(BLOCK)) {
            block.unpack(&mut out);
            assert!((0..BLOCK).all(|n| out[n % STEPS * LANES + n / STEPS] == numbers[n]), "{name}");
        }
        let read = [
            time(COUNT, || _ = black_box(unpack(black_box(&own), None))),
            time(COUNT, || blocks.iter().for_each(|block| black_box(block).unpack(black_box(&mut out)))),
            time(COUNT, || {
                let mut points = Vec::new();
                xor.iter().for_each(|chunk| _ = black_box(chunk.unpack(&mut points)));
            }),
        ];
        let bytes = [
            own.len(),
            blocks.iter().map(Block::bytes).sum(),
            xor.iter().map(|chunk| chunk.data.len()).sum::<usize>(),
        ];
        let columns = bytes.iter().zip(read).map(|(bytes, read)| {
            format!("{:>26}", format!("{:.2} B  {read:.1} ns", *bytes as f64 / COUNT as f64))
        });
        println!("{name:<28}{}", columns.collect::<String>());
    }
    let cells: Vec<Row> = (0..10)
        .map(|n| {
            let calls = 1 + below(1 << (4 + 2 * n));
            let inside = calls * (500 + below(90_000));
            Row {
                fixed: [100 + 3 * n, calls, calls << below(20), inside, 1000 + below(1 << 28)],
                optional: [(n % 3 == 0).then_some(inside / 3), (n % 2 == 0).then_some(calls << 10), None],
            }
        })
        .collect();
    let bits = rows::pack(&cells);
    let (count, bytes) = (bits.count(), bits.finish());
    let numbers: usize = cells.iter().map(|row| 5 + row.optional.iter().flatten().count()).sum();
    // A block of one width holds 1,024 numbers of a column, and of a row's ten a hundredth is used: each column is a block of its own.
    println!(
        "ten cells of a rank: {:.2} bytes a number as rows ({} bits of head), {:.1} ns to read; as series {:.2}",
        count as f64 / 8.0 / numbers as f64,
        128,
        time(numbers, || _ = black_box(rows::unpack(black_box(&bytes)))),
        {
            let column = |of: &dyn Fn(&Row) -> Option<i64>| {
                let mut series = Integers::default();
                cells.iter().zip(0..).for_each(|(row, n)| {
                    of(row).into_iter().for_each(|number| series.push(n, number));
                });
                series.finish(None).map_or(0, |(bytes, _)| bytes.len())
            };
            let all: usize = (0..5).map(|at| column(&|row| Some(row.fixed[at]))).sum::<usize>()
                + (0..3).map(|at| column(&|row| row.optional[at])).sum::<usize>();
            all as f64 / numbers as f64
        }
    );
}
