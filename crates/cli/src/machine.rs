//! Which machine: this Linux, a recorded machine, or a copied tree of files.

use crate::args::Common;
use crate::failure::{self, Failure};
use crate::input;
use numaio_linux::{Kernel, Root};
use numaio_machine::locate::{Locate, LocateAnswer, LocateError, LocateQuery};
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::tape::{Recording, Replay, Tape};
use numaio_machine::workload::Workload;
use numaio_schema::MachineSource;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Recorded machines that are part of the program, by name. All were recorded in `lab/`, emulated.
const SHIPPED: [(&str, &str); 3] = [
    ("amd-dl585-g7", include_str!("../../../machines/amd-dl585-g7.tape")),
    ("intel-r820", include_str!("../../../machines/intel-r820.tape")),
    ("amd-2p", include_str!("../../../machines/amd-2p.tape")),
];

/// The machine a command works on.
pub enum Machine {
    /// This Linux.
    Live(Kernel),
    /// This Linux, or a tape, while a tape is made of it.
    Recording(Box<Recording<Machine>>),
    /// A tape.
    Recorded(Box<Replay>),
    /// A copied tree; it can be seen, and not measured.
    Copied(Root),
}

impl Machine {
    /// The machine that the options name.
    pub fn pick(common: &Common) -> Result<Self, Failure> {
        if let Some(dir) = &common.sysroot {
            let root = Root::open(dir).map_err(|error| Failure::file(dir, error))?;
            if !numaio_machine::discover::is_machine(&root) {
                return Err(Failure::file(dir, "holds neither sys/devices/system nor proc/cpuinfo")
                    .hint("--sysroot wants the folder above the copied sys and proc"));
            }
            return Ok(Self::Copied(root));
        }
        match &common.machine {
            Some(name) => recorded(name),
            None => Kernel::new().map(Self::Live).map_err(|error| {
                Failure::new(format!("cannot open the root of this machine's files: {error}"))
            }),
        }
    }

    /// This Linux, if it is that.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Self::Live(kernel) => Some(kernel),
            Self::Recording(recording) => recording.machine().kernel(),
            Self::Recorded(_) | Self::Copied(_) => None,
        }
    }

    /// The tape that it is played from.
    pub fn tape(&self) -> Option<&Tape> {
        match self {
            Self::Recorded(replay) => Some(replay.tape()),
            _ => None,
        }
    }

    /// Where the machine comes from, for documents.
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

    /// Seconds since 1970 of its measurements: now, or when the tape was recorded.
    pub fn time(&self) -> u64 {
        match self {
            Self::Recorded(replay) => replay.tape().header.recorded_at,
            Self::Recording(recording) => recording.machine().time(),
            _ => now(),
        }
    }

    /// Seconds since 1970 at which it is seen; none of a copied tree, which does not tell.
    pub fn seen_at(&self) -> Option<u64> {
        match self {
            Self::Copied(_) => None,
            _ => Some(self.time()),
        }
    }

    /// Whether this is the machine that numaio runs on.
    pub fn is_live(&self) -> bool {
        self.kernel().is_some()
    }
}

fn recorded(name: &str) -> Result<Machine, Failure> {
    let shipped = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    let read = || {
        input::read_bytes(Path::new(name)).map_err(|error| {
            let names = SHIPPED.map(|(name, _)| name).join(", ");
            Failure::usage(format!("--machine {name:?}: {error}"))
                .hint(format!("give the file of a tape, or one of {names}"))
        })
    };
    let content = shipped.map_or_else(read, |(_, text)| Ok(text.as_bytes().to_owned()))?;
    let tape = Tape::parse_bytes(&content).map_err(|error| failure::not_a_tape(name, &content, &error))?;
    let replay = Replay::new(tape);
    if !numaio_machine::discover::is_machine(&replay) {
        return Err(Failure::new(format!("{name}: the tape ends before the machine is told"))
            .hint("it was cut short: copy it again, or record it anew"));
    }
    Ok(Machine::Recorded(Box::new(replay)))
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
                Err(ProbeError::Unsupported { what: "hardware: it is a copied tree of files".into() })
            }
        }
    }
}

impl Locate for Machine {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        match self {
            Self::Live(kernel) => kernel.locate(question),
            Self::Recording(recording) => recording.locate(question),
            Self::Recorded(replay) => replay.locate(question),
            Self::Copied(_) => Err(LocateError::NotLive(question.to_string())),
        }
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
