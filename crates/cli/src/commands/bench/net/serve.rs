//! `numaio bench net --serve`: the remote end of measurements.

use crate::failure::{self, Failure};
use crate::options::Common;
use crate::output;
use numaio_linux::io::tcp::{serve_session, ConnectionError, ControlStreams};
use numaio_linux::{interrupt, Kernel};
use numaio_transfer::bench_connections::{PendingSession, RunListener};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::ExitCode;

/// Serves sessions until Ctrl-C, one at a time.
pub fn run(common: &Common, bind: IpAddr, port: u16) -> Result<ExitCode, Failure> {
    let kernel = open_kernel()?;
    let mut pending = listen(SocketAddr::new(bind, port))?;
    let address = pending.address();
    output::remark(common, &format!("listening on {address}; press Ctrl-C to stop"));
    loop {
        output::print(&client_command(&address, pending.token()))?;
        let accepted = pending.accept(&interrupt::interrupted).map_err(Failure::new)?;
        let Some(client) = accepted else { break };
        let from = client.peer_addr().map_or_else(|_| "a client".to_owned(), |from| from.to_string());
        output::remark(common, &format!("started a session with {from}"));
        let ended = serve_client(client, address, &kernel);
        let why = ended.err().map_or_else(String::new, |error| format!(": {error}"));
        output::remark(common, &format!("the session ended{why}"));
        if interrupt::interrupted() {
            break;
        }
        pending = listen(address)?;
    }
    Ok(ExitCode::from(failure::INTERRUPTED))
}

/// Serves the client that started this process, over its standard streams.
pub fn run_attached(bind: IpAddr, port: u16) -> Result<ExitCode, Failure> {
    let kernel = open_kernel()?;
    let control = ControlStreams { from: Box::new(io::stdin()), to: Box::new(io::stdout()), socket: None };
    let listener = RunListener(SocketAddr::new(bind, port));
    // The client itself reports the end of its session.
    drop(serve_session(control, &listener, &kernel, &interrupt::interrupted));
    Ok(ExitCode::SUCCESS)
}

fn serve_client(client: TcpStream, address: SocketAddr, kernel: &Kernel) -> Result<(), ConnectionError> {
    let control = ControlStreams::over(client).map_err(|error| ConnectionError(error.to_string()))?;
    serve_session(control, &RunListener(address), kernel, &interrupt::interrupted)
}

fn open_kernel() -> Result<Kernel, Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
    Kernel::new().map_err(|error| Failure::new(format!("cannot open '/': {error}")))
}

fn listen(address: SocketAddr) -> Result<PendingSession, Failure> {
    PendingSession::bind(address).map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}"))
            .hint("specify another port by --port, or an address of this host by --bind")
    })
}

fn client_command(address: &SocketAddr, token: &str) -> String {
    let host = match address.ip().is_unspecified() {
        true => "HOST".to_owned(),
        false => address.ip().to_string(),
    };
    format!("NUMAIO_TOKEN={token} numaio bench net --peer {host} --port {}\n", address.port())
}
