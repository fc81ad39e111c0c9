//! Blocks of ```` ```console ```` in Markdown: `$ command` lines, each followed by its output.

use crate::support::Home;
use std::fs::File;
use std::path::Path;

/// Names of the built-in machines for `--machine`.
const MACHINES: [&str; 3] = ["amd-dl585-g7", "intel-r820", "amd-2p"];

/// A part of a page. The parts of a page in order make up the complete page.
pub enum Part<'a> {
    /// Text other than examples, including the fences of blocks.
    Text(&'a str),
    /// A console block.
    Console(Block),
}

/// The content of a console block.
pub struct Block {
    /// Line number after the opening fence, from 1.
    pub line: usize,
    /// Its commands, with text before the first one as an example without a command.
    pub examples: Vec<Example>,
}

/// A command and the output that the page shows.
pub struct Example {
    /// Number of lines in the block before it.
    pub offset: usize,
    /// The command as typed, without `$ `; empty for text before the first command.
    pub command: String,
    /// Lines of the command in the page; several if lines end with a backslash.
    typed: Vec<String>,
    /// Output without trailing blank lines.
    pub shown: Vec<String>,
    /// Number of blank lines after the output.
    blank: usize,
}

impl Example {
    /// Returns the words of the command; `None` if it needs a shell.
    pub fn words(&self) -> Option<Vec<String>> {
        if self.command.contains(['|', '>', '<', '&', ';', '$', '`', '"', '\'', '*', '#']) {
            return None;
        }
        Some(self.command.split_whitespace().map(str::to_owned).collect())
    }

    /// Returns the lines of the page with this output.
    pub fn with_output(&self, output: &[String]) -> String {
        let blank = vec![String::new(); self.blank];
        let lines = self.typed.iter().chain(output).chain(&blank);
        lines.flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

/// Splits a page into console blocks and everything else.
pub fn parts(page: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut at, mut number) = (0, 0, 1);
    let mut block: Option<(usize, usize)> = None;
    let mut other_fence = false;
    for line in page.split_inclusive('\n') {
        let text = line.trim_end();
        match block {
            Some((first, begin)) if text == "```" => {
                parts.push(Part::Console(Block { line: first, examples: examples(&page[begin..at]) }));
                (block, start) = (None, at);
            }
            Some(_) => {}
            None if text == "```console" && !other_fence => {
                parts.push(Part::Text(&page[start..at + line.len()]));
                block = Some((number + 1, at + line.len()));
            }
            None if text.starts_with("```") => other_fence = !other_fence,
            None => {}
        }
        at += line.len();
        number += 1;
    }
    assert!(block.is_none(), "a console block has no end");
    parts.push(Part::Text(&page[start..]));
    parts
}

fn examples(block: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut continues = false;
    for (offset, line) in block.lines().enumerate() {
        let command = line.strip_prefix("$ ");
        if command.is_some() || examples.is_empty() {
            let (typed, shown) = match command {
                Some(_) => (vec![line.to_owned()], Vec::new()),
                None => (Vec::new(), vec![line.to_owned()]),
            };
            let command = command.unwrap_or_default().trim_end_matches('\\').to_owned();
            examples.push(Example { offset, command, typed, shown, blank: 0 });
            continues = line.ends_with('\\');
            continue;
        }
        let Some(example) = examples.last_mut() else { continue };
        if continues {
            example.command.push_str(line.trim_end_matches('\\'));
            example.typed.push(line.to_owned());
            continues = line.ends_with('\\');
        } else {
            example.shown.push(line.to_owned());
        }
    }
    for example in &mut examples {
        while example.shown.last().is_some_and(String::is_empty) {
            example.shown.pop();
            example.blank += 1;
        }
    }
    examples
}

/// Returns whether the output is the same on every host: from a shipped machine or a problem in
/// docs.
pub fn is_reproducible(words: &[String]) -> bool {
    let value = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1).map(String::as_str)
    };
    let is_shipped = |name: &str| {
        MACHINES.contains(&name) || (name.starts_with("machines/") && crate::root().join(name).exists())
    };
    let is_problem = |file: &str| file.starts_with("docs/") && crate::root().join(file).exists();
    words.first().is_some_and(|program| program == "numaio")
        && (value("--machine").is_some_and(is_shipped) || value("--file").is_some_and(is_problem))
}

/// Returns the number of examples of a page that are run.
pub fn reproducible_examples(page: &str) -> usize {
    let blocks = parts(page).into_iter().filter_map(|part| match part {
        Part::Console(block) => Some(block.examples),
        Part::Text(_) => None,
    });
    blocks.flatten().filter(|example| example.words().is_some_and(|words| is_reproducible(&words))).count()
}

/// Returns the text on a terminal: standard output and error in order, and an exit status other
/// than 0.
pub fn run(home: &Home, args: &[String]) -> Vec<String> {
    let path = home.0.join("printed");
    let file = File::create(&path).expect("a file");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = home.command_by(&[], &args);
    let both = file.try_clone().expect("a second descriptor");
    let status = command.env_remove("COLUMNS").stdout(both).stderr(file).status().expect("numaio");
    let printed = printed(&path);
    let mut lines: Vec<String> = printed.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    match status.code() {
        Some(0) => {}
        Some(code) => lines.push(format!("(exit status {code})")),
        None => lines.push("(ended by a signal)".to_owned()),
    }
    lines
}

fn printed(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("the output");
    String::from_utf8(bytes).expect("output in UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_page_into_examples_and_reassembles_it() {
        let page =
            "text\n```sh\n$ numaio no\n```\n```console\n$ numaio a \\\n  --b\nout\n\n$ c | d\n```\nend\n";
        let mut reassembled = String::new();
        let mut commands = Vec::new();
        for part in parts(page) {
            match part {
                Part::Text(text) => reassembled.push_str(text),
                Part::Console(block) => {
                    assert_eq!(block.line, 6);
                    for example in block.examples {
                        reassembled.push_str(&example.with_output(&example.shown));
                        commands.push((example.offset, example.words()));
                    }
                }
            }
        }
        assert_eq!(reassembled, page);
        let words = ["numaio", "a", "--b"].map(str::to_owned).to_vec();
        assert_eq!(commands, [(0, Some(words)), (4, None)]);
    }

    #[test]
    fn only_shipped_machines_and_problems_are_reproducible() {
        let is_reproducible =
            |line: &str| is_reproducible(&line.split(' ').map(str::to_owned).collect::<Vec<String>>());
        for line in ["numaio model --machine amd-2p", "numaio plan --file docs/examples/two-socket-dtn.toml"]
        {
            assert!(is_reproducible(line), "{line}");
        }
        for line in ["numaio model", "numaio bench disk --file /data", "numaio model --machine my.tape", "ls"]
        {
            assert!(!is_reproducible(line), "{line}");
        }
    }
}
