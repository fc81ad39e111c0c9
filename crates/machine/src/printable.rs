//! Text that a terminal displays as it is, on one line.

/// Returns whether a terminal or a log may interpret a character instead of displaying it: control
/// characters, line and paragraph separators, and bidirectional formatting characters (Unicode
/// Standard Annex 9, section 2).
pub fn is_unprintable(char: char) -> bool {
    let turns = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    char.is_control() || turns || matches!(char, '\u{2028}' | '\u{2029}')
}

/// Replaces unprintable characters, such as those of names that other users have chosen.
pub fn printable(text: &str) -> String {
    text.replace(is_unprintable, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_neither_control_a_terminal_nor_add_lines() {
        let hostile = "vm\u{1b}[2J\r\nnumaio: done\u{7}\u{9b}\u{202e}x\u{2066}\u{2028}\u{200f}\t";
        let shown = printable(hostile);
        assert!(
            shown.starts_with("vm\u{fffd}[2J\u{fffd}\u{fffd}numaio: done") && !shown.contains(is_unprintable)
        );
        assert_eq!(printable("eth0 \u{e4} \u{1f600}"), "eth0 \u{e4} \u{1f600}");
    }
}
