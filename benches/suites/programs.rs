//! Which programs are run, and how: executables of a folder, with the lists of tests that MPICH's suite has beside them,
//! or a file of commands. Must not run anything.

use anyhow::Context;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program and how it is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// What reports call it.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Folder whose executables it finds beside itself.
    pub beside: Option<PathBuf>,
    /// Ranks.
    pub ranks: u32,
    /// How long it may take.
    pub limit: Duration,
    /// Variables that its list sets.
    pub variables: Vec<(String, String)>,
    /// Options of the launcher that its list names.
    pub launcher: Vec<String>,
}

/// What holds where a list says nothing else.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Ranks.
    pub ranks: u32,
    /// Most ranks of any program.
    pub most_ranks: u32,
    /// Time limit.
    pub limit: Duration,
    /// Lines of one program in a list that are taken.
    pub variants: usize,
    /// Version of MPI that the library has.
    pub version: (u32, u32),
}

/// The first bytes of an executable of this machine.
const ELF: &[u8] = b"\x7fELF";
/// Type of an ELF file that is a program or may be one (position independent), in its 17th byte.
const PROGRAM_TYPES: [u8; 2] = [2, 3];

/// Programs of a folder and those below it.
pub fn of_folder(folder: &Path, defaults: &Defaults) -> anyhow::Result<Vec<Program>> {
    let folder = folder.canonicalize().with_context(|| format!("{}", folder.display()))?;
    let within = folder.parent().unwrap_or(&folder);
    let mut found = Vec::new();
    let mut folders = vec![folder.clone()];
    while let Some(one) = folders.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(&one)?.filter_map(Result::ok).map(|e| e.path()).collect();
        entries.sort();
        let is_hidden =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        folders.extend(entries.iter().filter(|path| path.is_dir() && !is_hidden(path)).cloned());
        let programs: Vec<_> = entries.into_iter().filter(|path| is_program(path)).collect();
        let name = |path: &Path| path.strip_prefix(within).unwrap_or(path).display().to_string();
        match std::fs::read_to_string(one.join("testlist")) {
            Ok(list) => found.extend(listed(&list, &one, &name(&one), defaults)),
            Err(_) => found.extend(programs.iter().map(|path| plain(path, name(path), &one, defaults))),
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// An executable that is no library.
fn is_program(path: &Path) -> bool {
    let is_executable =
        || std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    if is_library || !is_executable() {
        return false;
    }
    let mut start = [0_u8; 18];
    let read =
        std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start.starts_with(ELF) && PROGRAM_TYPES.contains(&start[16])
}

fn plain(path: &Path, name: String, beside: &Path, defaults: &Defaults) -> Program {
    Program {
        name,
        command: vec![path.display().to_string()],
        beside: Some(beside.to_owned()),
        ranks: defaults.ranks.min(defaults.most_ranks),
        limit: defaults.limit,
        variables: Vec::new(),
        launcher: Vec::new(),
    }
}

/// Lines of a list of tests: NAME RANKS and words KEY=VALUE. What such a line expects of its program is not looked at:
/// the program without the shim says what is right.
fn listed(list: &str, folder: &Path, within: &str, defaults: &Defaults) -> Vec<Program> {
    let mut found: Vec<Program> = Vec::new();
    let mut taken: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for line in list.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(name) = words.next() else { continue };
        let path = folder.join(name);
        if !is_program(&path) {
            continue;
        }
        let count = taken.entry(name.to_owned()).or_default();
        let mut program = plain(&path, format!("{within}/{name}"), folder, defaults);
        if *count < defaults.variants && program.take_words(words, defaults) {
            *count += 1;
            found.push(program);
        }
    }
    found
}

impl Program {
    /// Takes the rest of a list's line; false if it is for another version of MPI.
    fn take_words<'a>(&mut self, words: impl Iterator<Item = &'a str>, defaults: &Defaults) -> bool {
        let mut is_wanted = true;
        for word in words {
            if let Ok(ranks) = word.parse::<u32>() {
                self.ranks = ranks.clamp(1, defaults.most_ranks);
                continue;
            }
            let Some((key, value)) = word.split_once('=') else { continue };
            match key {
                "np" => self.ranks = value.parse().unwrap_or(self.ranks).clamp(1, defaults.most_ranks),
                "arg" => {
                    self.name += &format!(" {value}");
                    self.command.push(value.to_owned());
                }
                "timeLimit" | "limit" => {
                    let seconds = value.parse().map_or(self.limit, Duration::from_secs);
                    self.limit = seconds.min(defaults.limit);
                }
                "env" => {
                    if let Some((name, value)) = value.split_once('=') {
                        self.variables.push((name.to_owned(), value.to_owned()));
                    }
                }
                "mpiexecarg" => self.launcher.push(value.to_owned()),
                "mpiversion" => is_wanted &= version(value) <= defaults.version,
                _ => {}
            }
        }
        is_wanted
    }
}

