//! Length of sentences and paragraphs.

use crate::links;

const MAX_WORDS_OF_SENTENCE: usize = 30;
const MAX_WORDS_OF_PARAGRAPH: usize = 80;

/// Returns the paragraphs and sentences of a page that are too long. An item of a list is a
/// paragraph; tables are not checked.
pub fn too_long(page: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut paragraph = String::new();
    let mut first = 0;
    let mut expected = 1;
    for (number, line) in links::prose(text).chain([(usize::MAX, "")]) {
        let line = line.trim();
        let starts_item =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        let is_separator = line.is_empty() || line.starts_with('#') || line.starts_with('|');
        if is_separator || starts_item || number != expected {
            check(page, first, &paragraph, &mut found);
            paragraph.clear();
        }
        if !is_separator {
            if paragraph.is_empty() {
                first = number;
            }
            paragraph.push_str(line);
            paragraph.push(' ');
        }
        expected = number.saturating_add(1);
    }
    found
}

fn check(page: &str, line: usize, paragraph: &str, found: &mut Vec<String>) {
    let words =
        |text: &str| text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    if words(paragraph) > MAX_WORDS_OF_PARAGRAPH {
        found.push(format!("{page}:{line}: a paragraph of {} words", words(paragraph)));
    }
    let sentences = paragraph.split(". ").flat_map(|part| part.split([';', ':', '?']));
    for sentence in sentences.filter(|sentence| words(sentence) > MAX_WORDS_OF_SENTENCE) {
        found.push(format!("{page}:{line}: a sentence of {} words: {}", words(sentence), sentence.trim()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentence_and_paragraph_are_reported_with_their_line() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let found = |text: &str| too_long("page", text).len();
        assert_eq!(found(&format!("# {}\n\n{}. {}.\n", words(40), words(30), words(30))), 0);
        assert_eq!(found(&format!("{}\n{}.\n", words(16), words(15))), 1);
        assert_eq!(found(&format!("{0}. {0}. {0}.\n", words(27))), 1);
        assert_eq!(found(&format!("- {0}.\n- {0}.\n\n| {0} {0} |\n\n```\n{0} {0}\n```\n", words(28))), 0);
        let long = too_long("page", &format!("Short.\n\n{}.\n", words(31)));
        assert!(long.len() == 1 && long[0].starts_with("page:3: a sentence of 31 words"), "{long:?}");
    }
}
