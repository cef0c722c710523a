//! The Grafana dashboards of Throughline, made from small definitions.
//!
//! One module for each dashboard (`overview`, `fabric`, ...) has its panels and their queries; [`site`] is what
//! a site decides for all of them; the rest is shared: `panel` and `dashboard` know Grafana's model, `sql` the pieces of
//! queries that are needed more than once, `link` the ways from one dashboard to the next and to our own pages.
//!
//! It only makes text. It runs no query: `tests/dashboards` does.

mod compare;
mod contributors;
mod dashboard;
mod fabric;
mod health;
mod job;
mod job_links;
mod jobs;
mod link;
mod node;
mod node_graph;
mod one_link;
mod one_switch;
mod overview;
mod panel;
mod ranges;
mod site;
mod sql;

pub use site::{Site, SiteError};

/// Names of the files and their texts.
#[must_use]
pub fn files(site: &Site) -> Vec<(String, String)> {
    [
        overview::dashboard(site),
        fabric::dashboard(site),
        one_switch::dashboard(site),
        one_link::dashboard(site),
        node::dashboard(site),
        jobs::dashboard(site),
        job::dashboard(site),
        compare::dashboard(site),
        health::dashboard(site),
    ]
    .into_iter()
    .map(dashboard::Dashboard::into_file)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_what_the_definitions_and_the_default_site_give() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut committed: Vec<(String, String)> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read_to_string(path).unwrap())
            })
            .collect();
        committed.sort();
        let mut made = files(&Site::default());
        made.sort();
        let names =
            |files: &[(String, String)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&committed), names(&made), "run cargo xtask dashboards");
        for ((name, committed), (_, made)) in committed.iter().zip(&made) {
            assert!(committed == made, "{name} is not what the definitions give: run cargo xtask dashboards");
        }
    }

    #[test]
    fn a_sites_colours_and_pages_are_in_the_files_and_in_them_only_once_set() {
        let text = "pages_url = 'https://net.example.org/throughline'\nutilisation = [[0.0, '#010203'], [0.6, '#040506']]\n";
        let site = Site::parse(text).unwrap();
        let all: String = files(&site).into_iter().map(|(_, text)| text).collect();
        for wanted in ["#040506", "https://net.example.org/throughline/jobs/", "0.6"] {
            assert!(all.contains(wanted), "{wanted}");
        }
        for of_default in ["127.0.0.1:9460", "#37872d\",\n                \"value\": 0.25"] {
            assert!(!all.contains(of_default), "{of_default}");
        }
        let without: String =
            files(&Site::parse("pages_url = ''").unwrap()).into_iter().map(|(_, text)| text).collect();
        assert!(!without.contains("http://") && !without.contains("https://"));
    }
}
