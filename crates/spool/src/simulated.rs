//! A disk in memory that forgets: what was not synced survives a crash wholly, partly, or not at all, and
//! any operation can be made to fail. Knows nothing of spools. For tests of this crate and of others (feature
//! `simulated-disk`); what is wrong with its use panics.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use crate::{Storage, StorageFile};

/// Unit in which a disk writes: either all of it or nothing survives.
const SECTOR_BYTES: usize = 512;

/// What happens to an operation instead of its success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// ENOSPC, nothing done.
    NoSpace,
    /// EIO, nothing done (a sync: what was unsynced may never reach the disk).
    Io,
    /// EIO after half of the bytes.
    Torn,
}

#[derive(Debug, Clone, Default)]
struct FileData {
    /// Sure to be there after a crash.
    durable: Vec<u8>,
    /// As a reader sees it now.
    current: Vec<u8>,
    /// Not synced, in order.
    writes: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum NameOp {
    Create(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Default)]
struct World {
    /// In order, so that a seed plays the same way again.
    files: BTreeMap<u64, FileData>,
    next_file: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_ops: Vec<NameOp>,
    /// Changing operations so far.
    ops: u64,
    crash_at: Option<u64>,
    faults: HashMap<u64, Fault>,
    /// While set, every write and creation fails so.
    always: Option<Fault>,
}

/// The disk. Clones are the same one.
#[derive(Clone, Default)]
pub struct Sim(Arc<Mutex<World>>);

/// A small generator of its own: the tests give the seed, so every failure can be repeated.
pub struct Random(u64);

impl Random {
    /// Begins with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // splitmix64's finalizer over a Weyl sequence.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

fn apply(names: &mut BTreeMap<String, u64>, op: &NameOp) {
    match op {
        NameOp::Create(name, id) => {
            names.insert(name.clone(), *id);
        }
        NameOp::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        NameOp::Remove(name) => {
            names.remove(name);
        }
    }
}

impl World {
    fn alive(&self) -> io::Result<()> {
        if self.crash_at.is_some_and(|at| self.ops >= at) {
            return Err(io::Error::other("the machine has crashed"));
        }
        Ok(())
    }

    /// Counts a changing operation; says how it is to fail.
    fn step(&mut self) -> io::Result<Option<Fault>> {
        self.alive()?;
        let fault = self.faults.get(&self.ops).copied();
        self.ops += 1;
        Ok(fault.or(self.always))
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::NoSpace => io::Error::from(ErrorKind::StorageFull),
        Fault::Io | Fault::Torn => io::Error::from_raw_os_error(5),
    }
}

impl Sim {
    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changing operations so far.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.world().ops
    }

    /// From the operation of this number on, everything fails as on a machine that is gone.
    pub fn crash_at(&self, op: u64) {
        self.world().crash_at = Some(op);
    }

    /// The operation of this number fails so.
    pub fn fail(&self, op: u64, fault: Fault) {
        self.world().faults.insert(op, fault);
    }

    /// While set, every operation that changes something fails so.
    pub fn fail_always(&self, fault: Option<Fault>) {
        self.world().always = fault;
    }

    /// All bytes of files whose name ends so.
    #[must_use]
    pub fn bytes_of(&self, ending: &str) -> u64 {
        let world = self.world();
        world
            .names
            .iter()
            .filter(|(n, _)| n.ends_with(ending))
            .map(|(_, id)| world.files[id].current.len() as u64)
            .sum()
    }

    /// Names of all files, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.world().names.keys().cloned().collect()
    }

    /// Cuts a file short.
    pub fn cut(&self, name: &str, len: usize) {
        let mut world = self.world();
        let id = world.names[name];
        world.files.get_mut(&id).unwrap().current.truncate(len);
    }

    /// Length of a file as a reader sees it.
    #[must_use]
    pub fn length(&self, name: &str) -> usize {
        let world = self.world();
        world.files[&world.names[name]].current.len()
    }

    /// Puts other bytes into a file, as a disk does that is going bad.
    pub fn overwrite(&self, name: &str, at: usize, data: &[u8]) {
        let mut world = self.world();
        let id = world.names[name];
        let file = world.files.get_mut(&id).unwrap();
        for bytes in [&mut file.current, &mut file.durable] {
            put(bytes, at, data);
        }
    }

