//! The shim's objects, and which of them fits a library: the one with the most operations among those
//! whose operations the library has all.
//!
//! An object that exports a function that its MPI lacks ends programs that request functions by name, as mpi4py
//! does. So nothing is inferred from versions: the names that object and library define are compared.

use super::{Elf, LaunchContext};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A kind of MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH and those with its ABI (Intel MPI, MVAPICH, Cray MPICH), and libraries with the MPI-5 ABI.
    Mpich,
    /// Not known before the program loads it.
    Any,
}

/// File name of the object that fits every library.
const EVERY: &str = "libthroughline-mpi3.so";
/// Most parent processes looked at for a launcher.
const ANCESTORS: usize = 4;

impl Family {
    /// File names of the objects that may fit, the one with the most operations first.
    #[must_use]
    pub fn objects(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["libthroughline-openmpi5.so", "libthroughline-openmpi.so", EVERY],
            Self::Mpich => &["libthroughline-mpich.so", EVERY],
            Self::Any => &[EVERY],
        }
    }

    /// Names of the libraries that programs of this family load.
    fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["libmpi.so.40"],
            Self::Mpich => &["libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0"],
            Self::Any => &["libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"],
        }
    }
}

/// What is known of the MPI library that a program will use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its family.
    pub family: Family,
    /// The library, or all that it may be.
    pub libraries: Vec<PathBuf>,
}

impl Target {
    /// A library of this family that the program will load by itself: whichever is in one of the places where
    /// it may look. What is chosen has to fit all of them.
    #[must_use]
    pub fn guessed(family: Family, program: &Path, around: &LaunchContext) -> Self {
        let beside = |file: &Path| Some(file.parent()?.parent()?.join("lib"));
        let mut folders = around.search.environment.clone();
        folders.extend(beside(program));
        folders.extend(around.variables.get("VIRTUAL_ENV").map(|folder| Path::new(folder).join("lib")));
        folders.extend(around.ancestors.iter().filter_map(|file| beside(file)));
        let named =
            |folder: &PathBuf| family.libraries().iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        let cached = family.libraries().iter().filter_map(|name| around.search.cache.get(*name).cloned());
        let mut libraries: Vec<PathBuf> =
            folders.iter().flat_map(named).chain(cached).filter(|file| file.is_file()).collect();
        libraries.sort();
        libraries.dedup();
        Self { family, libraries }
    }

    /// The best of the objects in `folder`: every operation that it exports is in each of the libraries.
    /// Where no library could be found, the one that fits all.
    fn choose(&self, folder: &Path) -> Option<PathBuf> {
        let theirs: Vec<BTreeSet<String>> =
            self.libraries.iter().filter_map(|file| Elf::operations(file)).collect();
        let known = theirs.len() == self.libraries.len() && !theirs.is_empty();
        let files = self.family.objects().iter().map(|name| folder.join(name)).filter(|file| file.is_file());
        let fits = |file: &PathBuf| {
            if !known {
                return file.ends_with(EVERY);
            }
            Elf::operations(file).is_some_and(|ours| theirs.iter().all(|all| ours.is_subset(all)))
        };
        files.into_iter().find(fits)
    }
}

/// Where the object is: `THROUGHLINE_LIB_DIR`, beside this program, in `lib/throughline` or (in a source tree)
/// `shim` next to its folder. `None` if it is nowhere, if none fits, or if LD_PRELOAD can't name it.
#[must_use]
pub fn find_object(target: &Target, own: &Path, around: &LaunchContext) -> Option<PathBuf> {
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
    let found = folders.iter().find_map(|folder| target.choose(folder))?;
    let absolute = std::path::absolute(found).ok()?;
    // LD_PRELOAD is divided at spaces and colons and has no quotes.
    let text = absolute.to_str()?;
    (!text.contains([' ', ':', '$'])).then(|| absolute.clone())
}

/// The programs that started this process: among them the launcher, whose MPI is most likely the program's.
pub(super) fn ancestors() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut process = "self".to_owned();
    for _ in 0..ANCESTORS {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else { break };
        let Some(parent) = status.lines().find_map(|line| line.strip_prefix("PPid:")) else { break };
        parent.trim().clone_into(&mut process);
        files.extend(std::fs::read_link(format!("/proc/{process}/exe")));
    }
    files
}
