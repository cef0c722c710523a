//! The dashboards and rules of a repository as text. Reads files and nothing else.

use crate::Error;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Name and text of each file; tests damage copies of it.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// `dashboards/*.json`.
    pub dashboards: Vec<(String, String)>,
    /// `deploy/grafana/provisioning/alerting/*.yml`.
    pub grafana_rules: Vec<(String, String)>,
    /// `deploy/grafana/provisioning/datasources/*.yml`.
    pub data_sources: Vec<(String, String)>,
    /// `deploy/grafana/provisioning/dashboards/*.yml`.
    pub providers: Vec<(String, String)>,
    /// `deploy/prometheus/rules/*.yml`.
    pub prometheus_rules: Vec<(String, String)>,
}

impl Files {
    /// Reads the files of the repository at `root`.
    ///
    /// # Errors
    /// [`Error::Read`] when a folder or file can't be read or a folder has no such file.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let provisioning = root.join("deploy/grafana/provisioning");
        Ok(Self {
            dashboards: folder(&root.join("dashboards"), "json")?,
            grafana_rules: folder(&provisioning.join("alerting"), "yml")?,
            data_sources: folder(&provisioning.join("datasources"), "yml")?,
            providers: folder(&provisioning.join("dashboards"), "yml")?,
            prometheus_rules: folder(&root.join("deploy/prometheus/rules"), "yml")?,
        })
    }

    /// Identifiers of the provisioned data sources.
    ///
    /// # Errors
    /// [`Error::Form`].
    pub fn data_source_uids(&self) -> Result<Vec<String>, Error> {
        let files = parse::<DataSources>(&self.data_sources)?;
        Ok(files.into_iter().flat_map(|file| file.datasources).map(|source| source.uid).collect())
    }

    /// Identifiers of the folders that dashboards are put into; Grafana has both in one list.
    ///
    /// # Errors
    /// [`Error::Form`].
    pub fn folder_uids(&self) -> Result<Vec<String>, Error> {
        let files = parse::<Providers>(&self.providers)?;
        Ok(files.into_iter().flat_map(|file| file.providers).map(|provider| provider.folder_uid).collect())
    }
}

fn parse<T: DeserializeOwned>(files: &[(String, String)]) -> Result<Vec<T>, Error> {
    let parse = |(name, text): &(String, String)| {
        serde_yaml_ng::from_str(text)
            .map_err(|error| Error::Form { path: name.clone(), cause: error.to_string() })
    };
    files.iter().map(parse).collect()
}

#[derive(Deserialize)]
struct Providers {
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    folder_uid: String,
}

#[derive(Deserialize)]
struct DataSources {
    datasources: Vec<DataSource>,
}

#[derive(Deserialize)]
struct DataSource {
    uid: String,
}

/// All files of a folder with this extension, by name; none is an error, because then nothing would be checked.
fn folder(path: &Path, extension: &str) -> Result<Vec<(String, String)>, Error> {
    let fail = |cause| Error::Read { path: path.display().to_string(), cause };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let file = entry.map_err(fail)?.path();
        if file.extension().is_some_and(|found| found == extension) {
            let text = std::fs::read_to_string(&file).map_err(fail)?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, text));
        }
    }
    if files.is_empty() {
        let cause = std::io::Error::new(std::io::ErrorKind::NotFound, format!("no .{extension} file"));
        return Err(fail(cause));
    }
    files.sort();
    Ok(files)
}