fn version(text: &str) -> (u32, u32) {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

/// Commands of a file, one a line, with blanks between words and no quotes; before the command `np=N`, `limit=SECONDS`,
/// `env=NAME=VALUE`. Words that name files beside the list become whole paths.
pub fn of_list(file: &Path, defaults: &Defaults) -> anyhow::Result<Vec<Program>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let folder = file.canonicalize()?.parent().map(Path::to_owned).unwrap_or_default();
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_setting = |word: &&&str| ["np=", "limit=", "env="].iter().any(|key| word.starts_with(key));
        let settings = words.iter().take_while(is_setting).count();
        let command: Vec<_> = words[settings..]
            .iter()
            .map(|word| {
                let path = folder.join(word);
                let is_file = word.contains('/') && path.exists();
                if is_file { path.display().to_string() } else { (*word).to_owned() }
            })
            .collect();
        let Some(first) = command.first() else { continue };
        let mut program = plain(Path::new(first), words[settings..].join(" "), Path::new(""), defaults);
        program.beside = None;
        program.command = command;
        program.take_words(words[..settings].iter().copied(), defaults);
        if names.insert(program.name.clone()) {
            found.push(program);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        let limit = Duration::from_secs(30);
        Defaults { ranks: 4, most_ranks: 4, limit, variants: 2, version: (3, 1) }
    }

    #[test]
    fn lists_say_ranks_arguments_limits_and_variables() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        for name in ["a", "b"] {
            std::os::unix::fs::symlink(&own, folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("lib.so.1"), "").unwrap();
        let list = "a 10 arg=-x arg=-y timeLimit=5 # comment\na 2 mpiversion=4.0\na 1 env=N=1=2 mpiexecarg=-q\na 3\nc 2\n";
        std::fs::write(folder.path().join("testlist"), list).unwrap();
        let found = of_folder(folder.path(), &defaults()).unwrap();
        let shown: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.ranks, one.limit.as_secs())).collect();
        let own = |name: &str| format!("{}/{name}", folder.path().file_name().unwrap().display());
        assert_eq!(shown, [(own("a").as_str(), 1, 30), (own("a -x -y").as_str(), 4, 5)]);
        assert_eq!(found[0].variables, [("N".to_owned(), "1=2".to_owned())]);
        assert_eq!(found[0].launcher, ["-q"]);
        std::fs::remove_file(folder.path().join("testlist")).unwrap();
        let found = of_folder(folder.path(), &defaults()).unwrap();
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), [own("a"), own("b")]);
    }

    #[test]
    fn commands_are_taken_as_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("test")).unwrap();
        std::fs::write(folder.path().join("test/main.py"), "").unwrap();
        let file = folder.path().join("list");
        std::fs::write(&file, "# what\nnp=2 limit=9 python3 test/main.py -i np=3\n\n").unwrap();
        let found = of_list(&file, &defaults()).unwrap();
        assert_eq!(found.len(), 1);
        let script = folder.path().canonicalize().unwrap().join("test/main.py").display().to_string();
        assert_eq!(found[0].command, ["python3", &script, "-i", "np=3"]);
        assert_eq!((found[0].ranks, found[0].limit.as_secs()), (2, 9));
    }
}
