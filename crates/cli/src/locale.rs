//! The character set of the user's locale.

use std::borrow::Cow;
use std::ffi::OsString;

/// Replacements of the characters that numaio prints beyond ASCII.
const ASCII: [(char, &str); 9] = [
    ('×', "x"),
    ('±', "+-"),
    ('–', "-"),
    ('—', "-"),
    ('…', "..."),
    ('µ', "u"),
    ('≤', "<="),
    ('≥', ">="),
    ('\u{fffd}', "?"),
];

/// Returns the text as the locale can show it: with ASCII in place of typographic characters if the
/// locale is not UTF-8. Other characters, such as those of names, stay.
pub fn encode(text: &str) -> Cow<'_, str> {
    match text.is_ascii() || is_utf8(|name| std::env::var_os(name)) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(to_ascii(text)),
    }
}

/// Whether the locale's character set is UTF-8. `LC_ALL` overrides `LC_CTYPE`, and that `LANG`; an
/// empty variable counts as unset (locale(7)).
fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let name = set.map(|value| value.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| name.contains("utf-8") || name.contains("utf8"))
}

fn to_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        match ASCII.iter().find(|(typographic, _)| *typographic == c) {
            Some((_, replacement)) => ascii.push_str(replacement),
            None => ascii.push(c),
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_variable_that_is_set_decides() {
        let utf8 = |variables: &[(&str, &str)]| {
            is_utf8(|name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()))
        };
        assert!(utf8(&[("LANG", "en_US.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!utf8(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(!utf8(&[]));
    }

    #[test]
    fn typographic_characters_become_ascii_and_names_stay() {
        assert_eq!(to_ascii("1.5 × ± 2 % … naïve"), "1.5 x +- 2 % ... naïve");
    }
}
