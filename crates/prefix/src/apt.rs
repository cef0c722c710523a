//! A private apt: own configuration, state and cache in a folder, signatures checked by the machine's
//! keyring. It downloads and never installs, and the machine's own apt does not notice it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::recipe::Recipe;
use crate::{Error, make_public_folder, sources};

/// Times apt tries a file again; a mirror behind a proxy drops one now and then.
const RETRIES: &str = "3";

/// Lines of a tool's output that an error shows; the cause is among the last.
const ERROR_LINES: usize = 4;

/// Downloads the recipe's packages into `build/archives` and returns their paths.
pub(crate) fn fetch(
    recipe: &Recipe,
    build: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, Error> {
    let apt = PrivateApt::new(recipe, build)?;
    let name = recipe.set.name();
    progress(&format!("{name}: reading the package lists of Debian {}", apt.suite));
    let updated = apt.update();
    let closure = apt.closure(recipe).map_err(|error| updated.err().unwrap_or(error))?;
    let wanted: Vec<String> = closure.into_iter().filter(|package| recipe.wants(package)).collect();
    progress(&format!("{name}: downloading {} packages", wanted.len()));
    apt.download(&wanted)
}

struct PrivateApt {
    configuration: PathBuf,
    archives: PathBuf,
    suite: String,
    by_hand: &'static str,
}

impl PrivateApt {
    fn new(recipe: &Recipe, build: &Path) -> Result<Self, Error> {
        let codename = machine_codename()?;
        let suite = recipe.suite.map_or_else(|| codename.clone(), str::to_owned);
        let entries = sources::debian_archive(&machine_sources(), &codename, &suite)
            .map_err(|passed_over| Error::NoSource { codename, passed_over })?;
        for folder in ["lists/partial", "cache/archives/partial", "sources", "empty", "archives"] {
            make_public_folder(&build.join(folder))?;
        }
        let apt = Self {
            configuration: build.join("apt.conf"),
            archives: build.join("archives"),
            suite,
            by_hand: recipe.by_hand,
        };
        let mut text = own_configuration(build);
        text.push_str(&apt.machine_configuration()?);
        for (path, content) in [
            (build.join("sources/debian.sources"), entries.as_str()),
            (build.join("status"), ""),
            (apt.configuration.clone(), text.as_str()),
        ] {
            fs::write(&path, content).map_err(Error::io("write", &path))?;
        }
        give_to_download_user(&apt.archives);
        Ok(apt)
    }

    /// The machine's way to its mirrors: proxies, certificates, checks, credentials. Not its hooks, which
    /// would run commands of the system, and not its extra index files, which nobody reads here.
    fn machine_configuration(&self) -> Result<String, Error> {
        let output = Command::new("apt-config")
            .arg("dump")
            .env("LC_ALL", "C")
            .output()
            .map_err(|cause| Error::NoTool { program: "apt-config", cause, by_hand: self.by_hand })?;
        let dump = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(dump.lines().filter(|line| keeps(line)).map(|line| format!("{line}\n")).collect())
    }

    fn run(&self, arguments: &[&str]) -> Result<Output, Error> {
        Command::new("apt-get")
            .args(arguments)
            .current_dir(&self.archives)
            .env("APT_CONFIG", &self.configuration)
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output()
            .map_err(|cause: io::Error| Error::NoTool { program: "apt-get", cause, by_hand: self.by_hand })
    }

    /// Reads the package lists. One entry that fails does not matter when another serves, so the caller
    /// keeps the error for the case that packages are missing.
    fn update(&self) -> Result<(), Error> {
        let output = self.run(&["update", "-q", "--error-on=any"])?;
        succeeded(
            &output,
            || format!("reading the package lists of Debian {}", self.suite),
            "check that `apt-get update` works on this machine: network, proxy, mirror, keyring",
        )
    }

    /// The names of all packages that the recipe's packages need, with themselves.
    fn closure(&self, recipe: &Recipe) -> Result<Vec<String>, Error> {
        let mut arguments = vec!["install", "--print-uris", "-qq", "--yes", "--no-install-recommends"];
        arguments.extend(recipe.packages);
        let output = self.run(&arguments)?;
        succeeded(
            &output,
            || format!("looking for {} in Debian {}", recipe.packages.join(", "), self.suite),
            "the mirror named in the machine's apt sources must carry this suite",
        )?;
        let text = String::from_utf8_lossy(&output.stdout);
        // 'URI' NAME_VERSION_ARCH.deb SIZE HASH
        Ok(text
            .lines()
            .filter(|line| line.starts_with('\''))
            .filter_map(|line| Some(line.split_whitespace().nth(1)?.split('_').next()?.to_owned()))
            .collect())
    }

    fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>, Error> {
        let mut arguments = vec!["download", "-q"];
        arguments.extend(packages.iter().map(String::as_str));
        let output = self.run(&arguments)?;
        succeeded(
            &output,
            || format!("downloading {} packages of Debian {}", packages.len(), self.suite),
            "try again; if it persists check the network, the mirror and the free space",
        )?;
        let listed = fs::read_dir(&self.archives).map_err(Error::io("list", &self.archives))?;
        let mut archives = Vec::new();
        for entry in listed {
            let path = entry.map_err(Error::io("list", &self.archives))?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                archives.push(path);
            }
        }
        archives.sort();
        Ok(archives)
    }
}

