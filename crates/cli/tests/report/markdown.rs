//! Parses Markdown by the rules of GitHub.

use crate::tables::Table;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The visible content of a Markdown document.
#[derive(Debug, Default)]
pub struct MarkdownContent {
    pub tables: Vec<Table>,
    /// All text.
    pub text: String,
}

/// Parses a report. It may only contain headings, paragraphs and tables: no HTML, links, images,
/// lists or code.
pub fn read(markdown: &str) -> MarkdownContent {
    let mut content = MarkdownContent::default();
    let mut heading = String::new();
    let mut in_cell = false;
    for event in Parser::new_ext(
        markdown,
        Options::ENABLE_TABLES | Options::ENABLE_MATH | Options::ENABLE_STRIKETHROUGH,
    ) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading.clear(),
            Event::End(TagEnd::Heading(_)) => content.text.push_str(&heading),
            Event::Start(Tag::Table(_)) => {
                content.tables.push(Table { title: heading.clone(), rows: Vec::new() });
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => rows(&mut content).push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                row(&mut content).push(String::new());
                in_cell = true;
            }
            Event::End(TagEnd::TableCell) => in_cell = false,
            Event::Text(text) => {
                heading.push_str(&text);
                content.text.push_str(&text);
                if in_cell {
                    row(&mut content).last_mut().expect("a cell").push_str(&text);
                }
            }
            Event::Start(Tag::Paragraph | Tag::Strong) | Event::End(_) => {}
            other => panic!("{other:?} in\n{markdown}"),
        }
    }
    for head in content.tables.iter_mut().filter_map(|table| table.rows.first_mut()).flatten() {
        if let Some(node) = head.strip_prefix("Memory node ") {
            *head = node.to_owned();
        }
    }
    content
}

fn rows(content: &mut MarkdownContent) -> &mut Vec<Vec<String>> {
    &mut content.tables.last_mut().expect("a table").rows
}

fn row(content: &mut MarkdownContent) -> &mut Vec<String> {
    rows(content).last_mut().expect("a row")
}
