//! The programs: how each is started on which MPI, where it comes from, and what of its output must stay the same.
//! Must not run anything.

use std::path::{Path, PathBuf};

/// An MPI library as Debian installs it beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mpi {
    /// Open MPI
    Openmpi,
    /// MPICH
    Mpich,
}

impl Mpi {
    /// As it ends the names of its commands.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::Openmpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }
}

/// One program on one MPI.
pub struct Program {
    /// What the table calls it.
    pub name: String,
    /// Which library it is linked to.
    pub mpi: Mpi,
    /// The command behind the launcher.
    pub command: Vec<String>,
    /// Variables that it needs.
    pub variables: Vec<(&'static str, String)>,
    /// What it wants to find in the folder where it runs: name and text.
    pub files: Vec<(&'static str, String)>,
    /// A file with its results, beside standard output.
    pub result: Option<&'static str>,
    /// Its time is only reported: it does nothing but what the shim is in.
    pub is_only_reported: bool,
    /// How to get it, if it is not there.
    pub remedy: String,
    /// What stays of a line of output once timing has gone; `None` drops the line.
    pub kept: fn(&str) -> Option<String>,
}

/// Everything; a run takes a second or two at `scale` 1 on an idle machine, and longer in proportion to it.
pub fn all(scale: u32, folder: &Path) -> Vec<Program> {
    let mut programs = Vec::new();
    for mpi in [Mpi::Openmpi, Mpi::Mpich] {
        programs.push(own_set(mpi, scale, folder));
        programs.extend([netpipe(mpi, 1 << 20, 100 * scale), netpipe(mpi, 1 << 14, 2_000 * scale)]);
        programs.extend([ring(mpi, 1 << 16, 3_000 * scale), ring(mpi, 8, 60_000 * scale), hello(mpi)]);
    }
    programs.push(lammps(scale));
    programs.push(hpcc(scale));
    programs
}

fn program(
    name: &str,
    mpi: Mpi,
    command: &[&str],
    remedy: &str,
    kept: fn(&str) -> Option<String>,
) -> Program {
    Program {
        name: name.to_owned(),
        mpi,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        variables: Vec::new(),
        files: Vec::new(),
        result: None,
        is_only_reported: false,
        remedy: remedy.to_owned(),
        kept,
    }
}

fn own_set(mpi: Mpi, scale: u32, folder: &Path) -> Program {
    let file = folder.join(format!("osu.{}", mpi.name()));
    let times = scale.to_string();
    let remedy = format!("make deps; it is compiled by mpicc.{}", mpi.name());
    // `latency  8 bytes  0.300 us sum 12`: all but the time.
    program("OSU-style set", mpi, &[&file.to_string_lossy(), &times], &remedy, |line| {
        let words: Vec<_> = line.split_whitespace().collect();
        Some([words.get(..3)?, words.get(5..)?].concat().join(" "))
    })
}

/// So many messages of each size from 1 byte on: left to itself it repeats until a time is over, and always takes as long.
fn netpipe(mpi: Mpi, largest: u32, repeats: u32) -> Program {
    let (name, package) = match mpi {
        Mpi::Openmpi => ("NPopenmpi", "netpipe-openmpi"),
        Mpi::Mpich => ("NPmpich2", "netpipe-mpich2"),
    };
    let (repeats, upper) = (repeats.to_string(), largest.to_string());
    let command = [name, "-n", &repeats, "-u", &upper, "-o", "np.out"];
    let remedy = format!("apt-get install --no-install-recommends {package}");
    // `  0:  1 bytes  2000 times -->  6.1 Mbps in 1.2 usec`
    program(&format!("netpipe to {} KiB", largest >> 10), mpi, &command, &remedy, |line| {
        Some(line.split("-->").next()?.trim().to_owned()).filter(|kept| kept.contains("bytes"))
    })
}

/// Debian's mpi4py is Open MPI's. For MPICH it is PyPI's, in a virtual environment whose interpreter
/// `THROUGHLINE_MPICH_PYTHON` names (benches/mpi-programs.sh makes one); it asks for MPICH by the name that its ABI has,
/// which Debian's package does not install.
fn mpi4py(mpi: Mpi, name: &str, bench: &[&str]) -> Program {
    let (python, remedy) = match mpi {
        Mpi::Openmpi => ("/usr/bin/python3".to_owned(), "apt-get install python3-mpi4py"),
        Mpi::Mpich => (
            std::env::var("THROUGHLINE_MPICH_PYTHON")
                .unwrap_or_else(|_| "THROUGHLINE_MPICH_PYTHON".to_owned()),
            "benches/mpi-programs.sh makes it; else set THROUGHLINE_MPICH_PYTHON=DIR/bin/python3 of one with mpi4py",
        ),
    };
    let command = [&[python.as_str(), "-m", "mpi4py.bench"], bench].concat();
    let mut made = program(&format!("mpi4py {name}"), mpi, &command, remedy, |line| {
        Some(line.split('=').next().unwrap_or(line).trim().to_owned())
    });
    if mpi == Mpi::Mpich {
        made.variables = vec![("MPI4PY_MPIABI", "mpich".into()), ("LD_LIBRARY_PATH", ".".into())];
    }
    made
}

/// Messages round the ranks. Short ones are nothing but calls, whose cost benches/shim/run.sh measures and judges.
fn ring(mpi: Mpi, bytes: u32, rounds: u32) -> Program {
    let (bytes_given, rounds) = (bytes.to_string(), rounds.to_string());
    let mut made =
        mpi4py(mpi, &format!("ringtest of {bytes} bytes"), &["ringtest", "-l", &rounds, "-n", &bytes_given]);
    made.is_only_reported = bytes <= 8;
    made
}

/// Starts MPI, prints a line and ends: its cost is measured in seconds, as a ratio to itself shows nothing.
fn hello(mpi: Mpi) -> Program {
    let mut made = mpi4py(mpi, "helloworld", &["helloworld"]);
    made.is_only_reported = true;
    made
}

fn lammps(scale: u32) -> Program {
    let steps = (400 * scale).to_string();
    let command = ["lmp", "-in", "in.melt", "-var", "steps", &steps, "-log", "none"];
    let remedy = "apt-get install --no-install-recommends lammps";
    // The steps' temperatures and energies, and what was counted; none of its times.
    let mut made = program("lammps", Mpi::Openmpi, &command, remedy, |line| {
        let timing = ["time", "Time", "Performance", "CPU", "%", "|", "seconds", "Memory"];
        Some(line.trim().to_owned()).filter(|line| !timing.iter().any(|word| line.contains(word)))
    });
    made.files = vec![("in.melt", include_str!("in.melt").to_owned())];
    made
}

fn hpcc(scale: u32) -> Program {
    // The example of the package on a grid of 1 x 2 ranks; what it computes goes with the size's cube.
    let example = std::fs::read_to_string("/usr/share/doc/hpcc/examples/_hpccinf.txt").unwrap_or_default();
    let size = format!("{:.0}         Ns", 800.0 * f64::from(scale).cbrt());
    let input = example
        .lines()
        .map(|line| {
            if line.ends_with(" Ns") {
                size.as_str()
            } else if line.ends_with(" Ps") {
                "1            Ps"
            } else {
                line
            }
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let remedy = "apt-get install --no-install-recommends hpcc";
    // Which tests there were and whether each of them was right; figures are rates.
    let mut made = program("hpcc", Mpi::Openmpi, &["hpcc"], remedy, |line| {
        let verdict = ["PASSED", "FAILED", "Success=", "CommWorldProcs=", "HPL_N=", "errors", "End of"];
        // PTRANS prints the same by CPU time, but only where that clock has advanced meanwhile.
        if line.starts_with("CPU") {
            return None;
        }
        if line.starts_with("WALL") {
            // Its sizes stay, and times stand around its verdict.
            let words: Vec<_> = line.split_whitespace().collect();
            return Some([words.get(..7)?, words.get(8..9)?].concat().join(" "));
        }
        Some(line.trim().to_owned()).filter(|line| verdict.iter().any(|word| line.contains(word)))
    });
    made.files = vec![("hpccinf.txt", input)];
    made.result = Some("hpccoutf.txt");
    made
}

/// Finds the file that a command's first word means.
pub fn find(word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|file| file.is_file());
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').map(|folder| Path::new(folder).join(word)).find(|file| file.is_file())
}
