//! Escapes text for TeX and estimates its printed width.

use crate::style::clean;

/// Maximum text width in a table, in points for a 10-point font: more would not fit on a page even
/// if wrapped. Guards against hostile files.
const WIDEST: f64 = 5000.0;
/// Characters of a word before the first extra line break opportunity.
const LONGEST_WORD: usize = 12;
/// Characters between further line break opportunities.
const PIECE: usize = 3;

/// Escapes a text, and truncates it if very long. Characters outside TeX's own fonts become
/// question marks.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut word = 0;
    let mut last = ' ';
    let mut width = 0.0;
    for c in clean(text).chars() {
        width += width_of(c);
        if width > WIDEST {
            out.push_str("\\ldots{}");
            break;
        }
        match c {
            ' ' => word = 0,
            _ if word >= LONGEST_WORD || is_break(last) && word > 0 && !is_break(c) => {
                out.push_str("\\allowbreak{}");
                word = if is_break(last) { 1 } else { LONGEST_WORD - PIECE + 1 };
            }
            _ => word += 1,
        }
        push(&mut out, c, last);
        last = c;
    }
    out
}

/// Returns whether a line may break after the character. TeX itself breaks lines after hyphens.
fn is_break(c: char) -> bool {
    matches!(c, ',' | '/' | ';' | ':')
}

fn push(out: &mut String, c: char, last: char) {
    match c {
        '&' | '%' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
        // A text-mode dollar sign would require a font that may have to be generated first.
        '$' => out.push_str("$\\mathdollar$"),
        '\\' => out.push_str("\\textbackslash{}"),
        '~' => out.push_str("\\textasciitilde{}"),
        '^' => out.push_str("\\textasciicircum{}"),
        '<' => out.push_str("\\textless{}"),
        '>' => out.push_str("\\textgreater{}"),
        '|' => out.push_str("\\textbar{}"),
        '"' => out.push_str("{''}"),
        // A pair would become a ligature.
        '\'' | '`' => out.extend(['{', c, '}']),
        '-' if last == '-' => out.push_str("{-}"),
        // At the start of a cell these would be parsed as arguments of the table's commands.
        '[' | ']' | '*' => out.extend(['{', c, '}']),
        '–' => out.push_str("--"),
        '…' => out.push_str("\\ldots{}"),
        '×' => out.push_str("$\\times$"),
        '±' => out.push_str("$\\pm$"),
        'µ' | 'μ' => out.push_str("$\\mu$"),
        '°' => out.push_str("$^\\circ$"),
        '·' => out.push_str("$\\cdot$"),
        '\u{a0}' => out.push(' '),
        c if c.is_ascii() || has_accent(c) => out.push(c),
        _ => out.push('?'),
    }
}

/// Returns whether a Latin-1 letter is composed with an accent or part of TeX's oldest fonts.
fn has_accent(c: char) -> bool {
    matches!(c, 'À'..='ÿ') && !matches!(c, 'Ð' | 'ð' | 'Þ' | 'þ' | '×' | '÷')
}

/// Returns the estimated width of a text in points, for a 10-point font, rounded up.
pub fn width(text: &str) -> f64 {
    clean(text).chars().map(width_of).sum::<f64>().min(WIDEST)
}

/// Returns the width of a character of Computer Modern, rounded up.
fn width_of(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '`' | '!' | '|' | '[' | ']' => 2.9,
        ' ' | '-' | '(' | ')' | 'f' | 't' | 'r' | 's' => 4.0,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '×' | '±' | '<' | '>' | '+' | '=' | '…' => 10.4,
        c if c.is_uppercase() || matches!(c, '#' | '&' | '~') => 7.9,
        '0'..='9' | '–' => 5.1,
        _ => 5.7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tex_commands_are_escaped() {
        let hostile = "\\input{x} $y$ #1 a_b^c~ 100 % & \"''\" ``-- --- [2ex] *\n\u{1b}\u{202e}網é";
        let wanted = "\\textbackslash{}input\\{x\\} $\\mathdollar$y$\\mathdollar$ \\#1 a\\_b\\textasciicircum{}c\\textasciitilde{} 100 \\% \\& \
                      {''}{'}{'}{''} {`}{`}-{-} -{-}{-} {[}2ex{]} {*} ???é";
        assert_eq!(escaped(hostile), wanted);
    }

    #[test]
    fn long_words_and_lists_can_wrap() {
        assert_eq!(escaped("0,8,16"), "0,\\allowbreak{}8,\\allowbreak{}16");
        assert_eq!(escaped(&"x".repeat(16)), "xxxxxxxxxxxx\\allowbreak{}xxx\\allowbreak{}x");
        assert_eq!(escaped("node 3: eth0, eth1"), "node 3: eth0, eth1");
        assert!(escaped(&"x ".repeat(9000)).len() < 1100);
    }
}
