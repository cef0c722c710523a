//! Unpacks archives into a tree and writes the wrappers that let its programs run from there. No package's
//! maintainer script is ever run, and nothing is written outside the tree.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::recipe::{POSTGRES_MAJOR, Recipe};
use crate::{Error, Prefix, Set, apt, link, make_public_folder, remove_tree};

/// What nobody needs in a prefix: documentation, translations, LLVM bitcode for jit, Vulkan's checks of programs.
const USELESS: [&str; 7] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/lib/chromium/libVkLayer_khronos_validation.so",
    "usr/lib/postgresql/17/lib/bitcode",
    "usr/lib/postgresql/17/lib/llvmjit.so",
];

/// Unpacks `archives` below `build` and returns the tree, ready to be renamed to its place in `prefix`.
pub(crate) fn unpack(
    recipe: &Recipe,
    archives: &[PathBuf],
    build: &Path,
    prefix: &Prefix,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, Error> {
    progress(&format!("{}: unpacking", recipe.set.name()));
    let tree = build.join("tree");
    make_public_folder(&tree)?;
    for archive in archives {
        let output = Command::new("dpkg-deb")
            .arg("-x")
            .args([archive, &tree])
            .env("LC_ALL", "C")
            .output()
            .map_err(|cause| Error::NoTool { program: "dpkg-deb", cause, by_hand: recipe.by_hand })?;
        apt::succeeded(&output, || format!("unpacking {}", archive.display()), "check the free space")?;
    }
    for folder in USELESS {
        remove_tree(&tree.join(folder))?;
    }
    // dpkg-deb gives the tree's root the mode of the archive's, which is not always the same.
    make_readable(&tree)?;
    match recipe.set {
        Set::Fabric => wrap_fabric(&tree, prefix)?,
        Set::Postgres => wrap_postgres(&tree, prefix)?,
        Set::Browser => wrap_browser(&tree, prefix)?,
        Set::Netfilter => wrap_netfilter(&tree, prefix)?,
        Set::Pooler => wrap_pooler(&tree, prefix)?,
        Set::Faketime => wrap_faketime(&tree, prefix)?,
    }
    Ok(tree)
}

/// Starts the recipe's probes in the finished prefix.
pub(crate) fn check(recipe: &Recipe, prefix: &Prefix) -> Result<(), Error> {
    for (program, argument) in recipe.probes {
        let broken = |output: String| Error::Broken { program: (*program).to_owned(), output };
        let output = Command::new(prefix.program(program))
            .arg(argument)
            .output()
            .map_err(|error| broken(error.to_string()))?;
        // ibsim and opensm end with a status of their own after reporting the version; the loader's own
        // failure is 127, and so is the shell's.
        if matches!(output.status.code(), None | Some(126 | 127)) {
            return Err(broken(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
    }
    Ok(())
}

/// The names of the files in a folder, in order.
pub(crate) fn file_names(folder: &Path) -> Result<Vec<OsString>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        names.push(entry.map_err(Error::io("list", folder))?.file_name());
    }
    names.sort();
    Ok(names)
}

/// One folder of links to all libraries of a tree.
fn link_libraries(tree: &Path) -> Result<(), Error> {
    let libs = tree.join("libs");
    make_public_folder(&libs)?;
    for folder in library_folders(tree)? {
        for name in file_names(&folder)? {
            let library = folder.join(&name);
            if name.to_string_lossy().contains(".so") && !library.is_dir() {
                link(&Path::new("..").join(relative(tree, &library)), &libs.join(&name))?;
            }
        }
    }
    Ok(())
}

/// Chromium finds its own files beside its program; its libraries and fonts are those of the tree.
fn wrap_browser(tree: &Path, prefix: &Prefix) -> Result<(), Error> {
    link_libraries(tree)?;
    let place = prefix.root().join("browser");
    let fonts = tree.join("fonts.conf");
    let text = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"urn:fontconfig:fonts.dtd\">\n<fontconfig>\n\
         <dir>{}</dir>\n<cachedir prefix=\"xdg\">fontconfig</cachedir>\n</fontconfig>\n",
        place.join("usr/share/fonts").display(),
    );
    fs::write(&fonts, text).map_err(Error::io("write", &fonts))?;
    // libpulse looks for a part of itself in a folder of its own.
    for folder in library_folders(tree)? {
        let own = folder.join("pulseaudio");
        for name in if own.is_dir() { file_names(&own)? } else { Vec::new() } {
            let part = own.join(&name);
            link(&Path::new("..").join(relative(tree, &part)), &tree.join("libs").join(&name))?;
        }
    }
    let libs = quoted(&place.join("libs"));
    let wrappers = tree.join("wrappers");
    make_public_folder(&wrappers)?;
    let text = format!(
        "LD_LIBRARY_PATH={libs}\nFONTCONFIG_FILE={}\n\
         export LD_LIBRARY_PATH FONTCONFIG_FILE\nexec {} \"$@\"\n",
        quoted(&place.join("fonts.conf")),
        quoted(&place.join("usr/lib/chromium/chromium-headless-shell")),
    );
    write_wrapper(&wrappers.join("chromium-headless-shell"), &text)
}

/// One program with its libraries.
fn wrap_netfilter(tree: &Path, prefix: &Prefix) -> Result<(), Error> {
    link_libraries(tree)?;
    let place = prefix.root().join("netfilter");
    let wrappers = tree.join("wrappers");
    make_public_folder(&wrappers)?;
    let text = format!(
        "LD_LIBRARY_PATH={}\nexport LD_LIBRARY_PATH\nexec {} \"$@\"\n",
        quoted(&place.join("libs")),
        quoted(&place.join("usr/sbin/nft")),
    );
    write_wrapper(&wrappers.join("nft"), &text)
}

/// `faketime-run FILE PROGRAM...`: the program's CLOCK_REALTIME is off by what the file has (`+300`), which may change while it runs.
/// CLOCK_MONOTONIC and CLOCK_BOOTTIME are those of the system: a clock that is set moves no other.
fn wrap_faketime(tree: &Path, prefix: &Prefix) -> Result<(), Error> {
    let place = prefix.root().join("faketime");
    let folders = library_folders(tree)?;
    let library = folders.iter().map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    let library = library.into_iter().find(|library| library.exists()).unwrap_or_else(|| tree.join("libs"));
    let wrappers = tree.join("wrappers");
    make_public_folder(&wrappers)?;
    let text = format!(
        "FAKETIME_TIMESTAMP_FILE=$1\nFAKETIME_CACHE_DURATION=1\nFAKETIME_DONT_FAKE_MONOTONIC=1\n\
         LD_PRELOAD={}${{LD_PRELOAD:+:$LD_PRELOAD}}\nshift\n\
         export FAKETIME_TIMESTAMP_FILE FAKETIME_CACHE_DURATION FAKETIME_DONT_FAKE_MONOTONIC LD_PRELOAD\nexec \"$@\"\n",
        quoted(&place.join(relative(tree, &library))),
    );
    write_wrapper(&wrappers.join("faketime-run"), &text)
}

/// Wrappers with the library path, and one folder of links to all libraries.
fn wrap_fabric(tree: &Path, prefix: &Prefix) -> Result<(), Error> {
    link_libraries(tree)?;
    let libs = tree.join("libs");
    for folder in library_folders(tree)? {
        let simulator = folder.join("umad2sim/libumad2sim.so");
        if simulator.exists() {
            link(&Path::new("..").join(relative(tree, &simulator)), &libs.join("libumad2sim.so"))?;
        }
    }
    let wrappers = tree.join("wrappers");
    make_public_folder(&wrappers)?;
    let root = prefix.root();
    let environment = format!(
        "LD_LIBRARY_PATH={}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\nIBPATH={}\nPERL5LIB={}\n\
         export LD_LIBRARY_PATH IBPATH PERL5LIB\n",
        quoted(&root.join("lib")),
        quoted(&root.join("bin")),
        quoted(&root.join("fabric/usr/share/perl5")),
    );
    for folder in ["usr/bin", "usr/sbin"] {
        for name in file_names(&tree.join(folder))? {
            let program = tree.join(folder).join(&name);
            redirect_script(&program, root)?;
            let place = root.join("fabric").join(folder).join(&name);
            write_wrapper(&wrappers.join(&name), &format!("{environment}exec {} \"$@\"\n", quoted(&place)))?;
        }
    }
    // The package's own version of this script looks for the library in /usr/lib.
    let preload = quoted(&root.join("lib/libumad2sim.so"));
    write_wrapper(
        &wrappers.join("ibsim-run"),
        &format!(
            "{environment}LD_PRELOAD={preload}${{LD_PRELOAD:+:$LD_PRELOAD}}\nexport LD_PRELOAD\nexec \"$@\"\n"
        ),
    )
}

/// Some of infiniband-diags are scripts that call their siblings in /usr/sbin.
fn redirect_script(program: &Path, root: &Path) -> Result<(), Error> {
    if is_elf(program)? {
        return Ok(());
    }
    if let Ok(text) = fs::read_to_string(program)
        && text.contains("/usr/sbin/")
    {
        let bin = format!("{}/", root.join("bin").display());
        fs::write(program, text.replace("/usr/sbin/", &bin)).map_err(Error::io("write", program))?;
    }
    Ok(())
}

/// The loader and the libraries of a tree that has a C library of its own.
struct OwnWorld {
    loader: PathBuf,
    /// Library folders, with colons.
    libraries: PathBuf,
}

impl OwnWorld {
    /// Of a tree that will be at `place`.
    fn of(tree: &Path, place: &Path) -> Result<OwnWorld, Error> {
        let folders = library_folders(tree)?;
        let loader = folders
            .iter()
            .chain([&tree.join("usr/lib64"), &tree.join("lib64"), &tree.join("usr/lib"), &tree.join("lib")])
            .find_map(|folder| {
                let names = file_names(folder).ok()?;
                names
                    .into_iter()
                    .find(|name| is_loader(&name.to_string_lossy()))
                    .map(|name| folder.join(name))
            })
            .ok_or_else(|| Error::Broken {
                program: "ld-linux".to_owned(),
                output: "no loader in the unpacked libc6".to_owned(),
            })?;
        let paths: Vec<String> =
            folders.iter().map(|folder| place.join(relative(tree, folder)).display().to_string()).collect();
        Ok(OwnWorld { loader: place.join(relative(tree, &loader)), libraries: paths.join(":").into() })
    }

    /// A script that runs a program under this loader. Programs find their files by the path that they were called with, so
    /// the loader passes that on as argument zero.
    fn script(&self, program: &Path) -> String {
        format!(
            "exec {} --argv0 \"$0\" --library-path {} {} \"$@\"\n",
            quoted(&self.loader),
            quoted(&self.libraries),
            quoted(program),
        )
    }
}

/// PostgreSQL's programs of another release run under that release's loader and libraries.
fn wrap_postgres(tree: &Path, prefix: &Prefix) -> Result<(), Error> {
    let place = prefix.root().join("postgres");
    let world = OwnWorld::of(tree, &place)?;
    let home = Path::new("usr/lib/postgresql").join(POSTGRES_MAJOR);
    let (bin, real) = (tree.join(&home).join("bin"), tree.join(&home).join("real"));
    make_public_folder(&real)?;
    for name in file_names(&bin)? {
        let program = bin.join(&name);
        if !is_elf(&program)? {
            continue;
        }
        fs::rename(&program, real.join(&name)).map_err(Error::io("move", &program))?;
        write_wrapper(&program, &world.script(&place.join(&home).join("real").join(&name)))?;
    }
    link(&home.join("bin"), &tree.join("bin"))
}

/// One program of another release, under that release's loader and libraries.
fn wrap_pooler(tree: &Path, prefix: &Prefix) -> Result<(), Error> {
    let place = prefix.root().join("pooler");
    let world = OwnWorld::of(tree, &place)?;
    let wrappers = tree.join("wrappers");
    make_public_folder(&wrappers)?;
    write_wrapper(&wrappers.join("pgbouncer"), &world.script(&place.join("usr/sbin/pgbouncer")))
}

fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld64.so")
}