    /// Changes a byte of a file, as a bad disk does.
    pub fn flip(&self, name: &str, at: usize) {
        let mut world = self.world();
        let id = world.names[name];
        let file = world.files.get_mut(&id).unwrap();
        for bytes in [&mut file.current, &mut file.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0x10;
            }
        }
    }

    /// A process that was killed is gone and its machine is not: what it wrote is there, synced or not. To be called
    /// after [`Sim::crash_at`], which kept the process from writing while it went.
    pub fn revive(&self) {
        self.world().crash_at = None;
    }

    /// The disk as found after the power came back: all synced things, and of the others what chance left.
    #[must_use]
    pub fn after_crash(&self, random: &mut Random) -> Sim {
        let world = self.world();
        let mut names = world.durable_names.clone();
        // File systems keep the order of changes of names; how many were on disk is chance.
        let kept = random.below(world.name_ops.len() as u64 + 1) as usize;
        for op in &world.name_ops[..kept] {
            apply(&mut names, op);
        }
        let mut files = BTreeMap::new();
        for (id, file) in &world.files {
            let mut bytes = file.durable.clone();
            for (offset, data) in &file.writes {
                match random.below(4) {
                    0 => {}
                    1 => put(&mut bytes, *offset, data),
                    2 => {
                        // Any sectors of it; the file may have grown to its full length with zeros.
                        if random.below(2) == 0 && bytes.len() < offset + data.len() {
                            bytes.resize(offset + data.len(), 0);
                        }
                        let mut start = 0;
                        while start < data.len() {
                            let end = ((offset + start) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
                            let end = end.min(data.len());
                            if random.below(2) == 0 {
                                put(&mut bytes, offset + start, &data[start..end]);
                            }
                            start = end;
                        }
                    }
                    _ => {
                        let len = random.below(data.len() as u64 + 1) as usize;
                        put(&mut bytes, *offset, &data[..len]);
                    }
                }
            }
            files.insert(*id, FileData { durable: bytes.clone(), current: bytes, writes: Vec::new() });
        }
        let next_file = world.next_file;
        Sim(Arc::new(Mutex::new(World {
            files,
            next_file,
            durable_names: names.clone(),
            names,
            ..World::default()
        })))
    }
}

impl Storage for Sim {
    fn list(&self) -> io::Result<Vec<String>> {
        let world = self.world();
        world.alive()?;
        Ok(world.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut world = self.world();
        if let Some(fault) = world.step()? {
            return Err(error(fault));
        }
        if world.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let id = world.next_file;
        world.next_file += 1;
        world.files.insert(id, FileData::default());
        let op = NameOp::Create(name.into(), id);
        apply(&mut world.names, &op);
        world.name_ops.push(op);
        Ok(Box::new(SimFile { sim: self.clone(), id }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let world = self.world();
        world.alive()?;
        match world.names.get(name) {
            Some(id) => Ok(Box::new(SimFile { sim: self.clone(), id: *id })),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(NameOp::Rename(from.into(), to.into()), from)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(NameOp::Remove(name.into()), name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut world = self.world();
        if let Some(fault) = world.step()? {
            return Err(error(fault));
        }
        world.durable_names = world.names.clone();
        world.name_ops.clear();
        Ok(())
    }
}

impl Sim {
    fn change(&self, op: NameOp, name: &str) -> io::Result<()> {
        let mut world = self.world();
        // A full disk does not keep a name from going.
        match world.step()? {
            None | Some(Fault::NoSpace) => {}
            Some(fault) => return Err(error(fault)),
        }
        if !world.names.contains_key(name) {
            return Err(ErrorKind::NotFound.into());
        }
        apply(&mut world.names, &op);
        world.name_ops.push(op);
        Ok(())
    }
}

struct SimFile {
    sim: Sim,
    id: u64,
}

impl StorageFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let world = self.sim.world();
        world.alive()?;
        Ok(world.files[&self.id].current.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.sim.world();
        world.alive()?;
        let bytes = world.files[&self.id].current.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut world = self.sim.world();
        let fault = world.step()?;
        let bytes = match fault {
            None => bytes,
            Some(Fault::Torn) => &bytes[..bytes.len() / 2],
            Some(fault) => return Err(error(fault)),
        };
        let file = world.files.get_mut(&self.id).unwrap();
        put(&mut file.current, offset as usize, bytes);
        file.writes.push((offset as usize, bytes.to_vec()));
        fault.map_or(Ok(()), |fault| Err(error(fault)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.sim.world();
        let fault = world.step()?;
        let file = world.files.get_mut(&self.id).unwrap();
        let writes = std::mem::take(&mut file.writes);
        if let Some(fault) = fault {
            // As on Linux: the pages count as clean now, so no later sync writes them.
            return Err(error(fault));
        }
        for (offset, data) in writes {
            put(&mut file.durable, offset, &data);
        }
        Ok(())
    }
}
