//! The whole program: which steps it has, on which library.

use super::generator::Generator;
use super::language::Language;
use super::{between, collectives, files, messages, windows};

/// Each function comes at least this often; with large-count forms once in each.
const ROUNDS: usize = 2;

/// What a library has, and what it can't do.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// It has the functions that are new in MPI 4.
    pub newest: bool,
    /// It has large-count forms.
    pub large: bool,
    /// It is an MPICH: what that one fails in, also without the shim, is left out. Each place says what and why.
    pub mpich: bool,
    /// It is one of MPICH 4.0, which fails in other things than later ones.
    pub mpich_4_0: bool,
    /// It is an Open MPI 5.
    pub open_mpi_5: bool,
}

pub fn generate(seed: u64, ranks: usize, threads: usize, language: Language, library: Library) -> Generator {
    let mut g = Generator::new(seed, ranks, language, library);
    messages::first(&mut g);
    for _ in 0..ROUNDS {
        messages::all(&mut g);
        messages::completions(&mut g);
        collectives::all(&mut g);
        between::all(&mut g);
        windows::all(&mut g);
        // Open MPI's MPI-IO does not stand requests of several threads, MPICH's not even their opening files in
        // different order; both also without the shim.
        if threads > 1 {
            g.alone(files::all);
        } else {
            files::all(&mut g);
        }
    }
    g
}
