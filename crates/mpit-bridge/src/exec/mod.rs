//! What `throughline-exec` decides: which of the shim's objects, if any, belongs into a program.
//!
//! When in doubt, none: the program must run as it would have run without. The object for Open MPI is also the
//! one for unclear cases, as every function that it exports is in every MPI.

mod elf;
pub mod explain;
mod libraries;

pub use elf::Elf;
pub use libraries::Search;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters: a script's interpreter may itself be one; the kernel follows four.
const SCRIPTS: usize = 4;

/// A kind of MPI library for which there is an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH and those with its ABI: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
}

impl Family {
    /// File name of its object.
    #[must_use]
    pub fn object(self) -> &'static str {
        match self {
            Self::OpenMpi => "libthroughline-openmpi.so",
            Self::Mpich => "libthroughline-mpich.so",
        }
    }

    /// Reads the name used on the command line.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "openmpi" => Some(Self::OpenMpi),
            "mpich" => Some(Self::Mpich),
            _ => None,
        }
    }
}

/// Why an object is or is not preloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Preload the object of this family; the text says how it was found.
    Preload(Family, &'static str),
    /// Run the program as it is, and why.
    Leave(&'static str),
}

/// What decisions depend on, besides the program.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Environment variables.
    pub variables: HashMap<String, String>,
    /// Where libraries are.
    pub search: Search,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let variables: HashMap<_, _> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        let search = Search::of_system(variables.get("LD_LIBRARY_PATH").map_or("", String::as_str));
        Self { variables, search }
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
        // Any function of the object for Open MPI is in every MPI.
        ["PMIX_RANK", "PMI_RANK"].iter().any(|name| self.is_set(name)).then_some(Family::OpenMpi)
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
pub fn decide(program: &Path, arguments: &[OsString], around: &Surroundings) -> Decision {
    if around
        .variables
        .get("THROUGHLINE_SHIM")
        .is_some_and(|value| matches!(value.as_str(), "off" | "0" | "no"))
    {
        return Decision::Leave("THROUGHLINE_SHIM=off");
    }
    match links(program, around) {
        Links::Foreign(why) => Decision::Leave(why),
        Links::Family(family) => Decision::Preload(family, "the program is linked to it"),
        Links::None if is_launcher(program) => launched(program, arguments, around),
        Links::None => around.launched_by().map_or(
            Decision::Leave("no MPI: the program is not linked to one, and no launcher started it"),
            |family| Decision::Preload(family, "started by its launcher"),
        ),
    }
}

/// What a program is linked to.
enum Links {
    Family(Family),
    None,
    /// Something into which nothing may be preloaded.
    Foreign(&'static str),
}

fn links(program: &Path, around: &Surroundings) -> Links {
    let file = interpreter(program);
    let Some(elf) = Elf::read(&file) else {
        return Links::Foreign("not a dynamic program of this machine");
    };
    // A library of glibc in a program of another C library ends it.
    if !elf.loader.contains("/ld-linux") && !elf.loader.contains("/ld64") {
        return Links::Foreign("not a program of this C library");
    }
    let names = around.search.closure(&file, &elf);
    if names.iter().any(|name| name.starts_with("libasan.so")) && !around.is_set("LD_PRELOAD") {
        return Links::Foreign("AddressSanitizer must be the first library of the program");
    }
    if names.iter().any(|name| name.starts_with("libmpi_abi.so")) {
        return Links::Foreign("the MPI-5 ABI is not supported yet");
    }
    family_of(&names).map_or(Links::None, Links::Family)
}

/// The family by names of libraries: Open MPI 4 and 5 have libmpi.so.40, the MPICH ABI has libmpi.so.12.
fn family_of(names: &BTreeSet<String>) -> Option<Family> {
    let any = |starts: &[&str]| names.iter().any(|name| starts.iter().any(|start| name.starts_with(start)));
    if any(&["libmpi.so.12", "libmpich", "libmpifort.so", "libmpicxx.so", "libmpi_cray", "libmpi_gnu"]) {
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
fn launched(launcher: &Path, arguments: &[OsString], around: &Surroundings) -> Decision {
    let path = around.variables.get("PATH").map_or("", String::as_str);
    let programs = arguments.iter().filter(|argument| !argument.as_bytes().starts_with(b"-"));
    let linked =
        programs.filter_map(|name| find_program(name, path)).find_map(|file| match links(&file, around) {
            Links::Family(family) => Some(family),
            _ => None,
        });
    if let Some(family) = linked {
        return Decision::Preload(family, "a program named after the launcher is linked to it");
    }
    let real = launcher.canonicalize().unwrap_or_else(|_| launcher.to_owned());
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.contains("hydra") || name.contains("mpich") {
        return Decision::Preload(Family::Mpich, "the launcher is MPICH's");
    }
    Decision::Preload(Family::OpenMpi, "a launcher, and no program linked to MPI after it")
}

/// Where an object is: `THROUGHLINE_LIB_DIR`, beside this program, in `lib/throughline` or (in a source tree)
/// `shim` next to its folder. `None` if it is nowhere, or lies where LD_PRELOAD can't name it.
#[must_use]
pub fn find_object(family: Family, own: &Path, around: &Surroundings) -> Option<PathBuf> {
    let own_folder = own.parent().unwrap_or(Path::new("/"));
    let above = own_folder.parent().unwrap_or(own_folder);
    let given =
        around.variables.get("THROUGHLINE_LIB_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    // Installed, in a build folder (make shim), and where cargo's own build leaves it.
    let standard = [
        own_folder.to_owned(),
        above.join("lib/throughline"),
        own_folder.join("lib/throughline"),
        above.join("shim"),
    ];
    let folders = given.map_or_else(|| standard.to_vec(), |folder| vec![folder]);
    let found = folders.iter().map(|folder| folder.join(family.object())).find(|file| file.is_file())?;
    let absolute = std::path::absolute(found).ok()?;
    // LD_PRELOAD is divided at spaces and colons and has no quotes.
    let text = absolute.to_str()?;
    (!text.contains([' ', ':', '$'])).then(|| absolute.clone())
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
#[path = "tests.rs"]
mod tests;
