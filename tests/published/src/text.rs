//! Words of published descriptions.

/// Returns the words of a text in lower case, with one space before, between and after them.
pub fn words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

/// Whether words contain one of the phrases, each a list of complete words.
pub fn has(words: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| words.contains(&format!(" {phrase} ")))
}

/// Whether a word begins with one of the prefixes.
pub fn has_prefix(words: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| words.contains(&format!(" {prefix}")))
}
