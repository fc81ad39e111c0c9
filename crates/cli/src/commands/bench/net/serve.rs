//! `numaio bench net --serve`: the remote end of measurements.

use crate::failure::{self, Failure};
use crate::options::Common;
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

/// The greeting of a server on its standard output to the client that started it: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerHello {
    /// Version of the network protocol.
    pub numaio_net: u32,
    /// Port of the server.
    pub port: u16,
    /// Token that opens a session.
    pub token: String,
}

/// Serves sessions until Ctrl-C.
pub fn run(common: &Common, bind: IpAddr, port: u16) -> Result<ExitCode, Failure> {
    let (kernel, mut server) = listen(bind, port)?;
    let address = server.address().map_err(Failure::new)?;
    output::remark(common, &format!("listening on {address}; press Ctrl-C to stop"));
    while !interrupt::interrupted() {
        output::print(&client_command(&address, server.token()))?;
        let mut report = |event| report(common, &event);
        server.serve_session(&kernel, &interrupt::interrupted, &mut report).map_err(Failure::new)?;
    }
    Ok(ExitCode::from(failure::INTERRUPTED))
}

/// Serves the client that started this process until standard input ends with the client.
pub fn run_attached(common: &Common, bind: IpAddr, port: u16) -> Result<ExitCode, Failure> {
    let (kernel, mut server) = listen(bind, port)?;
    let port = server.address().map_err(Failure::new)?.port();
    let hello = ServerHello { numaio_net: PROTOCOL, port, token: server.token().to_owned() };
    let line = serde_json::to_string(&hello).map_err(Failure::new)?;
    output::print(&format!("{line}\n"))?;
    let client_exited = Arc::new(AtomicBool::new(false));
    let set_exited = client_exited.clone();
    let watch_stdin = move || {
        // No data is expected; the end of file means that the client has exited.
        drop(io::copy(&mut io::stdin().lock().take(1 << 20), &mut io::sink()));
        set_exited.store(true, Ordering::Relaxed);
    };
    let watcher = thread::Builder::new().name("client".to_owned()).spawn(watch_stdin);
    watcher.map_err(Failure::new)?;
    let stop = || client_exited.load(Ordering::Relaxed) || interrupt::interrupted();
    let mut report = |event| {
        // The client itself reports the end of its session.
        if let ServerEvent::Rejected { .. } = event {
            self::report(common, &event);
        }
    };
    server.serve_session(&kernel, &stop, &mut report).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

fn listen(bind: IpAddr, port: u16) -> Result<(Kernel, Server), Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
    let kernel = Kernel::new().map_err(|error| Failure::new(format!("cannot open '/': {error}")))?;
    let address = SocketAddr::new(bind, port);
    let server = Server::bind(address).map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}"))
            .hint("specify another port by --port, or an address of this host by --bind")
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

fn report(common: &Common, event: &ServerEvent) {
    output::remark(
        common,
        &match event {
            ServerEvent::Rejected { from, why } => format!("rejected {from}: {why}"),
            ServerEvent::SessionStarted { from } => format!("started a session with {from}"),
            ServerEvent::SessionEnded { why: None } => "the session ended".to_owned(),
            ServerEvent::SessionEnded { why: Some(why) } => format!("the session ended: {why}"),
        },
    );
}
