//! Help, output and errors of the command line.

mod commands;
mod other_users;
#[path = "../support/mod.rs"]
mod support;
mod wrong_input;
