//! The machine that a command works on: this system, a recorded machine, or a copied file tree.

use crate::failure::{self, Failure};
use crate::input;
use crate::options::Common;
use crate::output;
use flate2::bufread::GzDecoder;
use numaio_linux::{Kernel, Root};
use numaio_machine::locate::{Locate, LocateAnswer, LocateError, LocateQuery};
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::tape::{Recording, Replay, Tape};
use numaio_machine::workload::Workload;
use numaio_schema::MachineSource;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

macro_rules! shipped {
    ($name:literal) => {
        ($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".tape.gz")))
    };
}

/// Recorded machines included in the program, by name, compressed by `build.rs`; all were recorded
/// in emulation (`lab/`).
const SHIPPED: [(&str, &[u8]); 3] = [shipped!("amd-dl585-g7"), shipped!("intel-r820"), shipped!("amd-2p")];

/// The machine that a command works on.
pub enum Machine {
    /// This system.
    Live(Kernel),
    /// This system or a tape while it is recorded to another tape.
    Recording(Box<Recording<Machine>>),
    /// A tape.
    Recorded(Box<Replay>),
    /// A copied file tree, which can be examined but not measured.
    Copied(Root),
}

impl Machine {
    /// Opens the machine that the options select.
    pub fn pick(common: &Common) -> Result<Self, Failure> {
        if let Some(dir) = &common.sysroot {
            let root = Root::open(dir).map_err(|error| Failure::file(dir, error))?;
            if !numaio_machine::discover::is_machine(&root) {
                return Err(Failure::file(dir, "contains neither sys/devices/system nor proc/cpuinfo")
                    .hint("--sysroot expects the directory that contains the copied sys and proc"));
            }
            output::detail(format_args!("machine: the copied tree {}", dir.display()));
            return Ok(Self::Copied(root));
        }
        match &common.machine {
            Some(name) => {
                output::detail(format_args!("machine: the recorded {name}"));
                recorded(name)
            }
            None => {
                output::detail("machine: this system");
                let kernel = Kernel::new();
                kernel.map(Self::Live).map_err(|error| Failure::new(format!("cannot open '/': {error}")))
            }
        }
    }

    /// Returns the kernel if the machine is this system.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Self::Live(kernel) => Some(kernel),
            Self::Recording(recording) => recording.machine().kernel(),
            Self::Recorded(_) | Self::Copied(_) => None,
        }
    }

    /// Returns the tape of a recorded machine.
    pub fn tape(&self) -> Option<&Tape> {
        match self {
            Self::Recorded(replay) => Some(replay.tape()),
            _ => None,
        }
    }

    /// Returns the source of the machine for documents.
    pub fn source(&self) -> MachineSource {
        match self {
            Self::Recorded(replay) => {
                let header = &replay.tape().header;
                MachineSource::Tape { name: header.name.clone(), note: header.note.clone() }
            }
            Self::Recording(recording) => recording.machine().source(),
            Self::Live(_) | Self::Copied(_) => MachineSource::Live,
        }
    }

    /// Returns the seconds since 1970 of its measurements: now, or the time of the recording.
    pub fn time(&self) -> u64 {
        match self {
            Self::Recorded(replay) => replay.tape().header.recorded_at,
            Self::Recording(recording) => recording.machine().time(),
            _ => now(),
        }
    }

    /// Returns the seconds since 1970 of its discovery; none for a copied tree.
    pub fn observed_at(&self) -> Option<u64> {
        match self {
            Self::Copied(_) => None,
            _ => Some(self.time()),
        }
    }

    /// Returns whether this is the machine that numaio runs on.
    pub fn is_live(&self) -> bool {
        self.kernel().is_some()
    }
}

fn recorded(name: &str) -> Result<Machine, Failure> {
    let shipped = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    let read = || {
        input::read_bytes(Path::new(name)).map_err(|error| {
            let names = SHIPPED.map(|(name, _)| name).join(", ");
            Failure::usage(format!("cannot read the tape '{name}' of --machine: {error}"))
                .hint(format!("specify a tape file, or one of {names}"))
        })
    };
    let content = match shipped {
        Some((_, compressed)) => {
            unpacked(compressed).map_err(|error| Failure::file(Path::new(name), error))?
        }
        None => read()?,
    };
    let tape = Tape::parse_bytes(&content).map_err(|error| failure::not_a_tape(name, &content, &error))?;
    let replay = Replay::new(tape);
    if !numaio_machine::discover::is_machine(&replay) {
        return Err(Failure::new(format!("{name}: incomplete tape: it does not describe a machine"))
            .hint("copy the tape again, or record it again"));
    }
    Ok(Machine::Recorded(Box::new(replay)))
}

fn unpacked(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut content)?;
    Ok(content)
}

impl Sysfs for Machine {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.root().read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.root().list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.root().resolve(path)
    }
    fn lines(&self, path: &str, line: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        self.root().lines(path, line)
    }
    fn link_name(&self, path: &str) -> Result<String, ReadError> {
        self.root().link_name(path)
    }
    fn hold(&self, directory: &str) -> Option<Box<dyn Sysfs + '_>> {
        self.root().hold(directory)
    }
}

impl Machine {
    fn root(&self) -> &dyn Sysfs {
        match self {
            Self::Live(kernel) => kernel,
            Self::Recording(recording) => recording.as_ref(),
            Self::Recorded(replay) => replay.as_ref(),
            Self::Copied(root) => root,
        }
    }
}

impl Probe for Machine {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        match self {
            Self::Live(kernel) => kernel.run(workload),
            Self::Recording(recording) => recording.run(workload),
            Self::Recorded(replay) => replay.run(workload),
            Self::Copied(_) => {
                Err(ProbeError::Unsupported { feature: "hardware: it is a copied file tree".into() })
            }
        }
    }
}

impl Locate for Machine {
    fn locate(&self, query: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        match self {
            Self::Live(kernel) => kernel.locate(query),
            Self::Recording(recording) => recording.locate(query),
            Self::Recorded(replay) => replay.locate(query),
            Self::Copied(_) => Err(LocateError::NotLive(query.to_string())),
        }
    }
}

/// Returns the current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
