//! The MPI side of the demo: which library is there, the compiled traffic program, and its four ranks.
//!
//! The program is real and so is everything between its calls and the database; only the fabric is simulated.

use super::process::Recipe;
use anyhow::Context;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use throughline_daemon::Failure;

/// Ranks of the program, and agents.
pub const RANKS: usize = 4;

/// The program's text, so that the demo needs no source tree.
const SOURCE: &str = include_str!("../../mpit-bridge/demo/traffic.c");

/// The header of regions that it includes.
const HEADER: &str = include_str!("../../mpit-bridge/include/throughline.h");

/// Pause between rounds. Most of a round is this pause, so that the traffic is as even as the clock and not as
/// uneven as a busy machine.
const PAUSE_MILLISECONDS: u32 = 100;

/// A message of the heavy pairs: what they send has to stand out from the simulator's own packets (`counters.rs`).
const PAIR_BYTES: u32 = 2 << 20;

/// An MPI library with its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// For people.
    pub name: &'static str,
    /// Whether it offers performance variables: Debian's MPICH has none.
    pub has_pvars: bool,
    compiler: PathBuf,
    launcher: PathBuf,
}

/// Names of compiler and launcher, the preferred library first.
const LIBRARIES: [(&str, bool, &str, &str); 2] =
    [("Open MPI", true, "mpicc.openmpi", "mpirun.openmpi"), ("MPICH", false, "mpicc.mpich", "mpirun.mpich")];

impl Mpi {
    /// Finds Open MPI, else MPICH.
    ///
    /// # Errors
    /// Neither is installed (69).
    pub fn find() -> Result<Self, Failure> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let program = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        for (name, has_pvars, compiler, launcher) in LIBRARIES {
            if let (Some(compiler), Some(launcher)) = (program(compiler), program(launcher)) {
                return Ok(Self { name, has_pvars, compiler, launcher });
            }
        }
        Err(Failure::unavailable(
            "no MPI library: neither Open MPI (mpicc.openmpi) nor MPICH (mpicc.mpich) is in PATH; \
             on Debian: apt-get install libopenmpi-dev openmpi-bin",
        ))
    }

    /// Compiles the program into `folder` unless it is there already, and returns its path.
    ///
    /// # Errors
    /// The folder can't be written, or the compiler fails; the message has its output.
    pub async fn compile(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        self.compile_source("traffic", SOURCE, folder).await
    }

    /// The same with any program, given its name and text.
    ///
    /// # Errors
    /// As [`Mpi::compile`].
    pub async fn compile_source(&self, name: &str, text: &str, folder: &Path) -> anyhow::Result<PathBuf> {
        let program = folder.join(format!("{name}-{}", self.name.replace(' ', "").to_lowercase()));
        let source = program.with_extension("c");
        if program.is_file() && fs::read_to_string(&source).is_ok_and(|known| known == text) {
            return Ok(program);
        }
        let made = program.with_extension("new");
        let output = {
            let draft = program.with_extension("draft.c");
            for (path, text) in [(&draft, text), (&folder.join("throughline.h"), HEADER)] {
                fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
            }
            let output = tokio::process::Command::new(&self.compiler)
                .args(["-O2", "-o"])
                .args([&made, &draft])
                .output()
                .await
                .with_context(|| format!("starting {}", self.compiler.display()))?;
            fs::rename(&draft, &source).with_context(|| format!("writing {}", source.display()))?;
            output
        };
        if !output.status.success() {
            drop(fs::remove_file(&source)); // Else the next run would take an old program for this source's.
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::unavailable(format!(
                "{} can't compile the demo's MPI program: {}; on Debian: apt-get install libopenmpi-dev gcc",
                self.compiler.display(),
                text.trim()
            ))
            .into());
        }
        fs::rename(&made, &program).with_context(|| format!("writing {}", program.display()))?;
        Ok(program)
    }

    /// The program that starts ranks.
    pub fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// Writes the script that a rank runs: it takes the socket of its own agent and goes on under
    /// `throughline-exec`, which finds its objects in `objects`.
    ///
    /// # Errors
    /// The script can't be written.
    pub fn rank_script(
        folder: &Path,
        exec: &Path,
        objects: &Path,
        program: &Path,
        sockets: &[PathBuf],
    ) -> anyhow::Result<PathBuf> {
        let path = folder.join("rank.sh");
        let text = script(exec, objects, program, sockets);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))
            .with_context(|| format!("mode of {}", path.display()))?;
        Ok(path)
    }

    /// One run of the program for about `seconds`.
    pub fn run(&self, script: &Path, folder: &Path, seconds: u32) -> Recipe {
        let recipe = Recipe::new("mpi", &self.launcher, folder);
        let recipe = match self.has_pvars {
            // Containers and CI run as root; four ranks need not have four cores; `isolated` starts local
            // processes without looking for ssh or a scheduler; ob1 is what has queue lengths to read, also
            // on a machine whose adapter would make UCX the default.
            true => recipe
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                .env("OMPI_MCA_plm", "isolated")
                .env("OMPI_MCA_pml", "ob1")
                .arg("--oversubscribe")
                .option("--bind-to", "none"),
            false => recipe.option("-launcher", "fork"),
        };
        recipe
            .option("-np", RANKS.to_string())
            .arg(script)
            .option("--seconds", seconds.to_string())
            .option("--pause-ms", PAUSE_MILLISECONDS.to_string())
            .option("--pair-bytes", PAIR_BYTES.to_string())
    }
}

/// The text of the script. Only paths vary; they are quoted.
fn script(exec: &Path, objects: &Path, program: &Path, sockets: &[PathBuf]) -> String {
    let cases: String = sockets
        .iter()
        .enumerate()
        .map(|(rank, socket)| format!("{rank}) THROUGHLINE_SOCKET={} ;;\n", quoted(socket)))
        .collect();
    format!(
        "#!/bin/sh\n\
         # Rank r of the demo's program reports to agent r, as if it ran on that agent's node.\n\
         case ${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}} in\n\
         {cases}esac\n\
         THROUGHLINE_LIB_DIR={objects}\n\
         export THROUGHLINE_SOCKET THROUGHLINE_LIB_DIR\n\
         exec {exec} {program} \"$@\"\n",
        objects = quoted(objects),
        exec = quoted(exec),
        program = quoted(program)
    )
}

/// A path as one word of a shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn each_rank_finds_the_socket_of_its_agent() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("it's here");
        fs::create_dir(&place).unwrap();
        let show = place.join("show");
        fs::write(&show, "#!/bin/sh\necho \"$THROUGHLINE_SOCKET $*\"\n").unwrap();
        fs::set_permissions(&show, Permissions::from_mode(0o755)).unwrap();
        let sockets: Vec<PathBuf> = (0..4).map(|rank| place.join(format!("{rank}.sock"))).collect();
        let script =
            Mpi::rank_script(&place, &show, Path::new("/lib"), Path::new("traffic"), &sockets).unwrap();
        for (variable, rank) in [("OMPI_COMM_WORLD_RANK", 3), ("PMI_RANK", 2)] {
            let run =
                Command::new("/bin/sh").arg(&script).arg("--x").env(variable, rank.to_string()).output();
            let text = String::from_utf8(run.unwrap().stdout).unwrap();
            assert_eq!(text, format!("{} traffic --x\n", sockets[rank].display()));
        }
    }
}
