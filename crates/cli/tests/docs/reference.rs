//! The command reference, generated from `--help`.

use crate::support::Home;
use std::fmt::Write;

const HEAD: &str = "\
# Commands

Each section is the output of `numaio COMMAND --help`, without the [options of every
command](#options-of-every-command). `make man` writes the same as man pages, and
[exit status](exit-status.md) lists what each command returns.

This page is generated; do not edit it.
";

/// Heading of the options of every command in help.
const COMMON: &str = "Common:";

/// Returns the generated page.
pub fn page(home: &Home) -> String {
    let overview = help(home, &[]);
    let mut page = HEAD.to_owned();
    section(&mut page, "numaio", &without_common(&overview));
    section(&mut page, "Options of every command", &only_common(&overview));
    for name in subcommands(&overview) {
        let text = help(home, &[&name]);
        section(&mut page, &format!("numaio {name}"), &without_common(&text));
        for below in subcommands(&text) {
            let text = help(home, &[&name, &below]);
            section(&mut page, &format!("numaio {name} {below}"), &without_common(&text));
        }
    }
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = write!(page, "\n## {title}\n\n```text\n{}\n```\n", text.trim_end());
}

fn help(home: &Home, command: &[&str]) -> String {
    let mut command = home.command_by(&[], &[command, &["--help"]].concat());
    let output = command.env_remove("COLUMNS").env_remove("NUMAIO_TOKEN").output().expect("numaio");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("help in UTF-8");
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Returns the names below `Commands:`.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    // Wrapped descriptions are indented further.
    let named = lines.filter(|line| !line.starts_with("   "));
    let names = named.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn is_heading(line: &str) -> bool {
    !line.starts_with(' ') && line.ends_with(':')
}

/// Removes the options of every command, which end at the next heading or at text.
fn without_common(help: &str) -> String {
    let mut is_common = false;
    let kept = help.lines().filter(|line| {
        if *line == COMMON {
            is_common = true;
        } else if is_common && !line.is_empty() && !line.starts_with(' ') {
            is_common = false;
        }
        !is_common
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

fn only_common(help: &str) -> String {
    let lines = help.lines().skip_while(|line| *line != COMMON).skip(1);
    let lines = lines.take_while(|line| line.is_empty() || (line.starts_with(' ') && !is_heading(line)));
    lines.flat_map(|line| [line, "\n"]).collect()
}
