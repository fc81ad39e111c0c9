//! `numaio config`: the defaults of options, and where each comes from.

use crate::config::{self, Config, FileUse, ValueOrigin, SETTINGS};
use crate::failure::Failure;
use crate::output;
use clap::{Args, Subcommand};
use numaio_transfer::line::sanitize;
use std::process::ExitCode;

/// Show the defaults of options, and the file or variable that set them
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// Subcommands of `numaio config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show each setting with its value and its source
    Show,
}

const AFTER_HELP: &str = "\
/etc/numaio/config.toml applies to all users. ~/.config/numaio/config.toml, or numaio/config.toml in
XDG_CONFIG_HOME if that is set, overrides it. Environment variables override both, and options
override them. A file that other users can write is not read.

Settings:
  unit = \"GB/s\"          unit of bandwidth: GB/s, GiB/s or Gbit/s (NUMAIO_UNIT)
  color = \"auto\"         when to use color: auto, always or never (NUMAIO_COLOR)
  time-limit = 300       time limit of measurements in seconds (NUMAIO_TIME_LIMIT)
  hash = \"xxh3\"          hash of copied files (NUMAIO_HASH)
  streams = 4            connections of numaio copy (NUMAIO_STREAMS)
  ssh = \"ssh -p 2222\"    program in place of ssh (NUMAIO_SSH)
  broker = \"/run/numaio/broker\"
                         socket of this host's daemon; empty to use none (NUMAIO_BROKER)";

/// Runs `numaio config`.
pub fn run(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    match args.command {
        ConfigCommand::Show => output::print(&text(config::current()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(config: &Config) -> String {
    let rows: Vec<[String; 3]> = SETTINGS
        .iter()
        .zip(&config.values)
        .map(|(setting, (value, origin))| {
            let source = match origin {
                ValueOrigin::Default => "default".to_owned(),
                ValueOrigin::File(path) => path.display().to_string(),
                ValueOrigin::Variable => setting.variable.to_owned(),
            };
            [setting.key.to_owned(), value.clone(), source].map(|text| sanitize(&text))
        })
        .collect();
    let width = |column: usize, title: &str| {
        rows.iter().map(|row| row[column].chars().count()).chain([title.len()]).max().unwrap_or(0)
    };
    let (keys, values) = (width(0, "SETTING"), width(1, "VALUE"));
    let line = |row: [&str; 3]| format!("{:keys$}  {:values$}  {}\n", row[0], row[1], row[2]);
    let mut text = line(["SETTING", "VALUE", "SOURCE"]);
    text.extend(rows.iter().map(|row| line([&row[0], &row[1], &row[2]])));
    text.push_str("\nFiles\n");
    for (path, found) in &config.files {
        let found = match found {
            FileUse::Read => "read",
            FileUse::Absent => "does not exist",
            FileUse::Untrusted => "not read, since other users can write or exchange it",
        };
        text.push_str(&format!("  {}: {found}\n", sanitize(&path.display().to_string())));
    }
    text
}
