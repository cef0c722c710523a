//! What each set is made of: suites, packages, and what of their closure is left out. No I/O.

use crate::Set;

/// Raised with every change that makes an existing prefix out of date.
const VERSION: u32 = 1;

/// Debian 13, the first release with TimescaleDB, and with a PgBouncer that knows prepared statements (1.21).
const TIMESCALE_SUITE: &str = "trixie";

/// The PostgreSQL of that release.
pub(crate) const POSTGRES_MAJOR: &str = "17";

/// The machine's own C library and the libraries of its essential packages stay in use: programs of the machine's own
/// suite run in the machine's own world, and our binaries load libumad2sim into theirs.
const ESSENTIAL: [&str; 25] = [
    "libacl",
    "libattr",
    "libaudit",
    "libbz2",
    "libc6",
    "libcap-ng",
    "libcap2",
    "libcrypt1",
    "libdb5",
    "libdebconf",
    "libgcc-s1",
    "libgdbm",
    "libgmp",
    "liblzma",
    "libmd0",
    "libpam",
    "libpcre2",
    "libperl",
    "libselinux",
    "libsemanage",
    "libsepol",
    "libsystemd",
    "libtinfo",
    "libzstd",
    "zlib1g",
];

/// How a set is made.
pub(crate) struct Recipe {
    pub set: Set,
    /// The suite to take, or `None` for the machine's own.
    pub suite: Option<&'static str>,
    /// Packages requested by name; apt finds what they depend on.
    pub packages: &'static [&'static str],
    /// Programs of the closure that are wanted too, where a release has them in packages of their own.
    companions: &'static [&'static str],
    /// Shared libraries of the closure that are left out, by the beginning of the package's name.
    left_out: &'static [&'static [&'static str]],
    /// Programs that are started once to prove that the set works, with the argument that makes them end.
    pub probes: &'static [(&'static str, &'static str)],
    /// What someone without Debian should do instead.
    pub by_hand: &'static str,
}

impl Recipe {
    /// The content of the file that marks the set complete.
    pub fn stamp(&self) -> String {
        format!("recipe {VERSION} of {}\n", self.set.name())
    }

    /// The folder, within the set, of the programs that people call.
    pub fn programs_folder(&self) -> &'static str {
        match self.set {
            Set::Fabric | Set::Browser | Set::Netfilter | Set::Pooler | Set::Faketime => "wrappers",
            Set::Postgres => "bin",
        }
    }

    /// Whether a package of the closure belongs into the prefix: what was requested, and shared libraries.
    /// Everything else of a closure (perl, dpkg, adduser, locales, ...) is there on any Debian, or serves
    /// the maintainer scripts, which are never run here.
    pub fn wants(&self, package: &str) -> bool {
        if self.packages.contains(&package) || self.companions.contains(&package) {
            return true;
        }
        package_is_library(package)
            && !self.left_out.iter().copied().flatten().any(|start| package.starts_with(start))
    }
}

fn package_is_library(package: &str) -> bool {
    (package.starts_with("lib") || package.starts_with("zlib1g"))
        && !package.ends_with("-perl")
        && !package.starts_with("libjs-")
        && !package.starts_with("libc-")
}