fn own_configuration(build: &Path) -> String {
    let at = |name: &str| build.join(name).display().to_string();
    [
        ("Dir::Etc::main", "/dev/null".to_owned()),
        ("Dir::Etc::parts", at("empty")),
        ("Dir::Etc::sourcelist", "/dev/null".to_owned()),
        ("Dir::Etc::sourceparts", at("sources")),
        ("Dir::Etc::preferences", "/dev/null".to_owned()),
        ("Dir::Etc::preferencesparts", at("empty")),
        ("Dir::State", at("")),
        ("Dir::State::lists", at("lists")),
        ("Dir::State::status", at("status")),
        ("Dir::State::extended_states", at("extended_states")),
        ("Dir::Cache", at("cache")),
        ("Dir::Cache::archives", at("cache/archives")),
        ("APT::Install-Recommends", "false".to_owned()),
        ("APT::Install-Suggests", "false".to_owned()),
        ("Acquire::Languages", "none".to_owned()),
        ("Acquire::Retries", RETRIES.to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| format!("{key} \"{value}\";\n"))
    .collect()
}

/// Whether a line of the machine's `apt-config dump` is taken over.
fn keeps(line: &str) -> bool {
    (line.starts_with("Acquire::") || line.starts_with("APT::Sandbox::"))
        && !line.starts_with("Acquire::IndexTargets")
        && !line.starts_with("Acquire::Languages")
        && !line.starts_with("Acquire::Retries")
        && !line.starts_with("Acquire::cdrom")
}

/// Run by root, apt downloads as the user `_apt`, which must be able to write there. Without that user, or
/// without the right to give a folder away, apt downloads as the caller and says so: no reason to fail.
fn give_to_download_user(folder: &Path) {
    if nix::unistd::geteuid().is_root()
        && let Ok(Some(user)) = nix::unistd::User::from_name("_apt")
    {
        let _ = std::os::unix::fs::chown(folder, Some(user.uid.as_raw()), None);
    }
}

/// `VERSION_CODENAME` of the machine.
fn machine_codename() -> Result<String, Error> {
    let text = fs::read_to_string("/etc/os-release").map_err(|_| Error::NoRelease)?;
    text.lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|value| value.trim_matches(['"', '\'']).to_owned())
        .filter(|value| !value.is_empty())
        .ok_or(Error::NoRelease)
}

/// All entries of the machine's sources; a file that cannot be read has none.
fn machine_sources() -> Vec<sources::Source> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(listed) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(listed.filter_map(Result::ok).map(|entry| entry.path()));
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let deb822 = match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => false,
            Some("sources") => true,
            _ => continue,
        };
        if let Ok(text) = fs::read_to_string(&file) {
            found.extend(sources::parse(&text, deb822));
        }
    }
    found
}

/// An error with the tool's last words unless it ended well.
pub(crate) fn succeeded(
    output: &Output,
    step: impl FnOnce() -> String,
    remedy: &'static str,
) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("E:") || line.starts_with("Err:"))
        .collect();
    if lines.is_empty() {
        lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    }
    let last = lines.len().saturating_sub(ERROR_LINES);
    let said = if lines.is_empty() { output.status.to_string() } else { lines[last..].join(" | ") };
    Err(Error::Failed { step: step(), output: said, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn hooks_and_extra_indices_of_the_machine_are_left_out() {
        assert!(keeps("Acquire::http::Proxy \"http://proxy.example:3128\";"));
        assert!(keeps("Acquire::https::CAInfo \"/etc/ssl/site.pem\";"));
        assert!(!keeps("APT::Update::Post-Invoke:: \"touch /tmp/x\";"));
        assert!(!keeps("Acquire::IndexTargets::deb::DEP-11::KeepCompressed \"true\";"));
        assert!(!keeps("Dir::Cache::pkgcache \"\";"));
    }

    #[test]
    fn a_failure_shows_the_tools_errors_and_the_remedy() {
        let output = Output {
            status: std::process::ExitStatus::from_raw(100 << 8),
            stdout: b"Reading package lists...\nErr:1 http://m.example trixie\n".to_vec(),
            stderr: b"W: something\nE: Could not resolve host\n".to_vec(),
        };
        let error = succeeded(&output, || "reading the lists".to_owned(), "check the network").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("reading the lists failed: E: Could not resolve host | Err:1"), "{text}");
        assert!(text.ends_with("check the network") && !text.contains("W: "), "{text}");
    }
}
