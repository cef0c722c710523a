//! `save`: a fabric into files, in the formats of the standard tools.

use super::FabricOptions;
use super::source::DiscoveryNeeds;
use clap::Args;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_daemon::Failure;
use throughline_infiniband::offline::save;

/// Options of `save`.
#[derive(Args)]
pub struct Options {
    /// Write to this folder; it is made if it is not there, and files in it are not replaced
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer; a file is there already (64) or can't be written.
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds { tables: true }, &stop)?.topology;
    let multicast = match source.multicast(&topology, &stop) {
        Ok(tables) => Some(save::multicast(&topology, &tables)),
        Err(error) => {
            tracing::warn!("no multicast tables: {error:#}");
            None
        }
    };
    std::fs::create_dir_all(&options.folder)
        .map_err(|error| anyhow::anyhow!("creating {}: {error}", options.folder.display()))?;
    let mut files =
        vec![("ibnetdiscover", save::ibnetdiscover(&topology)), ("dump_fts", save::tables(&topology))];
    files.extend(multicast.map(|text| ("dump_fts-M", text)));
    let mut out = std::io::stdout().lock();
    for (name, text) in files.iter().filter(|(_, text)| !text.is_empty()) {
        let path = options.folder.join(name);
        write(&path, text)?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new file; one that can't be finished is taken away again, so that half a file is never read as a whole.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let text = format!("{} is there already; name another folder", path.display());
            return Err(Failure::usage(text).into());
        }
        Err(error) => anyhow::bail!("creating {}: {error}", path.display()),
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
        // What can't be removed either is reported all the same.
        let _ = std::fs::remove_file(path);
        anyhow::anyhow!("writing {}: {error}; is the disk full?", path.display())
    })
}
