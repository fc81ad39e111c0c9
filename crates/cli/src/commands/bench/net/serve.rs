//! `numaio bench net --serve`: the far end.

use crate::args::Common;
use crate::failure::{self, Failure};
use crate::output;
use numaio_linux::io::tcp::{Server, ServerEvent, PROTOCOL};
use numaio_linux::{interrupt, Kernel};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

/// What a server that was started by a client tells it: one line of JSON on standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerHello {
    /// Version of what is said over the network.
    pub numaio_net: u32,
    /// Where it listens.
    pub port: u16,
    /// What the client opens its session with.
    pub token: String,
}

/// Serves sessions until Ctrl-C.
pub fn run(common: &Common, bind: IpAddr, port: u16) -> Result<ExitCode, Failure> {
    let (kernel, mut server) = listen(bind, port)?;
    let address = server.address().map_err(Failure::new)?;
    output::remark(common, &format!("serving at {address}; Ctrl-C ends it"));
    while !interrupt::interrupted() {
        output::print(&client_command(&address, server.token()))?;
        let mut report = |told| report(common, &told);
        server.serve_session(&kernel, &interrupt::interrupted, &mut report).map_err(Failure::new)?;
    }
    Ok(ExitCode::from(failure::INTERRUPTED))
}

/// Serves the one client that started us, and ends when it goes: with it our standard input ends.
pub fn run_attached(common: &Common, bind: IpAddr, port: u16) -> Result<ExitCode, Failure> {
    let (kernel, mut server) = listen(bind, port)?;
    let port = server.address().map_err(Failure::new)?.port();
    let hello = ServerHello { numaio_net: PROTOCOL, port, token: server.token().to_owned() };
    let line = serde_json::to_string(&hello).map_err(Failure::new)?;
    output::print(&format!("{line}\n"))?;
    let client_gone = Arc::new(AtomicBool::new(false));
    let set_gone = client_gone.clone();
    let watch = move || {
        // Nobody sends anything here: this ends when the client does.
        drop(io::copy(&mut io::stdin().lock().take(1 << 20), &mut io::sink()));
        set_gone.store(true, Ordering::Relaxed);
    };
    let watching = thread::Builder::new().name("client".to_owned()).spawn(watch);
    watching.map_err(Failure::new)?;
    let stop = || client_gone.load(Ordering::Relaxed) || interrupt::interrupted();
    let mut report = |told| {
        // The client tells its user of a session's end by itself.
        if let ServerEvent::Rejected { .. } = told {
            self::report(common, &told);
        }
    };
    server.serve_session(&kernel, &stop, &mut report).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

fn listen(bind: IpAddr, port: u16) -> Result<(Kernel, Server), Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    let kernel = Kernel::new()
        .map_err(|error| Failure::new(format!("cannot open the root of this machine's files: {error}")))?;
    let address = SocketAddr::new(bind, port);
    let server = Server::bind(address).map_err(|error| {
        Failure::new(format!("cannot listen at {address}: {error}"))
            .hint("choose another port by --port, or an address of this host by --bind")
    })?;
    Ok((kernel, server))
}

fn client_command(address: &SocketAddr, token: &str) -> String {
    let host = match address.ip().is_unspecified() {
        true => "HOST".to_owned(),
        false => address.ip().to_string(),
    };
    format!("NUMAIO_TOKEN={token} numaio bench net --peer {host} --port {}\n", address.port())
}

fn report(common: &Common, told: &ServerEvent) {
    output::remark(
        common,
        &match told {
            ServerEvent::Rejected { from, why } => format!("{from} was not let in: {why}"),
            ServerEvent::SessionStarted { from } => format!("a session with {from} begins"),
            ServerEvent::SessionEnded { why: None } => "the session is over".to_owned(),
            ServerEvent::SessionEnded { why: Some(why) } => format!("the session is over: {why}"),
        },
    );
}
