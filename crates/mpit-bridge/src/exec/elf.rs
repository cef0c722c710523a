//! The few facts about an ELF file that decide what may be preloaded: class, machine, loader, libraries.
//!
//! Reads only; a file that is damaged or of another kind is `None`, never an error: the program is run anyway.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Files whose dynamic section or strings are larger are not looked at.
const SECTION_BYTES: u64 = 16 << 20;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
/// Section of the symbols that the loader looks at; it is never stripped.
const SHT_DYNSYM: u32 = 11;
const SYMBOL_BYTES: usize = 24;

/// A dynamically linked program or library of this machine's kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// The loader that a program names; empty in libraries.
    pub loader: String,
    /// Names of the libraries it needs.
    pub needed: Vec<String>,
    /// Where it wants them looked for.
    pub search: Vec<String>,
}

/// The machine that an ELF file is for, as `std::env::consts::ARCH` names it.
pub(super) fn machine(path: &Path) -> Option<String> {
    let header = read_at(&File::open(path).ok()?, 0, 64)?;
    if header.get(..4)? != b"\x7fELF" {
        return None;
    }
    let name = match (u16_at(&header, 18), header.get(4)?) {
        (3, _) => "x86",
        (62, 2) => "x86_64",
        (183, _) => "aarch64",
        (40, _) => "arm",
        (243, _) => "riscv64",
        (21, _) => "powerpc64",
        (22, _) => "s390x",
        (other, _) => return Some(format!("ELF machine {other}")),
    };
    Some(name.to_owned())
}

/// Does the file itself define this function? By its full symbol table, which stripped programs lack.
pub(super) fn defines(path: &Path, function: &str) -> bool {
    defined(path, function).unwrap_or(false)
}

fn defined(path: &Path, function: &str) -> Option<bool> {
    const SYMTAB: u32 = 2;
    const SECTION: usize = 64;
    const SYMBOL: usize = 24;
    let file = File::open(path).ok()?;
    let header = read_at(&file, 0, 64)?;
    if header.get(..6)? != b"\x7fELF\x02\x01" || usize::from(u16_at(&header, 58)) != SECTION {
        return None;
    }
    let count = u64::from(u16_at(&header, 60));
    let table = read_at(&file, u64_at(&header, 40), count * SECTION as u64)?;
    let sections: Vec<&[u8]> = table.chunks_exact(SECTION).collect();
    let read = |section: &[u8]| read_at(&file, u64_at(section, 24), u64_at(section, 32));
    let symbols = sections.iter().find(|section| u32_at(section, 4) == SYMTAB)?;
    let names = read(sections.get(u32_at(symbols, 40) as usize)?)?;
    let wanted = [b"\0", function.as_bytes(), b"\0"].concat();
    let at = names.windows(wanted.len()).position(|bytes| bytes == wanted)? as u32 + 1;
    // Section 0: only referred to, and defined elsewhere.
    let is_it = |symbol: &[u8]| u32_at(symbol, 0) == at && u16_at(symbol, 6) != 0;
    Some(read(symbols)?.chunks_exact(SYMBOL).any(is_it))
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Elf {
    /// Reads a file; `None` if it is no dynamic ELF file of this machine.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let segments = segments(&file)?;
        let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        let entries = read_at(&file, dynamic.offset, dynamic.size)?;
        let pairs: Vec<(u64, u64)> = entries
            .chunks_exact(16)
            .map(|entry| (u64_at(entry, 0), u64_at(entry, 8)))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let value = |tag| pairs.iter().find(|pair| pair.0 == tag).map(|pair| pair.1);
        let strings = read_at(&file, file_offset(&segments, value(DT_STRTAB)?)?, value(DT_STRSZ)?)?;
        let texts = |tag| {
            let offsets = pairs.iter().filter(move |pair| pair.0 == tag).map(|pair| pair.1);
            offsets.filter_map(|offset| text(strings.get(usize::try_from(offset).ok()?..)?))
        };
        let paths = texts(DT_RUNPATH).chain(texts(DT_RPATH));
        let interpreter = segments.iter().find(|segment| segment.kind == PT_INTERP);
        let loader = interpreter.and_then(|segment| text(&read_at(&file, segment.offset, segment.size)?));
        Some(Self {
            loader: loader.unwrap_or_default(),
            needed: texts(DT_NEEDED).collect(),
            search: paths.flat_map(|list| list.split(':').map(str::to_owned).collect::<Vec<_>>()).collect(),
        })
    }

    /// The MPI operations (`MPI_...`) that a library defines; `None` if it is no dynamic ELF file of this machine.
    #[must_use]
    pub fn operations(path: &Path) -> Option<BTreeSet<String>> {
        let file = File::open(path).ok()?;
        segments(&file)?; // checks the header
        let header = read_at(&file, 0, 64)?;
        let (offset, size, count) = (u64_at(&header, 40), u16_at(&header, 58), u16_at(&header, 60));
        if size != 64 {
            return None;
        }
        let sections = read_at(&file, offset, u64::from(size) * u64::from(count))?;
        let section = |entry: &[u8]| (u64_at(entry, 24), u64_at(entry, 32));
        let symbols = sections.chunks_exact(64).find(|entry| u32_at(entry, 4) == SHT_DYNSYM)?;
        let link = usize::try_from(u32_at(symbols, 40)).ok()?;
        let strings = section(sections.chunks_exact(64).nth(link)?);
        let strings = read_at(&file, strings.0, strings.1)?;
        let (offset, size) = section(symbols);
        let symbols = read_at(&file, offset, size)?;
        // A symbol's section is 0 where it is used and not defined.
        let defined = symbols.chunks_exact(SYMBOL_BYTES).filter(|symbol| u16_at(symbol, 6) != 0);
        let names = defined.filter_map(|symbol| strings.get(usize::try_from(u32_at(symbol, 0)).ok()?..));
        Some(names.filter(|name| name.starts_with(b"MPI_")).filter_map(text).collect())
    }
}

