//! Links between pages.

use std::fs;
use std::path::Path;

/// Returns the lines of a page with their numbers, without code blocks.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_fence && !is_code).then_some((index + 1, line))
    })
}

/// Returns the link targets of a page.
pub fn targets(text: &str) -> Vec<String> {
    prose(text).flat_map(|(_, line)| links_on_line(line)).map(str::to_owned).collect()
}

fn links_on_line(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

/// Returns the fragment of a heading, as code hosts and mdBook derive it.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns messages about the broken links of a page.
pub fn broken(root: &Path, page: &Path) -> Vec<String> {
    let path = root.join(page);
    let text = fs::read_to_string(&path).expect("a page");
    let check = |link: &str| -> Option<String> {
        if link.contains("://") {
            return None;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let to = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
        if !to.exists() {
            return Some(format!("there is no {file}"));
        }
        if heading.is_empty() {
            return None;
        }
        let text = fs::read_to_string(&to).expect("a page");
        let has_it = prose(&text).any(|(_, line)| line.starts_with('#') && anchor(line) == heading);
        (!has_it).then(|| format!("{} has no heading #{heading}", to.display()))
    };
    let links = prose(&text).flat_map(|(number, line)| links_on_line(line).map(move |link| (number, link)));
    links
        .filter_map(|(number, link)| Some(format!("{}:{number}: {}", page.display(), check(link)?)))
        .collect()
}
