//! Which processes of this node profile GPUs: by their program's name, and by what they have mapped into memory.
//!
//! A look costs little where little changes: `/proc/PID/statm` of each process is read through a file that stays open. Where a process
//! has another size, but for its data, `status` is read, which has the size of its libraries; and its maps only where that is another,
//! too. What cannot be read is counted: who does not see a process must not claim that nobody profiles.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

mod names;
#[cfg(test)]
mod tests;

pub use names::{LIBRARIES, PROGRAM_BEGINNINGS, PROGRAMS, is_profiler};

/// Most processes that are watched, by far more than a node has ranks; the others count as unreadable.
const PROCESSES_MAX: usize = 32_768;
/// Most files that stay open from one look to the next, and a quarter of what this process may have open: of more processes the
/// file is opened each time.
const OPEN_FILES_MAX: u64 = 1024;
/// How long one look may read maps; what is left is read at the next one.
const MAPS_TIME: Duration = Duration::from_millis(100);
/// Most bytes read of one process's maps: as many mappings as the kernel allows a process by default have less.
const MAPS_BYTES_MAX: usize = 16 << 20;
/// A process without memory of its own (of the kernel, or ended), or that can't be read, is looked at in one look of so many.
const SELDOM: u64 = 20;
/// Most profilers that a look names.
const NAMED_MAX: usize = 8;

/// A process that profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiler {
    /// Process id.
    pub pid: u32,
    /// Real user id.
    pub uid: u32,
    /// Command name, at most 15 bytes.
    pub command: String,
    /// What shows that it profiles: its own name, or a file that it has mapped.
    pub sign: String,
}

/// What one look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Processes that profile, the first [`NAMED_MAX`] by process id.
    pub profilers: Vec<Profiler>,
    /// How many profile.
    pub count: usize,
    /// Processes with memory of their own, this program's included.
    pub processes: usize,
    /// Of them those whose maps can't be read, or that are too many.
    pub unreadable: usize,
    /// Of them those whose maps are read in a later look.
    pub waiting: usize,
}

/// What is known of a process.
#[derive(Default)]
struct Known {
    /// `/proc/PID/statm`, which stays that of this process even if its id is given to another.
    statm: Option<File>,
    /// The last look in which it was there.
    seen: u64,
    /// Pages of its address space, but for data and stack, which grow and shrink as a program computes. None yet while it is being
    /// executed: then it has a stack only.
    pages: u64,
    /// It has no address space: it is the kernel's, or has ended.
    is_bare: bool,
    /// `VmLib` of its status.
    libraries: Option<u64>,
    uid: u32,
    command: String,
    /// This program's own, or what it started.
    is_own: bool,
    /// Its status has been read.
    is_examined: bool,
    is_unreadable: bool,
    is_waiting: bool,
    /// The file in its maps that shows a profiler.
    mapped: Option<String>,
}

/// Looks again and again at all processes.
pub struct ProfilerWatch {
    proc: PathBuf,
    own: u32,
    /// Device and inode of this program's file: another of the same program is none of a user's profilers.
    program: Option<(u64, u64)>,
    known: HashMap<u32, Known>,
    waiting: VecDeque<u32>,
    looks: u64,
    open_files: u64,
    open_files_max: u64,
    buffer: Vec<u8>,
}

impl ProfilerWatch {
    /// Of the processes under a root of `/proc`, all but this one, what it starts and others of the same program.
    #[must_use]
    pub fn new(proc: &Path) -> Self {
        let program = fs::metadata("/proc/self/exe").ok().map(|file| (file.dev(), file.ino()));
        let (may_open, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
        Self {
            proc: proc.to_owned(),
            own: std::process::id(),
            program,
            known: HashMap::new(),
            waiting: VecDeque::new(),
            looks: 0,
            open_files: 0,
            open_files_max: (may_open / 4).min(OPEN_FILES_MAX),
            buffer: vec![0; 64 << 10],
        }
    }

    /// One look. May wait for as long as the kernel lets it wait for a process's maps.
    ///
    /// # Errors
    /// When the processes can't be listed.
    pub fn look(&mut self) -> io::Result<Look> {
        self.looks += 1;
        let surplus = self.list()?;
        let pids: Vec<u32> = self.known.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.look_at(pid));
        self.read_waiting();
        Ok(self.found(surplus))
    }

