//! `docs/decisions`: each page says whether it still holds, and the list says the same.

use crate::top;

/// The files that a text links to.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The status of a page, as the list of pages has it, from the line below its title.
fn status(file: &str, page: &str) -> &'static str {
    let line = page.lines().nth(2).and_then(|line| line.strip_prefix("Status: "));
    let line = line.unwrap_or_else(|| panic!("{file}: no line `Status: ` below the title"));
    if line == "accepted" {
        return "accepted";
    }
    let by = links(line);
    assert!(!by.is_empty(), "{file}: the status has no link to the page that replaced it");
    for page in by {
        assert!(page != file && top().join("docs/decisions").join(page).is_file(), "{file}: no page {page}");
    }
    if line.starts_with("superseded by [") {
        return "superseded";
    }
    let is_in_part = line.starts_with("superseded in part by [") && line.contains("): ");
    assert!(is_in_part, "{file}: accepted, superseded by a page, or in part by a page and what still holds");
    "superseded in part"
}

#[test]
fn each_decision_has_a_status_and_is_listed_with_it() {
    let folder = top().join("docs/decisions");
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut rows: Vec<&str> = list.lines().filter(|line| line.starts_with("| 20")).collect();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if file == "README.md" {
            continue;
        }
        let page = std::fs::read_to_string(folder.join(&file)).unwrap();
        let title = page.lines().next().unwrap().strip_prefix("# ").unwrap();
        let row = format!("| {} | [{title}]({file}) | {} |", &file[..10], status(&file, &page));
        let at = rows.iter().position(|listed| *listed == row);
        rows.remove(at.unwrap_or_else(|| panic!("docs/decisions/README.md lacks: {row}")));
    }
    assert!(rows.is_empty(), "rows without a page: {rows:#?}");
}
