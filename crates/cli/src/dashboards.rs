//! `throughline dashboards`: writes the Grafana dashboards for one site, with its colours and the address of its pages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_daemon::Failure;

/// Shown below the options.
const HELP: &str = "\
Grafana reads the folder again after a minute; its provisioning names it
(deploy/grafana/provisioning/dashboards). FILE has the keys of dashboards/site.toml, all optional.

Example:
  throughline dashboards --site /etc/throughline/dashboards.toml \\
    --to /var/lib/grafana/dashboards/throughline";

/// Options of `dashboards`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Write the files to this folder; it must be there
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Read colours, thresholds and the address of our pages from FILE [default: those of the committed dashboards]
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
}

/// Writes the files and prints the name of each.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    for path in write(arguments)? {
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn write(arguments: &Arguments) -> Result<Vec<PathBuf>, Failure> {
    let site = match &arguments.site {
        None => throughline_dashboards::Site::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                Failure::from_io(
                    format!("cannot read {}", file.display()),
                    &error,
                    "name another file with --site",
                )
            })?;
            throughline_dashboards::Site::parse(&text)
                .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?
        }
    };
    let one = |(name, text): (String, String)| {
        let path = arguments.to.join(name);
        put(&path, &text).map_err(|error| {
            let what = format!("cannot write {}", path.display());
            Failure::from_io(what, &error, "make the folder, or run this as a user that may write there")
        })?;
        Ok(path)
    };
    throughline_dashboards::files(&site).into_iter().map(one).collect()
}

/// Written beside and moved: Grafana never reads half a file.
fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("json.new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_sites_colours_reach_the_files_and_a_wrong_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dashboards.toml");
        let to = folder.path().to_owned();
        std::fs::write(&file, "utilisation = [[0.0, '#111111'], [0.5, '#abcdef']]\n").unwrap();
        let arguments = Arguments { to: to.clone(), site: Some(file.clone()) };
        assert_eq!(write(&arguments).unwrap().len(), 9);
        let text = std::fs::read_to_string(to.join("throughline-fabric.json")).unwrap();
        assert!(text.contains("#abcdef"));
        std::fs::write(&file, "utilisation = [[0.0, 'red']]\n").unwrap();
        let error = write(&arguments).unwrap_err().to_string();
        assert!(error.contains("dashboards.toml: utilisation: 'red' is no colour"), "{error}");
        let nowhere = Arguments { to: to.join("nowhere"), site: None };
        let error = write(&nowhere).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("make the folder"), "{error}");
    }
}
