//! A vhost-user disk whose bandwidth depends on the NUMA node of the guest's buffer.
//!
//! It emulates a device whose DMA crosses the machine: see `lab/README.md`.

mod disk;
mod engine;
mod ordered_time;
mod random;
mod rates;
mod request;
mod service;
mod settings;
mod slots;
mod stalls;

use disk::Disk;
use settings::Settings;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use vhost_user_backend::VhostUserDaemon;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: numaio-lab-disk SETTINGS.json");
        return ExitCode::from(2);
    };
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    match text.and_then(|text| Settings::parse(&text)).and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("numaio-lab-disk: {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// Serves one emulated machine until it disconnects.
fn serve(settings: Settings) -> Result<(), String> {
    let socket = settings.socket.clone();
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let disk = Disk::open(settings, memory.clone()).map_err(|error| error.to_string())?;
    let (timer, event) = disk.timer();
    let disk = Arc::new(Mutex::new(disk));
    let mut daemon = VhostUserDaemon::new("vhost-user".into(), Arc::clone(&disk), memory)
        .map_err(|error| error.to_string())?;
    // Edge-triggered, because the timer is never read: a read could block until it expires again.
    let events = EventSet::IN | EventSet::EDGE_TRIGGERED;
    for handler in daemon.get_epoll_handlers() {
        handler.register_listener(timer, events, event.into()).map_err(|error| error.to_string())?;
    }
    let served = daemon.serve(socket).map_err(|error| error.to_string());
    eprintln!("numaio-lab-disk: {}", disk.lock().unwrap_or_else(PoisonError::into_inner).summary());
    served
}