    /// Takes note of who is there; how many are beyond what is watched.
    fn list(&mut self) -> io::Result<usize> {
        let mut surplus = 0;
        for entry in fs::read_dir(&self.proc)? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let room = self.known.len() < PROCESSES_MAX;
            match self.known.entry(pid) {
                Entry::Occupied(mut known) => known.get_mut().seen = self.looks,
                Entry::Vacant(new) if room => {
                    new.insert(Known { seen: self.looks, ..Known::default() });
                }
                Entry::Vacant(_) => surplus += 1,
            }
        }
        let (looks, open_files) = (self.looks, &mut self.open_files);
        self.known.retain(|_, known| {
            let is_there = known.seen == looks;
            *open_files -= u64::from(!is_there && known.statm.is_some());
            is_there
        });
        Ok(surplus)
    }

    /// Looks whether a process's size changed, and closer where it did.
    fn look_at(&mut self, pid: u32) {
        let Some(known) = self.known.get(&pid) else { return };
        let is_new = !known.is_examined && !known.is_unreadable;
        let is_turn = is_new || (self.looks + u64::from(pid)).is_multiple_of(SELDOM);
        if known.is_bare && !is_turn {
            return;
        }
        match self.pages(pid) {
            Ok(pages) => {
                let Some(known) = self.known.get_mut(&pid) else { return };
                let is_changed = known.pages != pages || is_new || known.is_unreadable && is_turn;
                known.pages = pages;
                if is_changed {
                    self.look_closer(pid);
                }
            }
            Err(error) => self.note(pid, &error),
        }
    }

    /// Pages of the address space of a process, but for data and stack (proc_pid_statm(5): `size` and `data`).
    fn pages(&mut self, pid: u32) -> io::Result<u64> {
        let mut text = [0; 128];
        let read = |file: &File, text: &mut [u8]| file.read_at(text, 0);
        let known = self.known.get(&pid).and_then(|known| known.statm.as_ref());
        let length = match known.map(|file| read(file, &mut text)) {
            // Empty, or an error: that process has ended, and another may have its id.
            Some(Ok(length)) if length > 0 => length,
            other => {
                if other.is_some() {
                    self.forget(pid);
                }
                let file = File::open(self.proc.join(pid.to_string()).join("statm"))?;
                let length = read(&file, &mut text)?;
                self.keep_open(pid, file);
                length
            }
        };
        let text = String::from_utf8_lossy(&text[..length]);
        let mut fields = text.split_whitespace().map(str::parse);
        match (fields.next(), fields.nth(4)) {
            (Some(Ok::<u64, _>(size)), Some(Ok(data))) => Ok(size.saturating_sub(data)),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    fn keep_open(&mut self, pid: u32, file: File) {
        if self.open_files < self.open_files_max
            && let Some(known) = self.known.get_mut(&pid)
        {
            self.open_files += 1;
            known.statm = Some(file);
        }
    }

    /// Another process has this id, or none.
    fn forget(&mut self, pid: u32) {
        if let Some(known) = self.known.get_mut(&pid) {
            self.open_files -= u64::from(known.statm.is_some());
            *known = Known { seen: known.seen, is_waiting: known.is_waiting, ..Known::default() };
        }
    }

    /// Takes note of a file that can't be read: its process has ended, is another user's, or this one has too many files open.
    fn note(&mut self, pid: u32, error: &io::Error) {
        let has_ended =
            error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32);
        if has_ended {
            // The next list lacks it.
            self.forget(pid);
        } else if let Some(known) = self.known.get_mut(&pid) {
            known.is_unreadable = !known.is_own;
        }
    }

    /// Reads name, user and size of libraries; the maps are to be read where these say that they may be others.
    fn look_closer(&mut self, pid: u32) {
        let text = match fs::read(self.proc.join(pid.to_string()).join("status")) {
            // A name may hold anything.
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => return self.note(pid, &error),
        };
        let Some(known) = self.known.get_mut(&pid) else { return };
        let status = Status::parse(&text);
        let is_other = known.libraries != status.libraries || known.command != status.command;
        let is_first = !std::mem::replace(&mut known.is_examined, true);
        let is_due = is_first || is_other || known.is_unreadable;
        known.is_own = pid == self.own || status.parent == self.own;
        known.libraries = status.libraries;
        known.uid = status.uid;
        known.command = status.command;
        known.is_bare = status.libraries.is_none();
        if known.is_bare {
            // Of the kernel, or ended and not yet waited for.
            (known.pages, known.mapped, known.is_unreadable) = (0, None, false);
        } else if is_due && !known.is_own && !std::mem::replace(&mut known.is_waiting, true) {
            self.waiting.push_back(pid);
        }
    }

    /// Reads maps for a bounded time, those that wait longest first.
    fn read_waiting(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < MAPS_TIME {
            let Some(pid) = self.waiting.pop_front() else { return };
            let Some(known) = self.known.get_mut(&pid) else { continue };
            known.is_waiting = false;
            if !known.is_examined {
                continue; // Another process than the one that was to be read.
            }
            let sign = self.sign_of(pid);
            // Read only where it matters: it costs a look of its own.
            let sign = sign.map(|sign| sign.filter(|_| !self.is_this_program(pid)));
            match (sign, self.known.get_mut(&pid)) {
                (Ok(sign), Some(known)) => (known.mapped, known.is_unreadable) = (sign, false),
                (Err(error), _) => self.note(pid, &error),
                (Ok(_), None) => {}
            }
        }
    }

    /// The file in a process's maps that shows a profiler.
    fn sign_of(&mut self, pid: u32) -> io::Result<Option<String>> {
        let mut file = File::open(self.proc.join(pid.to_string()).join("maps"))?;
        let (mut length, mut all) = (0, 0);
        loop {
            let read = file.read(&mut self.buffer[length..])?;
            length += read;
            all += read;
            let lines = match self.buffer[..length].iter().rposition(|byte| *byte == b'\n') {
                Some(last) if read > 0 => last + 1,
                // A line is shorter than the buffer, whose path the kernel bounds.
                _ => length,
            };
            if let Some(sign) = names::sign_in(&self.buffer[..lines]) {
                return Ok(Some(sign));
            }
            if read == 0 {
                return Ok(None);
            }
            if all >= MAPS_BYTES_MAX {
                // As good as a process that can't be read: the rest is not known.
                return Err(ErrorKind::FileTooLarge.into());
            }
            self.buffer.copy_within(lines..length, 0);
            length -= lines;
        }
    }

    fn is_this_program(&self, pid: u32) -> bool {
        let file = fs::metadata(self.proc.join(pid.to_string()).join("exe"));
        file.is_ok_and(|file| self.program == Some((file.dev(), file.ino())))
    }

    fn found(&self, surplus: usize) -> Look {
        let mut profilers: Vec<Profiler> =
            self.known.iter().filter_map(|(pid, known)| known.profiler(*pid)).collect();
        profilers.sort_unstable_by_key(|profiler| profiler.pid);
        let count = profilers.len();
        profilers.truncate(NAMED_MAX);
        let of = |is: fn(&Known) -> bool| self.known.values().filter(|known| is(known)).count();
        Look {
            profilers,
            count,
            processes: of(|known| known.is_examined && !known.is_bare || known.is_unreadable) + surplus,
            unreadable: of(|known| known.is_unreadable) + surplus,
            waiting: of(|known| known.is_waiting),
        }
    }
}

impl Known {
    fn profiler(&self, pid: u32) -> Option<Profiler> {
        if self.is_own || self.is_bare {
            return None;
        }
        let by_name = is_profiler(&self.command).then(|| self.command.clone());
        let sign = by_name.or_else(|| self.mapped.clone())?;
        Some(Profiler { pid, uid: self.uid, command: self.command.clone(), sign })
    }
}

/// What is of use in `/proc/PID/status`.
#[derive(Default)]
struct Status {
    command: String,
    parent: u32,
    uid: u32,
    /// KiB of mappings that can be executed beside the program's own, `VmLib`; absent without an address space.
    libraries: Option<u64>,
}

impl Status {
    fn parse(text: &str) -> Self {
        let mut status = Self::default();
        let number = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok();
        let id = |text: &str| number(text).and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX);
        for line in text.lines() {
            match line.split_once(":\t").unwrap_or_default() {
                ("Name", name) => status.command = name.to_owned(),
                ("PPid", parent) => status.parent = id(parent),
                ("Uid", user) => status.uid = id(user),
                ("VmLib", size) => {
                    status.libraries = number(size);
                    break;
                }
                _ => {}
            }
        }
        status
    }
}
