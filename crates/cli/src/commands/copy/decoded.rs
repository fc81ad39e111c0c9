//! What is heard of another side before a transfer, decoded as it is there, and where it leads: see [`crate::decoders`].

use super::address::Address;
use super::bootstrap::There;
use super::channel::{addresses, Choice};
use super::daemon;
use super::event::{self, Event};
use super::far::From;
use super::first::{self, First};
use super::hello::{self, Greeting};
use super::how::Placement;
use super::peer::{called, hear, Answer, Ask, Terms};
use crate::commands::json_line;
use crate::failure::Failure;
use crate::output::harmless;
use numaio_machine::units::BandwidthUnit;
use numaio_mover::source::Source;
use std::io::{BufReader, Cursor};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

fn stream(said: &[u8]) -> From {
    BufReader::new(Box::new(Cursor::new(said.to_vec())))
}

/// What a session of a daemon makes of a call and of what follows it.
#[derive(Debug)]
pub struct Called {
    /// The call as JSON, on the terms of the daemon.
    pub call: String,
    /// Where the directories are in which it begins, as the kernel tells; or why it does not begin.
    pub directories: Result<Vec<PathBuf>, String>,
    /// Which way was chosen for data, as JSON; none if that is not what follows.
    pub choice: Option<String>,
}

/// A call to a daemon for one of its users, and perhaps a choice. Opens the directories that it is about, and makes the one
/// that a sink makes: so the base of the terms is below a directory.
///
/// # Errors
/// What the other side is told.
pub fn call(said: &[u8], terms: &Terms) -> Result<Called, String> {
    let mut from = stream(said);
    let mut call = called(&mut from, Some(terms)).map_err(|failure| failure.message)?;
    let text = json_line(&call).map_err(|error| error.to_string())?;
    let choice = hear::<Choice>(&mut from).ok().and_then(|choice| json_line(&choice).ok());
    let (Ask::Source(order) | Ask::Sink(order, _)) = &mut call.ask;
    // Where threads run is found out from files of the kernel alone, and takes long.
    order.placement = Placement::None;
    let site = match &call.ask {
        Ask::Source(order) => order.source().and_then(|(site, options)| {
            Source::<Vec<u8>>::new(options).map_err(Failure::new)?;
            Ok(site)
        }),
        Ask::Sink(order, one_file) => order.sink(*one_file).map(|(site, _)| site),
    };
    let directories = site.and_then(|site| site.roots.paths().map_err(Failure::new));
    Ok(Called { call: text, directories: directories.map_err(|failure| failure.message), choice })
}

/// How many data connections a daemon allows, by its greeting.
///
/// # Errors
/// Why it does not serve us, for people.
pub fn greeting(said: &[u8]) -> Result<u16, String> {
    let said: First<Greeting> = first::hear(&mut stream(said), hello::LONGEST);
    daemon::welcome("host:1", Some(said)).and_then(|welcome| welcome).map_err(|failure| failure.message)
}

/// What a far side answers to a call.
#[derive(Debug)]
pub struct Answered {
    /// The answer as JSON.
    pub answer: String,
    /// Where data connections are tried if ssh led there. Those to a daemon are made before it answers.
    pub doors: Vec<SocketAddr>,
}

/// The answer of a far side at some address.
///
/// # Errors
/// What people are told of another answer.
pub fn answer(said: &[u8], at: IpAddr) -> Result<Answered, String> {
    let answer = match first::hear(&mut stream(said), first::LONGEST) {
        First::Answer(answer) => answer,
        First::Other(beginning) => return Err(beginning),
        First::End => return Err(String::new()),
    };
    let text = json_line(&answer).map_err(|error| error.to_string())?;
    let doors = match answer {
        Answer::Refused(why) => return Err(harmless(&why)),
        Answer::Ready { door: Some(Err(why)), .. } => return Err(harmless(&why)),
        Answer::Ready { door: Some(Ok(opened)), .. } => addresses(&opened, Some(at.to_string())),
        Answer::Ready { door: None, .. } => Vec::new(),
    };
    Ok(Answered { answer: text, doors })
}

/// What another numaio tells of its transfer, as JSON; with that, what of it is shown to people, as JSON and as text. None if it is no event.
pub fn event(line: &[u8]) -> Option<(String, String, String)> {
    let event: Event = serde_json::from_slice(line).ok()?;
    let (text, shown) = (event.line(), event.harmless());
    let line = shown.line();
    let words = match &shown {
        Event::Did(change) | Event::Would(change) => format!("{}: {}", change.action, change.name),
        Event::Problem(problem) => {
            let told = event::told(&event::heard(problem), problem.name.clone());
            format!("{}: {} ({}, {})", told.name.unwrap_or_default(), told.text, told.side, told.reason)
        }
        Event::Progress(progress) => {
            numaio_report::progress_text(&progress.totals, 0.5, BandwidthUnit::default())
        }
        Event::End(end) => {
            numaio_report::transfer_text(&end.totals, end.seconds, end.done, BandwidthUnit::default())
        }
        Event::Other => String::new(),
    };
    Some((text, line, words))
}

/// What a host without numaio tells of itself: its system, and where a copy of ours would be.
pub fn there(text: &str) -> Option<(String, String)> {
    There::parse(text).map(|there| (there.system, there.file))
}

/// What follows the scheme of a daemon's address: the same as it is written, and under what its key is known.
///
/// # Errors
/// What is wrong with it.
pub fn address(text: &[u8]) -> Result<(Vec<u8>, String), &'static str> {
    let (address, path) = Address::parse(text)?;
    Ok(([address.to_string().as_bytes(), &path].concat(), address.place()))
}
