//! The kept corpus of `fuzz/` and mutations of it, on stable: no decoder and no file reader panics, or takes more
//! memory than its input justifies, whatever the bytes.

use peak_alloc::PeakAlloc;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use throughline_crawler::fuzz::{self, Target};

/// Mutations of each file of a corpus.
const MUTATIONS: usize = 60;
/// Bytes of mutated input a target gets at most, so that a large corpus does not make the test slow.
const MUTATED_BYTES: usize = 4 << 20;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;
/// What is allocated is that of the whole process: one target runs at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// Memory that any input may take: buffers, tables by LID.
const FREE_BYTES: usize = 1 << 20;
/// Memory for each byte of input: a line of 32 bytes is a switch of 255 ports, of up to 1,300 bytes each in the topology
/// and its documents.
const BYTES_PER_BYTE: usize = 12_000;
/// Memory that no input may take, be it large: that of the limits which the readers name.
const MOST_BYTES: usize = 256 << 20;
/// Bytes of a small packed file may be a thousand each (RFC 1951: 258 bytes in 2 bits).
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// The targets of both crates.
fn all_targets() -> impl Iterator<Item = &'static Target> {
    throughline_infiniband::fuzz::TARGETS.iter().chain(fuzz::TARGETS)
}

/// Runs a target and holds what it takes against the size of its input.
fn run(target: &Target, bytes: &[u8]) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    (target.run)(bytes);
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    let unpacked = if bytes.starts_with(&GZIP) { 1_032 * bytes.len() } else { bytes.len() };
    let bound = (FREE_BYTES + BYTES_PER_BYTE * unpacked).min(MOST_BYTES);
    assert!(taken <= bound, "{}: {taken} bytes of memory for {} of input", target.name, bytes.len());
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder("corpus").join(target.name))
        .unwrap_or_else(|error| panic!("{} has no corpus: {error}", target.name))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Numbers that look random and are the same in each run (splitmix64).
struct Scatter(u64);

impl Scatter {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.next() % limit as u64) as usize }
    }
}

/// One mutation: bits flipped, cut, spliced with another file, a part repeated, bytes set to extremes.
fn mutate(scatter: &mut Scatter, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut mutated = bytes.to_vec();
    let at = scatter.below(bytes.len());
    match scatter.below(6) {
        0 => {
            for _ in 0..=scatter.below(8) {
                let at = scatter.below(mutated.len());
                if let Some(byte) = mutated.get_mut(at) {
                    *byte ^= 1 << scatter.below(8);
                }
            }
        }
        1 => mutated.truncate(at),
        2 => {
            mutated.truncate(at);
            mutated.extend_from_slice(&other[scatter.below(other.len())..]);
        }
        3 => {
            let end = at + scatter.below(bytes.len() - at);
            let part = mutated[at..end].to_vec();
            for _ in 0..=scatter.below(4) {
                mutated.splice(at..at, part.iter().copied());
            }
        }
        4 => {
            let extreme = [0, 0xFF, b'9', b'"', b'\n', 0x80][scatter.below(6)];
            let end = (at + 1 + scatter.below(12)).min(mutated.len());
            mutated[at.min(end)..end].fill(extreme);
        }
        _ => {
            let end = at + scatter.below(bytes.len() - at);
            mutated.drain(at..end);
        }
    }
    mutated
}

#[test]
fn the_corpus_and_its_mutations_are_survived() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for target in all_targets() {
        let files = corpus(target);
        assert!(!files.is_empty(), "the corpus of {} is empty", target.name);
        run(target, &[]);
        let mut scatter = Scatter(target.name.bytes().map(u64::from).sum());
        let mut mutated_bytes = 0;
        for (index, file) in files.iter().enumerate() {
            run(target, file);
            for _ in 0..MUTATIONS {
                if mutated_bytes > MUTATED_BYTES {
                    break;
                }
                let other = &files[(index + 1 + scatter.below(files.len())) % files.len()];
                let first = mutate(&mut scatter, file, other);
                let second = mutate(&mut scatter, &first, file);
                mutated_bytes += first.len() + second.len();
                run(target, &first);
                run(target, &second);
            }
        }
    }
}

#[test]
fn long_lines_large_counts_and_repetitions_are_survived() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut long_line = b"Switch\t36 \"S-".to_vec();
    long_line.resize(10 << 20, b'0');
    let deep: Vec<u8> = b"[(\"{".iter().copied().cycle().take(1 << 20).collect();
    let brackets = b"\n[".repeat(1 << 19);
    // The cache file's header with the largest counts, and with counts that overflow when multiplied.
    let mut counts = 0x8FE7_832Bu32.to_le_bytes().to_vec();
    counts.extend_from_slice(&1u32.to_le_bytes());
    counts.resize(28, 0xFF);
    // Lines of few bytes that take the most room: switches of as many ports as there can be.
    let wide: String = (1..=300).map(|guid| format!("Switch\t254 \"S-{guid:016x}\"\n")).collect();
    let (ones, zeroes) = (vec![0xFF; 1 << 20], vec![0; 1 << 20]);
    for target in all_targets() {
        for bytes in [&long_line, &deep, &brackets, &counts, wide.as_bytes(), &ones, &zeroes] {
            run(target, bytes);
        }
    }
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let manifest = std::fs::read_to_string(folder("Cargo.toml")).unwrap();
    let programs: BTreeSet<&str> = manifest
        .split("[[bin]]")
        .skip(1)
        .filter(|bin| bin.contains("path = \"target.rs\""))
        .map(|bin| bin.split("name = \"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    let targets: BTreeSet<&str> = all_targets().map(|target| target.name).collect();
    assert_eq!(targets.len(), all_targets().count(), "a name stands twice");
    assert_eq!(programs, targets, "fuzz/Cargo.toml and the lists in src/fuzz.rs name the same targets");
}

/// Words by which a decoder of bytes from outside is recognised in the sources.
const SIGNS: [&str; 6] = [
    "pub fn decode(",
    "lines: &mut Lines<'_>",
    "pub fn parse(text: &str)",
    "pub(crate) fn parse(",
    "pub fn read(bytes: &",
    "Batch::decode(",
];
/// Files that have one of the signs and take nothing from outside, with the reason.
const NOT_FROM_OUTSIDE: &[(&str, &str)] = &[("fuzz.rs", "the list itself")];

#[test]
fn no_decoder_is_forgotten() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    no_decoder_is_forgotten_in(&crates.join("infiniband/src"), throughline_infiniband::fuzz::TARGETS);
    no_decoder_is_forgotten_in(&crates.join("crawler/src"), fuzz::TARGETS);
}

fn no_decoder_is_forgotten_in(root: &Path, targets: &[Target]) {
    let mut folders = vec![root.to_owned()];
    let mut with_decoder = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                if SIGNS.iter().any(|sign| text.contains(sign)) {
                    with_decoder.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
    }
    let covered: BTreeSet<&str> = targets.iter().flat_map(|target| target.covers).copied().collect();
    for file in &covered {
        assert!(root.join(file).is_file(), "{file} is covered by a target and is not there");
    }
    for file in &with_decoder {
        let is_excused = NOT_FROM_OUTSIDE.iter().any(|(other, _)| other == file);
        assert!(
            covered.contains(file.as_str()) || is_excused,
            "{file} takes bytes from outside and no target of src/fuzz.rs covers it: add one there, a [[bin]] in \
             fuzz/Cargo.toml and a folder with a seed in fuzz/corpus"
        );
    }
}
