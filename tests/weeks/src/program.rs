//! Real MPI programs under the shim, on the node of the first agent.

use crate::jobs::{NODES, Rows};
use anyhow::{Context, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ranks of each program.
const RANKS: u32 = 2;
/// Calls in the two regions, and bytes of each.
const CALLS: [i64; 2] = [60, 40];
const CALL_BYTES: i64 = 8192;

/// A program that runs.
pub struct MpiProgram {
    pub name: &'static str,
    pub number: u32,
    child: Child,
    folder: PathBuf,
    calls: [i64; 2],
}

/// The program's source, compiled; `None` where there is no compiler of MPICH.
pub fn compile(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("mpi-program");
    let mut command = Command::new("mpicc.mpich");
    command.arg("-I").arg(source.join("../../crates/mpit-bridge/include")).arg("-o").arg(&program);
    match command.arg(source.join("program.c")).env_remove("LD_PRELOAD").status() {
        Ok(status) => {
            ensure!(status.success(), "mpicc.mpich: {status}");
            Ok(Some(program))
        }
        Err(_) => Ok(None),
    }
}

impl MpiProgram {
    /// Starts it as a job of this number; it ends without MPI_Finalize where it `is_gone`.
    pub fn start(
        (program, shim, socket): (&Path, &Path, &Path),
        folder: &Path,
        (name, number, is_gone): (&'static str, u32, bool),
    ) -> anyhow::Result<Self> {
        let folder = folder.join(name);
        std::fs::create_dir(&folder)?;
        let faked = std::env::var("LD_PRELOAD").context("LD_PRELOAD")?;
        let out = File::create(folder.join("out"))?;
        let mut command = Command::new("mpiexec.mpich");
        command.args([
            "-n",
            &RANKS.to_string(),
            "-genv",
            "LD_PRELOAD",
            &format!("{faked}:{}", shim.display()),
        ]);
        command.arg(program).arg(&folder).arg(if is_gone { "gone" } else { "finalize" });
        command
            .env("THROUGHLINE_SOCKET", socket)
            .env("SLURM_JOB_ID", number.to_string())
            .env("SLURM_STEP_ID", "0");
        let child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        Ok(Self { name, number, child, folder, calls: [CALLS[0], 0] })
    }

    /// Whether all its ranks have called MPI.
    pub fn is_ready(&self) -> bool {
        (0..RANKS).all(|rank| self.folder.join(format!("ready-{rank}")).exists())
    }

    /// It calls MPI again.
    pub fn call_again(&mut self) -> anyhow::Result<()> {
        self.calls[1] = CALLS[1];
        self.touch("again")
    }

    /// It ends.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.touch("again")?;
        self.touch("end")?;
        self.child.wait()?;
        Ok(())
    }

    fn touch(&self, name: &str) -> anyhow::Result<()> {
        File::create(self.folder.join(name))?;
        Ok(())
    }

    /// Calls and bytes of allreduce by rank.
    pub fn operations(&self) -> Rows {
        let calls: i64 = self.calls.iter().sum();
        (0..RANKS).map(|rank| (format!("rank {rank} allreduce"), (calls, calls * CALL_BYTES))).collect()
    }

    /// Visits of regions and calls in them.
    pub fn regions(&self) -> Rows {
        let used = || crate::frames::REGIONS.into_iter().zip(self.calls).filter(|(_, calls)| *calls > 0);
        (0..RANKS)
            .flat_map(|rank| used().map(move |(name, calls)| (format!("rank {rank} {name}"), (1, calls))))
            .collect()
    }

    /// Bytes and messages by rank and peer.
    pub fn peers(&self) -> Rows {
        let calls: i64 = self.calls.iter().sum();
        (0..RANKS)
            .map(|rank| (format!("rank {rank} to rank {}", 1 - rank), (calls * CALL_BYTES, calls)))
            .collect()
    }
}

impl MpiProgram {
    /// Bytes and messages by pair of nodes: one.
    pub fn node_pairs(&self) -> Rows {
        let all = self.peers().into_values().fold((0, 0), |all, row| (all.0 + row.0, all.1 + row.1));
        Rows::from([(format!("{0} to {0}", NODES[0]), all)])
    }
}

impl Drop for MpiProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
