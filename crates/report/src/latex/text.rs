//! Text as TeX prints it, and how wide it is.

use crate::style::clean;

/// Width of a text in a table, at most, in points where letters are 10 points high; more would not fit on a page
/// if it were broken into lines. A limit against hostile files.
const WIDEST: f64 = 5000.0;
/// Characters in a row without a place to break a line; after these there is one,
const LONGEST_WORD: usize = 12;
/// and again after every few.
const PIECE: usize = 3;

/// A text whatever stands in it, cut if it is very long. Characters that TeX's own fonts lack become question
/// marks.
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

/// After these a line may end. TeX ends lines after a hyphen by itself.
fn is_break(c: char) -> bool {
    matches!(c, ',' | '/' | ';' | ':')
}

fn push(out: &mut String, c: char, last: char) {
    match c {
        '&' | '%' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
        // As text it would be of a font that has to be made first.
        '$' => out.push_str("$\\mathdollar$"),
        '\\' => out.push_str("\\textbackslash{}"),
        '~' => out.push_str("\\textasciitilde{}"),
        '^' => out.push_str("\\textasciicircum{}"),
        '<' => out.push_str("\\textless{}"),
        '>' => out.push_str("\\textgreater{}"),
        '|' => out.push_str("\\textbar{}"),
        '"' => out.push_str("{''}"),
        // Two of them would become another mark.
        '\'' | '`' => out.extend(['{', c, '}']),
        '-' if last == '-' => out.push_str("{-}"),
        // At the beginning of a cell they would command the table.
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

/// Letters of Latin-1 that are made of a letter and an accent, or that TeX's oldest fonts have.
fn has_accent(c: char) -> bool {
    matches!(c, 'À'..='ÿ') && !matches!(c, 'Ð' | 'ð' | 'Þ' | 'þ' | '×' | '÷')
}

/// Width of a text in points where letters are 10 points high, a little more than it is.
pub fn width(text: &str) -> f64 {
    clean(text).chars().map(width_of).sum::<f64>().min(WIDEST)
}

/// Of the characters of Computer Modern, rounded up.
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
    fn nothing_commands_tex() {
        let hostile = "\\input{x} $y$ #1 a_b^c~ 100 % & \"''\" ``-- --- [2ex] *\n\u{1b}\u{202e}網é";
        let wanted = "\\textbackslash{}input\\{x\\} $\\mathdollar$y$\\mathdollar$ \\#1 a\\_b\\textasciicircum{}c\\textasciitilde{} 100 \\% \\& \
                      {''}{'}{'}{''} {`}{`}-{-} -{-}{-} {[}2ex{]} {*} ???é";
        assert_eq!(escaped(hostile), wanted);
    }

    #[test]
    fn long_words_and_lists_can_be_broken() {
        assert_eq!(escaped("0,8,16"), "0,\\allowbreak{}8,\\allowbreak{}16");
        assert_eq!(escaped(&"x".repeat(16)), "xxxxxxxxxxxx\\allowbreak{}xxx\\allowbreak{}x");
        assert_eq!(escaped("node 3: eth0, eth1"), "node 3: eth0, eth1");
        assert!(escaped(&"x ".repeat(9000)).len() < 1100);
    }
}
