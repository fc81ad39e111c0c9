//! Partially shown output: a line `...` represents any lines.

const GAP: &str = "...";

/// Minimum similarity of a line to its reworded version.
const MIN_SIMILARITY: f64 = 0.5;

/// Maximum difference in lines for a short part that is adjusted to end at its last line.
const MAX_LINES_CHANGED: usize = 3;

/// Splits lines at `...`.
fn parts(shown: &[String]) -> Vec<&[String]> {
    shown.split(|line| line == GAP).collect()
}

/// Returns whether the shown lines match the output.
pub fn matches(shown: &[String], printed: &[String]) -> bool {
    let parts = parts(shown);
    let [first, between @ .., last] = &parts[..] else {
        return shown == printed;
    };
    if !printed.starts_with(first) || printed.len() < first.len() + last.len() || !printed.ends_with(last) {
        return false;
    }
    let mut rest = &printed[first.len()..printed.len() - last.len()];
    for part in between {
        match find(rest, part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

fn find(lines: &[String], part: &[String]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    lines.windows(part.len()).position(|window| window == part)
}

/// Describes the first shown line that is not in the output.
pub fn first_difference(shown: &[String], printed: &[String]) -> String {
    let missing = shown.iter().find(|line| *line != GAP && !printed.contains(line));
    match missing {
        Some(line) => format!("not printed: {line}"),
        None => "lines are missing, or in another order".to_owned(),
    }
}

/// Returns the new lines to show, and a message for each part that was not found.
///
/// Without a gap, all output is shown. With gaps, the first part starts at the first line, a later
/// part at its previous first line or the most similar line. A part ends at its previous last line
/// or keeps its number of lines; the last part extends to the end.
pub fn resynchronize(shown: &[String], printed: &[String]) -> (Vec<String>, Vec<String>) {
    let parts = parts(shown);
    if parts.len() == 1 {
        return (printed.to_vec(), Vec::new());
    }
    let (mut lines, mut lost) = (Vec::new(), Vec::new());
    let mut at = 0;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            lines.push(GAP.to_owned());
        }
        if part.is_empty() {
            continue;
        }
        let start = match index {
            0 => Some(0),
            _ => start_of(part, &printed[at..]).map(|found| at + found),
        };
        let Some(start) = start else {
            lost.push(format!(
                "edit by hand: no line is similar to: {}",
                part[blank_lines(part)..].join("\n")
            ));
            lines.extend(part.iter().cloned());
            continue;
        };
        at = match index + 1 == parts.len() {
            true => printed.len(),
            false => end_of(part, start, printed),
        };
        lines.extend_from_slice(&printed[start..at]);
    }
    (lines, lost)
}

/// Returns the number of blank lines at the start of a part that also has other lines.
fn blank_lines(part: &[String]) -> usize {
    part.iter().position(|line| !line.is_empty()).unwrap_or(0)
}

/// Returns where a part starts: at the line of its first nonblank line, minus its leading blank
/// lines.
fn start_of(part: &[String], printed: &[String]) -> Option<usize> {
    let blank = blank_lines(part);
    Some(position(printed, &part[blank])?.saturating_sub(blank))
}

/// Returns the index after the last line of a part that starts at `start`.
fn end_of(part: &[String], start: usize, printed: &[String]) -> usize {
    let same_length = (start + part.len()).min(printed.len());
    // A line farther away is another line with the same text.
    let limit = MAX_LINES_CHANGED.max(part.len() / 2);
    let is_end = |at: &usize| Some(&printed[*at]) == part.last() && (at + 1).abs_diff(same_length) <= limit;
    let ends = (start..printed.len()).filter(is_end);
    let nearest = ends.min_by_key(|at| (at + 1).abs_diff(same_length));
    nearest.filter(|at| !printed[*at].is_empty()).map_or(same_length, |at| at + 1)
}

/// Returns the position of a line, or of the most similar one.
fn position(lines: &[String], wanted: &str) -> Option<usize> {
    if let Some(same) = lines.iter().position(|line| line == wanted) {
        return Some(same);
    }
    let similarities = lines.iter().map(|line| similarity(line, wanted)).enumerate();
    // The first one of equally similar lines.
    let best = similarities.rev().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (best.1 >= MIN_SIMILARITY).then_some(best.0)
}

/// Returns the share of words that two lines have in common, from 0 to 1 (Dice's coefficient).
fn similarity(a: &str, b: &str) -> f64 {
    let words = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_lowercase).collect() };
    let (a, mut b) = (words(a), words(b));
    let all = a.len() + b.len();
    let common = a
        .iter()
        .filter(|word| b.iter().position(|other| other == *word).map(|at| b.swap_remove(at)).is_some());
    let common = common.count();
    if all == 0 {
        0.0
    } else {
        2.0 * common as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(|line| line.replace('_', " ")).collect()
    }

    #[test]
    fn gap_matches_any_lines() {
        for shown in ["a b c d", "a ... d", "... c d", "a b ...", "a ... b c ... d", "... b ..."] {
            assert!(matches(&lines(shown), &lines("a b c d")), "{shown}");
        }
        for shown in ["a b c", "b ... d", "a ... c", "a c ... d", "a ... x ... d", "a b c d ... d"] {
            assert!(!matches(&lines(shown), &lines("a b c d")), "{shown}");
        }
    }

    #[test]
    fn parts_are_found_again_in_changed_output() {
        let check = |shown: &str, printed: &str, wanted: &str| {
            let (found, lost) = resynchronize(&lines(shown), &lines(printed));
            assert_eq!(found, lines(wanted));
            assert!(matches(&found, &lines(printed)) && lost.is_empty(), "{lost:?}");
        };
        check("a b", "x y z", "x y z");
        // The first part keeps its number of lines, or grows to its last line.
        check("a b ... d", "x b c d", "x b ... d");
        check("a b ... d", "x y b c d", "x y b ... d");
        // A later one starts at its first line, or one with most of its words.
        check("a ... d e ...", "x c d f g", "x ... d f ...");
        check("a ... the_old_line e", "x c the_new_line f g", "x ... the_new_line f g");
        // Blank lines at the start are not compared.
        check("a ...  d ...", "x  c  d e", "x ...  d ...");
        // A distant last line does not end a part.
        check("a ... d e ...", "x d f g h i j k e l", "x ... d f ...");
    }

    #[test]
    fn part_without_a_similar_line_is_reported() {
        let (found, lost) = resynchronize(&lines("a ... d ... z"), &lines("x y z"));
        assert_eq!((found, lost.len()), (lines("x ... d ... z"), 1));
    }
}
