//! Markdown as a viewer reads it, by the rules of GitHub.

use crate::tables::Table;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What a viewer shows.
#[derive(Debug, Default)]
pub struct Seen {
    pub tables: Vec<Table>,
    /// All text.
    pub text: String,
}

/// Reads a report. It has headings, paragraphs and tables, and nothing else: no HTML, link, picture, list or code.
pub fn read(markdown: &str) -> Seen {
    let mut seen = Seen::default();
    let mut heading = String::new();
    let mut in_cell = false;
    for event in Parser::new_ext(
        markdown,
        Options::ENABLE_TABLES | Options::ENABLE_MATH | Options::ENABLE_STRIKETHROUGH,
    ) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading.clear(),
            Event::End(TagEnd::Heading(_)) => seen.text.push_str(&heading),
            Event::Start(Tag::Table(_)) => {
                seen.tables.push(Table { title: heading.clone(), rows: Vec::new() });
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => rows(&mut seen).push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                row(&mut seen).push(String::new());
                in_cell = true;
            }
            Event::End(TagEnd::TableCell) => in_cell = false,
            Event::Text(text) => {
                heading.push_str(&text);
                seen.text.push_str(&text);
                if in_cell {
                    row(&mut seen).last_mut().expect("a cell").push_str(&text);
                }
            }
            Event::Start(Tag::Paragraph | Tag::Strong) | Event::End(_) => {}
            other => panic!("{other:?} in\n{markdown}"),
        }
    }
    for head in seen.tables.iter_mut().filter_map(|table| table.rows.first_mut()).flatten() {
        if let Some(node) = head.strip_prefix("Memory node ") {
            *head = node.to_owned();
        }
    }
    seen
}

fn rows(seen: &mut Seen) -> &mut Vec<Vec<String>> {
    &mut seen.tables.last_mut().expect("a table").rows
}

fn row(seen: &mut Seen) -> &mut Vec<String> {
    rows(seen).last_mut().expect("a row")
}
