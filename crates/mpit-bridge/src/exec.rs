//! What `throughline-exec` decides: which of the shim's objects, if any, belongs into a program.
//!
//! When in doubt, none: the program must run as it would have run without. Where a program loads its MPI by
//! itself (mpi4py), the object is one that fits every library that it may load.

mod elf;
pub mod explain;
mod libraries;
mod objects;

pub use elf::Elf;
pub use libraries::Search;
pub use objects::{Family, Target, find_object};

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters: a script's interpreter may itself be one; the kernel follows four.
const SCRIPTS: usize = 4;

/// Why an object is or is not preloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Preload the object that fits this library; the text says how it was found.
    Preload(Target, &'static str),
    /// Run the program as it is, and why.
    Leave(&'static str),
}

/// What decisions depend on, besides the program.
#[derive(Clone, Debug, Default)]
pub struct LaunchContext {
    /// Environment variables.
    pub variables: HashMap<String, String>,
    /// Where libraries are.
    pub search: Search,
    /// The programs that started this process, the nearest first.
    pub ancestors: Vec<PathBuf>,
}

impl LaunchContext {
    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let variables: HashMap<_, _> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        let search = Search::of_system(variables.get("LD_LIBRARY_PATH").map_or("", String::as_str));
        Self { variables, search, ancestors: objects::ancestors() }
    }

    /// Whether a launcher of MPI programs started this process.
    #[must_use]
    pub fn is_launched(&self) -> bool {
        self.launched_by().is_some()
    }

    fn is_set(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|value| !value.is_empty())
    }

    /// The MPI of the launcher that started this process. Hydra also starts programs of other libraries, and
    /// Slurm's PMIx serves both, so these are no more than likely.
    fn launched_by(&self) -> Option<Family> {
        if ["OMPI_COMM_WORLD_SIZE", "OMPI_UNIVERSE_SIZE", "PRTE_LAUNCHED"]
            .iter()
            .any(|name| self.is_set(name))
        {
            return Some(Family::OpenMpi);
        }
        if self.is_set("PMI_RANK") && (self.is_set("HYDI_CONTROL_FD") || self.is_set("MPI_LOCALRANKID")) {
            return Some(Family::Mpich);
        }
        ["PMIX_RANK", "PMI_RANK"].iter().any(|name| self.is_set(name)).then_some(Family::Any)
    }
}

/// Finds the file that a program name means, as `execvp` does.
#[must_use]
pub fn find_program(name: &OsString, path: &str) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    path.split(':').map(|folder| Path::new(if folder.is_empty() { "." } else { folder }).join(name)).find(
        |file| {
            std::fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        },
    )
}

/// Decides for a program and its arguments.
#[must_use]
pub fn decide(program: &Path, arguments: &[OsString], around: &LaunchContext) -> Decision {
    if around
        .variables
        .get("THROUGHLINE_SHIM")
        .is_some_and(|value| matches!(value.as_str(), "off" | "0" | "no"))
    {
        return Decision::Leave("THROUGHLINE_SHIM=off");
    }
    match links(program, around) {
        Links::Foreign(why) => Decision::Leave(why),
        Links::Library(target) => Decision::Preload(target, "the program is linked to it"),
        Links::None if is_launcher(program) => launched(program, arguments, around),
        Links::None => around.launched_by().map_or(
            Decision::Leave("no MPI: the program is not linked to one, and no launcher started it"),
            |family| Decision::Preload(Target::guessed(family, program, around), "started by its launcher"),
        ),
    }
}

