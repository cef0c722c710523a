//! `cargo xtask alerts`: writes the alert rules of Prometheus and of Grafana; without arguments those in deploy/ and their
//! part of docs/ALERTS.md.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use throughline_alerts::{GRAFANA_FILE, PROMETHEUS_FILE, Set, THRESHOLDS, grafana, prometheus, table};

/// Behind this line docs/ALERTS.md is written by this task.
const MARK: &str = "<!-- from here on written by `cargo xtask alerts` -->\n";

/// The task's arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A site's own thresholds, as in alerts/thresholds.toml; what they leave out stays as it is there.
    #[arg(long, requires = "to")]
    thresholds: Option<PathBuf>,
    /// Folder below which both sets are written, in place of this repository's deploy/.
    #[arg(long)]
    to: Option<PathBuf>,
}

/// Writes the files and prints the path of each.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let thresholds = match &arguments.thresholds {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
        None => THRESHOLDS.to_owned(),
    };
    let set = Set::new(&thresholds)?;
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let folder = arguments.to.clone().unwrap_or_else(|| root.join("deploy"));
    write(&folder.join(PROMETHEUS_FILE), &prometheus(&set))?;
    write(&folder.join(GRAFANA_FILE), &grafana(&set))?;
    if arguments.to.is_some() {
        return Ok(());
    }
    let page = root.join("docs/ALERTS.md");
    let text = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    let (head, _) = text.split_once(MARK).with_context(|| format!("docs/ALERTS.md lacks the line {MARK}"))?;
    write(&page, &format!("{head}{MARK}\n{}\n", table(&set)))
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}