/// The recipe of a set.
pub(crate) fn of(set: Set) -> Recipe {
    match set {
        Set::Fabric => Recipe {
            set,
            suite: None,
            packages: &["ibsim-utils", "libumad2sim0", "opensm", "infiniband-diags", "prometheus"],
            companions: &["promtool"],
            left_out: &[&ESSENTIAL],
            probes: &[
                ("ibsim", "-V"),
                ("opensm", "--version"),
                ("ibnetdiscover", "-V"),
                ("dump_fts", "-V"),
                ("prometheus", "--version"),
                ("promtool", "--version"),
            ],
            by_hand: "ibsim, opensm, infiniband-diags and prometheus, with a folder that has links to them \
                      in bin and to libumad2sim.so in lib, named by THROUGHLINE_PREFIX",
        },
        Set::Postgres => Recipe {
            set,
            suite: Some(TIMESCALE_SUITE),
            packages: &["postgresql-17", "postgresql-client-17", "postgresql-17-timescaledb"],
            companions: &[],
            // LLVM is a third of the closure and serves only jit, which the private cluster switches off.
            left_out: &[&[
                "libllvm",
                "libz3",
                "libperl",
                "libdebconf",
                "libsemanage",
                "libsepol",
                "libpam-modules",
                "libproc2",
                "libdb5",
                "libgdbm",
                "libncursesw",
                "libacl",
                "libattr",
                "libbz2",
                "libmd0",
                "libbsd0",
            ]],
            probes: &[("postgres", "--version"), ("initdb", "--version"), ("psql", "--version")],
            by_hand: "PostgreSQL 15 or later with TimescaleDB, its folder of programs named by --pg-bin or \
                      THROUGHLINE_PG_BIN, or a server named by --database-url",
        },
        Set::Browser => Recipe {
            set,
            suite: None,
            packages: &["chromium-headless-shell", "chromium-common", "fonts-dejavu-core"],
            companions: &[],
            // Drivers of graphics cards: pages are drawn in software, by Chromium's own SwiftShader.
            left_out: &[&ESSENTIAL, &["libllvm", "libz3", "libgl1-mesa", "libvulkan"]],
            probes: &[("chromium-headless-shell", "--version")],
            by_hand: "Chromium, with a link to it named chromium-headless-shell in the folder bin of the folder \
                      that THROUGHLINE_PREFIX names",
        },
        Set::Netfilter => Recipe {
            set,
            suite: None,
            packages: &["nftables"],
            companions: &[],
            left_out: &[&ESSENTIAL],
            probes: &[("nft", "--version")],
            by_hand: "nftables, or a link to nft in the folder bin of the folder that THROUGHLINE_PREFIX names",
        },
        Set::Pooler => Recipe {
            set,
            suite: Some(TIMESCALE_SUITE),
            packages: &["pgbouncer"],
            companions: &[],
            left_out: &[&["libpam-modules", "libdebconf", "libsemanage", "libsepol", "libperl", "libdb5"]],
            probes: &[("pgbouncer", "--version")],
            by_hand: "PgBouncer 1.21 or later, with a link to it named pgbouncer in the folder bin of the folder that \
                      THROUGHLINE_PREFIX names",
        },
        Set::Faketime => Recipe {
            set,
            suite: None,
            packages: &["libfaketime"],
            companions: &[],
            left_out: &[&ESSENTIAL],
            probes: &[("faketime-run", "/dev/null")],
            by_hand: "libfaketime, with a script faketime-run FILE PROGRAM in the folder bin of the folder that \
                      THROUGHLINE_PREFIX names, which preloads it with FAKETIME_TIMESTAMP_FILE=FILE and \
                      FAKETIME_DONT_FAKE_MONOTONIC=1",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabric_takes_libraries_but_neither_libc_nor_the_base_system() {
        let recipe = of(Set::Fabric);
        for wanted in
            ["opensm", "promtool", "libumad2sim0", "libibmad5", "libosmvendor5", "libwrap0", "libtirpc3"]
        {
            assert!(recipe.wants(wanted), "{wanted}");
        }
        for unwanted in ["libc6", "perl", "libjs-d3", "libgcc-s1", "dpkg", "libfile-find-rule-perl", "zlib1g"]
        {
            assert!(!recipe.wants(unwanted), "{unwanted}");
        }
    }

    #[test]
    fn postgres_takes_its_own_libc_but_no_llvm() {
        let recipe = of(Set::Postgres);
        for wanted in ["postgresql-17-timescaledb", "libc6", "libpq5", "zlib1g", "libicu76", "libgcc-s1"] {
            assert!(recipe.wants(wanted), "{wanted}");
        }
        for unwanted in ["libllvm19", "postgresql-common", "libc-bin", "locales", "libjson-perl", "openssl"] {
            assert!(!recipe.wants(unwanted), "{unwanted}");
        }
    }
}
