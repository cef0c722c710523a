//! The machine's Debian archives, read from apt's own configuration. Parsing only: no program is run.
//!
//! Both formats are read: one line per entry (`sources.list`) and deb822 (`.sources`). Only entries of the
//! Debian archive itself serve: a vendor's repository has no other suite to offer. Which entries those are
//! is named by suite (the machine's release, or an alias of a release), component and place; an entry that
//! is signed by a keyring of somebody else is passed over.

use std::fmt::Write as _;

/// Suites that mean "some Debian release" without naming it.
const ALIASES: [&str; 4] = ["stable", "oldstable", "oldoldstable", "testing"];

/// Suites beside the main one that carry fixes for it.
const SUFFIXES: [&str; 4] = ["", "-updates", "-security", "/updates"];

/// One entry of the machine's sources, reduced to what is needed here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Source {
    pub uris: Vec<String>,
    /// Suites as written, e.g. `bookworm`, `bookworm-updates`.
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// The value of Signed-By as written: a path, a fingerprint, or a key over several lines.
    pub signed_by: Option<String>,
}

/// The entries of one file. `deb822` chooses the format. Disabled and source-only entries are left out.
pub(crate) fn parse(text: &str, deb822: bool) -> Vec<Source> {
    if deb822 { parse_deb822(text) } else { text.lines().filter_map(parse_line).collect() }
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t', '[']) {
        return None; // deb-src
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let signed_by =
        options.split_whitespace().find_map(|option| option.strip_prefix("signed-by=")).map(str::to_owned);
    Some(Source {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by,
    })
}

fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            sources.extend(stanza(&std::mem::take(&mut fields)));
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    sources
}

fn stanza(fields: &[(String, String)]) -> Option<Source> {
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let words = |name: &str| -> Vec<String> {
        field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let disabled = matches!(field("enabled"), Some("no" | "false" | "0" | "off" | "disable" | "without"));
    if disabled || !words("types").iter().any(|kind| kind == "deb") {
        return None;
    }
    Some(Source {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").filter(|value| !value.is_empty()).map(str::to_owned),
    })
}

/// The entries that belong to the Debian archive, as a deb822 file for the suite `wanted`, or why there is
/// none: one reason per entry passed over.
pub(crate) fn debian_archive(sources: &[Source], codename: &str, wanted: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut has_main_suite = false;
    let mut reasons = Vec::new();
    for source in sources {
        match archive_entry(source, codename) {
            Ok(suffixes) => {
                has_main_suite |= suffixes.contains(&"");
                let suites: Vec<String> = suffixes.iter().map(|suffix| format!("{wanted}{suffix}")).collect();
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\n",
                    source.uris.join(" "),
                    suites.join(" ")
                );
                if let Some(key) = &source.signed_by {
                    let _ = writeln!(text, "Signed-By: {key}");
                }
                text.push('\n');
            }
            Err(reason) => reasons.push(format!("{} ({reason})", source.uris.join(" "))),
        }
    }
    if has_main_suite {
        return Ok(text);
    }
    Err(if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") })
}

/// The suffixes of the suites that an entry of the Debian archive offers, or why it is none.
fn archive_entry(source: &Source, codename: &str) -> Result<Vec<&'static str>, &'static str> {
    if !source.components.iter().any(|component| component == "main") {
        return Err("no component main");
    }
    if !source.uris.iter().all(|uri| names_debian(uri)) {
        return Err("not a Debian mirror's path");
    }
    if source.signed_by.as_deref().is_some_and(|key| key.starts_with('/') && !key.contains("debian-archive"))
    {
        return Err("signed by another keyring");
    }
    let suffixes: Vec<&'static str> =
        source.suites.iter().filter_map(|suite| suite_suffix(suite, codename)).collect();
    if suffixes.is_empty() { Err("other suites") } else { Ok(suffixes) }
}

/// Mirrors keep the archive under `debian` and `debian-security`, snapshots with a date below it, and cloud
/// images name a file of mirrors `debian.list`.
fn names_debian(uri: &str) -> bool {
    uri.split('/').skip(1).any(|part| {
        let part = part.strip_suffix(".list").unwrap_or(part);
        part == "debian" || part == "debian-security"
    }) || uri.contains("://security.debian.org")
}

fn suite_suffix(suite: &str, codename: &str) -> Option<&'static str> {
    let suite = suite.trim_end_matches('/');
    SUFFIXES.into_iter().find(|suffix| {
        suite.strip_suffix(suffix).is_some_and(|release| release == codename || ALIASES.contains(&release))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "# written by the installer\nTypes: deb deb-src\nURIs: http://mirror.example/debian\n\
         Suites: bookworm bookworm-updates bookworm-backports\nComponents: main contrib\n\
         Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
         Types: deb\nURIs: https://deb.nodesource.com/node_20.x\nSuites: nodistro\nComponents: main\n\n\
         Enabled: no\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n";

    #[test]
    fn deb822_keeps_the_archive_and_swaps_the_suite() {
        let text = debian_archive(&parse(DEB822, true), "bookworm", "trixie").unwrap();
        assert_eq!(
            text,
            "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie trixie-updates\nComponents: main\n\
             Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        );
    }

    #[test]
    fn a_key_over_several_lines_is_kept() {
        let text = "Types: deb\nURIs: http://m.example/debian/\nSuites: stable\nComponents: main\n\
                    Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n";
        let sources = parse(text, true);
        let written = debian_archive(&sources, "bookworm", "bookworm").unwrap();
        assert!(written.contains("Suites: bookworm\n"), "{written}");
        assert!(
            written.contains("Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"),
            "{written}"
        );
    }

    #[test]
    fn one_line_entries_with_options() {
        let text = "deb-src http://a.example/debian bookworm main\n\
                    deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                    http://a.example/debian bookworm main non-free # ours\n\
                    deb http://security.debian.org/ bookworm-security main\n\
                    deb https://packages.example/runner/debian bookworm contrib\n";
        let sources = parse(text, false);
        assert_eq!(sources.len(), 3);
        let written = debian_archive(&sources, "bookworm", "trixie").unwrap();
        assert_eq!(written.matches("Types: deb").count(), 2);
        assert!(written.contains("Suites: trixie-security\n"), "{written}");
    }

    #[test]
    fn vendors_alone_are_not_enough_and_are_named() {
        let text = "deb [signed-by=/etc/apt/keyrings/vendor.gpg] https://v.example/debian bookworm main\n\
                    deb https://packages.example/apt cloud-sdk-bookworm main\n";
        let reason = debian_archive(&parse(text, false), "bookworm", "trixie").unwrap_err();
        assert!(reason.contains("v.example") && reason.contains("another keyring"), "{reason}");
        assert!(reason.contains("packages.example"), "{reason}");
    }

    #[test]
    fn security_without_the_main_suite_is_not_enough() {
        let text = "deb http://security.debian.org/debian-security bookworm-security main\n";
        assert!(debian_archive(&parse(text, false), "bookworm", "bookworm").is_err());
    }
}