/// What a program is linked to.
enum Links {
    Library(Target),
    None,
    /// Something into which nothing may be preloaded.
    Foreign(&'static str),
}

fn links(program: &Path, around: &LaunchContext) -> Links {
    let file = interpreter(program);
    let Some(elf) = Elf::read(&file) else {
        return Links::Foreign("not a dynamic program of this machine");
    };
    // A library of glibc in a program of another C library ends it.
    if !elf.loader.contains("/ld-linux") && !elf.loader.contains("/ld64") {
        return Links::Foreign("not a program of this C library");
    }
    let names = around.search.closure(&file, &elf);
    if names.keys().any(|name| name.starts_with("libasan.so")) && !around.is_set("LD_PRELOAD") {
        return Links::Foreign("AddressSanitizer must be the first library of the program");
    }
    let Some(family) = family_of(&names) else { return Links::None };
    // The library itself, not those with bindings of other languages.
    let is_library = |name: &str| {
        ["libmpi.so", "libmpich.so", "libmpi_abi.so", "libmpi_cray.so", "libmpi_gnu", "libmpi-"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let libraries = names.into_iter().filter(|(name, _)| is_library(name)).filter_map(|(_, path)| path);
    Links::Library(Target { family, libraries: libraries.collect() })
}

/// The family by names of libraries: Open MPI 4 and 5 have libmpi.so.40, the MPICH ABI has libmpi.so.12.
fn family_of<V>(names: &BTreeMap<String, V>) -> Option<Family> {
    let any = |starts: &[&str]| names.keys().any(|name| starts.iter().any(|start| name.starts_with(start)));
    if any(&[
        "libmpi.so.12",
        "libmpich",
        "libmpifort.so",
        "libmpicxx.so",
        "libmpi_cray",
        "libmpi_gnu",
        "libmpi_abi",
    ]) {
        return Some(Family::Mpich);
    }
    any(&["libmpi.so", "libmpi_mpifh", "libmpi_usempi", "libmpi_cxx", "libmpi-"]).then_some(Family::OpenMpi)
}

/// The program that runs a script, or the program itself.
fn interpreter(program: &Path) -> PathBuf {
    let mut file = program.to_owned();
    for _ in 0..SCRIPTS {
        let Some(next) = shebang(&file) else { break };
        file = next;
    }
    file
}

fn shebang(file: &Path) -> Option<PathBuf> {
    // The kernel reads as much of the first line (BINPRM_BUF_SIZE).
    let mut start = [0; 256];
    let length = File::open(file).ok()?.read(&mut start).ok()?;
    let line = start[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    Some(PathBuf::from(word))
}

fn is_launcher(program: &Path) -> bool {
    const LAUNCHERS: [&str; 8] = ["mpirun", "mpiexec", "orterun", "prterun", "prun", "srun", "jsrun", "flux"];
    // mpirun.openmpi, mpiexec.hydra, mpirun-4.1 are launchers too.
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split(['.', '-']).next().unwrap_or_default();
    LAUNCHERS.contains(&stem)
}

/// Before a launcher the ranks inherit what it gets, on this node. Their program stands among its arguments;
/// where it is an interpreter, the launcher's own kind decides.
fn launched(launcher: &Path, arguments: &[OsString], around: &LaunchContext) -> Decision {
    let path = around.variables.get("PATH").map_or("", String::as_str);
    let programs = arguments.iter().filter(|argument| !argument.as_bytes().starts_with(b"-"));
    let linked =
        programs.filter_map(|name| find_program(name, path)).find_map(|file| match links(&file, around) {
            Links::Library(target) => Some(target),
            _ => None,
        });
    if let Some(target) = linked {
        return Decision::Preload(target, "a program named after the launcher is linked to it");
    }
    let real = launcher.canonicalize().unwrap_or_else(|_| launcher.to_owned());
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (family, why) = if name.contains("hydra") || name.contains("mpich") {
        (Family::Mpich, "the launcher is MPICH's")
    } else if ["orte", "prte", "openmpi"].iter().any(|part| name.contains(part)) {
        (Family::OpenMpi, "the launcher is Open MPI's")
    } else {
        (Family::Any, "a launcher, and no program linked to MPI after it")
    };
    Decision::Preload(Target::guessed(family, &real, around), why)
}

/// Whether the object may be the tool that the header of NVTX 3 opens, given what NVTX_INJECTION64_PATH names: nothing, or one of
/// the shim's own. Another tool stays.
#[must_use]
pub fn is_tool_of_nvtx(named: Option<&OsStr>) -> bool {
    let name = named.and_then(|path| Path::new(path).file_name());
    named.is_none() || name.is_some_and(|name| name.as_bytes().starts_with(b"libthroughline-"))
}

/// The new LD_PRELOAD. The shim comes first, as it calls the next function while most tools call MPI itself;
/// only AddressSanitizer insists on the first place. An object of the shim that is there already, because
/// throughline-exec runs in another one's program, makes way: two would count each call twice.
#[must_use]
pub fn preload(object: &Path, existing: Option<&str>) -> String {
    let object = object.to_string_lossy();
    let others: Vec<_> = existing
        .unwrap_or_default()
        .split([' ', ':'])
        .filter(|one| !one.is_empty() && !is_own_object(one))
        .collect();
    match others.first() {
        None => object.into_owned(),
        Some(first) if first.contains("libasan") => format!("{}:{object}", others.join(":")),
        Some(_) => format!("{object}:{}", others.join(":")),
    }
}

fn is_own_object(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libthroughline-") && name.ends_with(".so")
}

#[cfg(test)]
mod tests;
