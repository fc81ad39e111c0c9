//! A numaio on another host: how it is reached, how it hears and answers.

use super::address::Address;
use super::bootstrap;
use super::channel::{self, Offer, Opened, Ours};
use super::ends::Host;
use super::first::{self, cut_short, hear, patiently, First};
use super::hello::{self, Greeting};
use super::lookup::Lookup;
use super::peer::{Answer, LONGEST_LINE};
use super::show::Show;
use super::{daemon, CopyArgs};
use crate::commands::json_line;
use crate::failure::Failure;
use crate::ssh::{self, Started};
use numaio_linux::interrupt::interrupted;
use numaio_linux::port::net::control::ChannelRelay;
use numaio_linux::port::net::DataStream;
use numaio_mover::wire::Side;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, BufReader, Read, Write};
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the other side may take to end when we are done.
const LAST: Duration = Duration::from_secs(10);

/// What to do about one that answers something else.
const NO_NUMAIO: &str = "has to print nothing: a script that a login there runs may be what prints; or the numaio there is of another \
                         version: use the same one at both ends";

/// What it says.
pub type From = BufReader<Box<dyn Read + Send>>;
/// What it hears.
pub type To = Box<dyn Write + Send>;

/// One that was reached, which waits to be asked for a transfer.
pub struct Reached {
    pub to: To,
    pub from: From,
    pub via: Via,
    /// What it begins with if that is no answer.
    other: Option<String>,
}

/// What it was reached by. It is ended when this is dropped.
pub enum Via {
    Ssh {
        started: Started,
        /// The address that ssh goes to; none if data is to go through ssh.
        lookup: Option<Lookup>,
    },
    Daemon {
        /// What people call it.
        place: String,
        /// None if data is to go through the control channel, or does so.
        data: Option<daemon::Data>,
        carrier: ChannelRelay,
    },
}

/// Who is to be reached, and by what.
pub enum Way<'a> {
    /// The numaio of that name on a host of ssh.
    Ssh { host: &'a str, numaio: String },
    /// A daemon.
    Daemon(&'a Address),
}

impl<'a> Way<'a> {
    /// Finds what is to be started; it may be brought there first.
    pub fn find(host: &'a Host, args: &CopyArgs) -> Result<Self, Failure> {
        match host {
            Host::Ssh(host) => {
                Ok(Self::Ssh { host, numaio: bootstrap::numaio(args, &ssh::program(), host)? })
            }
            Host::Daemon(address) => Ok(Self::Daemon(address)),
        }
    }

    /// Reaches it, to be that side; or tells why it was not reached.
    ///
    /// # Errors
    /// Another try would end no otherwise.
    pub fn reach(
        &self,
        show: &Show,
        args: &CopyArgs,
        others: &[SocketAddr],
        side: Side,
    ) -> Result<Result<Reached, Failure>, Failure> {
        let (host, numaio) = match self {
            Self::Ssh { host, numaio } => (host, numaio),
            Self::Daemon(address) => return daemon::reach(show, address, &args.net, others, side),
        };
        let program = ssh::program();
        let lookup = (!args.net.tunnel).then(|| Lookup::begin(&program, host));
        let command = ssh::command(program, host, numaio, &["peer", "--copy"]);
        let mut started = Started::begin(command, LAST, ssh::install())?;
        let (Some(to), Some(from)) = (started.stdin.take(), started.stdout.take()) else {
            return Err(Failure::new("the other side has no streams"));
        };
        let (to, from): (To, Box<dyn Read + Send>) = (Box::new(to), Box::new(from));
        Ok(Ok(Reached::new(to, from, Via::Ssh { started, lookup })))
    }

    /// What data goes through if it has no connections of its own.
    pub fn channel(&self) -> &'static str {
        match self {
            Self::Ssh { .. } => "ssh",
            Self::Daemon(_) => "the daemon's control connection",
        }
    }
}

impl Reached {
    pub fn new(to: To, from: Box<dyn Read + Send>, via: Via) -> Self {
        Self { to, from: BufReader::new(from), via, other: None }
    }

    /// A line for the other side. Who cannot take it says why by its exit status, and who does not before we are interrupted
    /// gives no answer.
    pub fn say(&mut self, what: &impl Serialize) -> Result<(), Failure> {
        let line = json_line(what).map_err(Failure::new)?;
        if line.len() as u64 > LONGEST_LINE {
            return Err(Failure::new("the lists of names and rules are too long for another host")
                .hint("run numaio copy there, or copy in parts"));
        }
        let mut to = mem::replace(&mut self.to, Box::new(io::sink()));
        let said = patiently(Duration::MAX, move || {
            let _ = to.write_all(line.as_bytes());
            to
        });
        self.to = said.unwrap_or_else(|| Box::new(io::sink()));
        Ok(())
    }

