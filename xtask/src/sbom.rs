//! `cargo xtask sbom`: what the binaries and the pages are made of, as CycloneDX 1.5, from the two lock files.
//!
//! Reads Cargo.lock through `cargo metadata` and the pages' package-lock.json; asks no server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// npm's list of what the pages are built from.
const PAGES_LOCK: &str = "crates/gateway/web/package-lock.json";

/// Options of `sbom`.
#[derive(clap::Args)]
pub struct Arguments {
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "target/release/throughline.cdx.json")]
    output: PathBuf,
}

/// Writes the file.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata = serde_json::from_slice(&output.stdout).context("reading what cargo metadata prints")?;
    let lock = std::fs::read(PAGES_LOCK).with_context(|| format!("reading {PAGES_LOCK}"))?;
    let lock = serde_json::from_slice(&lock).with_context(|| format!("reading {PAGES_LOCK}"))?;
    let text = serde_json::to_string_pretty(&document(&metadata, &lock)?)?;
    if let Some(folder) = arguments.output.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    std::fs::write(&arguments.output, text + "\n")
        .with_context(|| format!("writing {}", arguments.output.display()))?;
    println!("{}", arguments.output.display());
    Ok(())
}

/// The document. It has no time and no serial number: the same lock files make the same file.
pub fn document(metadata: &Value, pages: &Value) -> anyhow::Result<Value> {
    // By reference, so that each stands once and in a fixed order.
    let mut components = BTreeMap::new();
    let mut version = "0";
    for package in metadata["packages"].as_array().context("cargo metadata: no packages")? {
        let (name, number) = (text(package, "name")?, text(package, "version")?);
        if package["source"].is_null() {
            if name == "throughline-cli" {
                version = number;
            }
            continue;
        }
        let reference = format!("pkg:cargo/{name}@{number}");
        let mut component = component(&reference, name, number);
        if let Some(licence) = package["license"].as_str() {
            // Old manifests divide alternatives by a slash.
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        components.insert(reference, component);
    }
    for (place, package) in pages["packages"].as_object().context("package-lock.json: no packages")? {
        let Some((_, name)) = place.rsplit_once("node_modules/") else { continue };
        let number = text(package, "version")?;
        let reference = format!("pkg:npm/{}@{number}", name.replace('@', "%40"));
        let mut component = component(&reference, name, number);
        // What only builds the pages is not in them.
        component["scope"] = if package["dev"] == true { "excluded" } else { "required" }.into();
        if let Some(licence) = package["license"].as_str() {
            component["licenses"] = json!([{ "expression": licence }]);
        }
        components.insert(reference, component);
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "throughline", "name": "throughline", "version": version,
        }},
        "components": components.into_values().collect::<Vec<_>>(),
    }))
}

fn component(reference: &str, name: &str, version: &str) -> Value {
    json!({ "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference })
}

fn text<'a>(package: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    package[key].as_str().with_context(|| format!("a package without {key}: {package}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn it_has_the_formats_required_fields_and_both_lock_files() {
        let metadata = json!({ "packages": [
            { "name": "throughline-cli", "version": "0.1.0", "source": null },
            { "name": "old", "version": "1.0.0", "source": "registry", "license": "MIT/Apache-2.0" },
        ]});
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGES_LOCK);
        let pages: Value = serde_json::from_slice(&std::fs::read(top).unwrap()).unwrap();
        let bom = document(&metadata, &pages).unwrap();
        assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        assert_eq!(bom["metadata"]["component"]["version"], "0.1.0");
        let components = bom["components"].as_array().unwrap();
        let old = components.iter().find(|component| component["name"] == "old").unwrap();
        assert_eq!(old["purl"], "pkg:cargo/old@1.0.0");
        assert_eq!(old["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let places = pages["packages"].as_object().unwrap().len();
        assert!(
            components.len() > places / 2 && components.len() <= places,
            "{} of {places}",
            components.len()
        );
        let mut references: Vec<_> = components.iter().map(|c| c["bom-ref"].as_str().unwrap()).collect();
        let all = references.len();
        references.dedup();
        assert_eq!(references.len(), all, "each stands once");
        for component in components {
            for key in ["type", "name", "version", "purl"] {
                assert!(component[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {component}");
            }
        }
    }
}