fn segments(file: &File) -> Option<Vec<Segment>> {
    let header = read_at(file, 0, 64)?;
    // 64 bits, little-endian, and the machine this program was built for.
    if header.get(..6)? != b"\x7fELF\x02\x01" || u16_at(&header, 18) != own_machine()? {
        return None;
    }
    let (offset, size, count) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    if size != 56 {
        return None;
    }
    let table = read_at(file, offset, u64::from(size) * u64::from(count))?;
    let segment = |entry: &[u8]| Segment {
        kind: u32_at(entry, 0),
        offset: u64_at(entry, 8),
        address: u64_at(entry, 16),
        size: u64_at(entry, 32),
    };
    Some(table.chunks_exact(56).map(segment).collect())
}

/// `e_machine` of this build (elf.h).
fn own_machine() -> Option<u16> {
    match std::env::consts::ARCH {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        "riscv64" => Some(243),
        _ => None,
    }
}

fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let holds = |segment: &&Segment| {
        segment.kind == PT_LOAD && address >= segment.address && address - segment.address < segment.size
    };
    let segment = segments.iter().find(holds)?;
    segment.offset.checked_add(address - segment.address)
}

fn read_at(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    if size > SECTION_BYTES {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// Numbers at fixed places of slices whose length the callers have checked; zero beyond their end.
fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    if let Some(slice) = bytes.get(at..at + N) {
        array.copy_from_slice(slice);
    }
    array
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_program() {
        let elf = Elf::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(elf.loader.contains("ld"), "{elf:?}");
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
    }

    #[test]
    fn functions_of_the_file_itself() {
        let own = std::env::current_exe().unwrap();
        assert!(defines(&own, "main"));
        assert!(!defines(&own, "PMPI_Init") && !defines(Path::new("/nowhere"), "main"));
        assert_eq!(machine(&own).as_deref(), Some(std::env::consts::ARCH));
        assert_eq!(machine(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn other_files_are_none() {
        assert_eq!(Elf::read(Path::new("/nowhere")), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0; 64], b"\x7fELF\x01\x01"] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(Elf::read(&file), None);
        }
    }

    #[test]
    fn damaged_files_are_none_or_read_without_harm() {
        let good = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for at in (0..200).step_by(3) {
            let mut bytes = good[..4096.min(good.len())].to_vec();
            bytes[at] ^= 0xff;
            std::fs::write(&file, &bytes).unwrap();
            let _ = Elf::read(&file);
        }
        std::fs::write(&file, &good[..100]).unwrap();
        assert_eq!(Elf::read(&file), None);
    }
}