/// The folders of shared libraries in a tree: `usr/lib/TRIPLET` and `lib/TRIPLET`.
fn library_folders(tree: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut folders = Vec::new();
    for parent in [tree.join("usr/lib"), tree.join("lib")] {
        // In a merged tree lib is a link to usr/lib: the same folders once more.
        if !parent.is_dir() || parent.is_symlink() {
            continue;
        }
        for name in file_names(&parent)? {
            if name.to_string_lossy().contains("-linux-gnu") {
                folders.push(parent.join(name));
            }
        }
    }
    Ok(folders)
}

fn relative<'a>(tree: &Path, path: &'a Path) -> &'a Path {
    path.strip_prefix(tree).unwrap_or(path)
}

fn is_elf(path: &Path) -> Result<bool, Error> {
    let mut magic = [0_u8; 4];
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        // A link to a program of a package that was left out.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    Ok(file.read_exact(&mut magic).is_ok() && magic == *b"\x7fELF")
}

fn write_wrapper(path: &Path, text: &str) -> Result<(), Error> {
    remove_tree(path)?;
    fs::write(path, format!("#!/bin/sh\n{text}")).map_err(Error::io("write", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(Error::io("set the mode of", path))
}

/// A path as one word of a shell command.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

fn make_readable(folder: &Path) -> Result<(), Error> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .map_err(Error::io("set the mode of", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }

    #[test]
    fn loaders_of_both_architectures_are_known() {
        assert!(is_loader("ld-linux-x86-64.so.2") && is_loader("ld-linux-aarch64.so.1"));
        assert!(!is_loader("libc.so.6"));
    }

    #[test]
    fn scripts_call_their_siblings_in_the_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("dump_lfts");
        fs::write(&script, "#!/bin/sh\n/usr/sbin/dump_fts $@\n").unwrap();
        redirect_script(&script, Path::new("/p")).unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), "#!/bin/sh\n/p/bin/dump_fts $@\n");
    }

    #[test]
    fn a_wrapper_passes_arguments_and_library_path() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("fabric");
        for part in ["usr/bin", "usr/sbin", "usr/lib/x86_64-linux-gnu/umad2sim"] {
            fs::create_dir_all(tree.join(part)).unwrap();
        }
        fs::write(tree.join("usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"), "x").unwrap();
        let program = tree.join("usr/sbin/show");
        fs::write(&program, "#!/bin/sh\necho \"$LD_LIBRARY_PATH\" \"$2\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let prefix = Prefix::at(folder.path());
        wrap_fabric(&tree, &prefix).unwrap();
        link(Path::new("fabric/libs"), &prefix.library_dir()).unwrap();
        let output = Command::new(tree.join("wrappers/show"))
            .args(["a", "b c"])
            .env_remove("LD_LIBRARY_PATH")
            .output()
            .unwrap();
        let expected = format!("{} b c\n", prefix.library_dir().display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(fs::read(prefix.umad2sim()).unwrap(), b"x");
    }
}