    /// Most data connections from the source to the sink, when it has said that we are welcome; or why we are not now.
    ///
    /// # Errors
    /// It does not serve us at all; or we were interrupted.
    pub fn welcome(&mut self) -> Result<Result<u16, Failure>, Failure> {
        let Via::Daemon { place, .. } = &self.via else { return Ok(Ok(u16::MAX)) };
        let place = place.clone();
        let said: Option<First<Greeting>> = self.hear(hello::LONGEST, daemon::GREETING);
        if said.is_none() {
            self.via.hurry();
        }
        match interrupted() {
            true => Err(cut_short(&place)),
            false => daemon::welcome(&place, said),
        }
    }

    /// What it answers to being asked for a transfer; none if it is no numaio, or gone, or we were interrupted.
    pub fn answer(&mut self) -> Option<Answer> {
        match self.hear(first::LONGEST, Duration::MAX)? {
            First::Answer(answer) => return Some(answer),
            First::Other(beginning) => self.other = Some(beginning),
            First::End => {}
        }
        None
    }

    /// A line of it, of so many bytes at the most; none if it took too long, or we were interrupted.
    fn hear<T: DeserializeOwned + Send + 'static>(
        &mut self,
        longest: usize,
        most: Duration,
    ) -> Option<First<T>> {
        let mut from = mem::replace(&mut self.from, nothing());
        let (from, first) = patiently(most, move || {
            let first = hear(&mut from, longest);
            (from, first)
        })?;
        self.from = from;
        Some(first)
    }

    /// Why there was no answer.
    pub fn silent(self, host: &str) -> Failure {
        let Self { to, from, mut via, other } = self;
        // Who is in the midst of saying something ends, too.
        drop((to, from));
        if interrupted() || other.is_some() {
            via.hurry();
        }
        if interrupted() {
            return cut_short(host);
        }
        if let Some(beginning) = other {
            return Failure::new(format!("what answers on {host} is not numaio: {beginning}"))
                .hint(format!("ssh {host} true {NO_NUMAIO}"));
        }
        let failure = Failure::new(format!("no numaio answers on {host}"));
        match via {
            Via::Ssh { mut started, .. } => bootstrap::hinted(failure, host, started.status()),
            Via::Daemon { .. } => failure.hint("the daemon there ended the session; its log tells why"),
        }
    }

    /// How many connections there are from the source to the sink, if that is decided.
    pub fn streams(&self) -> Option<u16> {
        match &self.via {
            Via::Daemon { data: Some(data), .. } => Some(data.streams),
            _ => None,
        }
    }

    /// What we offer it, and are about to tell it. Connections to a daemon are opened meanwhile.
    pub fn offer(&self, ours: &Ours, ports: Option<(u16, u16)>) -> Offer {
        match &self.via {
            Via::Daemon { data: Some(data), .. } => {
                ours.open(&data.calls, data.ticket, data.key.clone());
                ours.offer(None, Some(data.ticket))
            }
            _ => ours.offer(ports, None),
        }
    }

    /// Data connections to its door, as many as it allows; or why there are none. A daemon may be anybody's, so nothing that it
    /// says leads elsewhere.
    pub fn lanes(
        &mut self,
        ours: Ours,
        most_streams: u16,
        opened: Opened,
        others: &[SocketAddr],
    ) -> Result<Vec<Box<dyn DataStream>>, String> {
        match &mut self.via {
            Via::Ssh { lookup, .. } => ours.reach(opened, lookup.take().and_then(Lookup::name), others),
            Via::Daemon { data, .. } => {
                let data = data.take().ok_or("there are none")?;
                data.calls.into_streams(ours.lanes(most_streams), channel::REACH).map_err(|error| error.to_string())
            }
        }
    }
}

/// A side that says nothing.
fn nothing() -> From {
    BufReader::new(Box::new(io::empty()))
}

impl Via {
    /// It is ended as soon as this is dropped, whatever the other side does.
    fn hurry(&mut self) {
        match self {
            Self::Ssh { started, .. } => started.hurry(),
            Self::Daemon { carrier, .. } => carrier.abort(),
        }
    }

    /// Ends what it was reached by, when all was said.
    pub fn end(self) {
        match self {
            Self::Ssh { started, .. } => drop(started),
            Self::Daemon { carrier, .. } => drop(carrier),
        }
    }
}
