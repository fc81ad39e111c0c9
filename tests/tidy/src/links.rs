//! Links between the Markdown pages of the repository.

use crate::tree::{assert_none, pages, prose, relative, root};
use std::fs;
use std::path::Path;

/// Returns the fragment that links to a heading, as code hosts and viewers derive it.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns why a link of a page is broken; none for a valid link and for a link to another site.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let to = if file.is_empty() { page.to_owned() } else { page.with_file_name(file) };
    if !to.exists() {
        return Some(format!("'{file}' does not exist"));
    }
    let has_heading = || {
        let text = fs::read_to_string(&to).expect("a page");
        let found = prose(&text).any(|(_, line)| line.starts_with('#') && anchor(line) == heading);
        found
    };
    (!heading.is_empty() && !has_heading()).then(|| format!("'{}' has no heading #{heading}", relative(&to)))
}

#[test]
fn links_of_pages_resolve() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        for (number, line) in prose(&text) {
            let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            let bad = links.filter_map(|(link, _)| broken(&page, link));
            found.extend(bad.map(|why| format!("{}:{number}: {why}", relative(&page))));
        }
    }
    assert_none(found);
}

#[test]
fn broken_links_are_found() {
    let page = root().join("README.md");
    let heading = pages().into_iter().find(|(path, _)| *path == page).expect("README.md").1;
    let heading = prose(&heading).find(|(_, line)| line.starts_with("## ")).expect("a heading").1.to_owned();
    assert_eq!(broken(&page, &format!("#{}", anchor(&heading))), None);
    assert_eq!(broken(&page, "lab/README.md"), None);
    assert!(broken(&page, "docs/missing.md").is_some() && broken(&page, "#missing").is_some());
}
