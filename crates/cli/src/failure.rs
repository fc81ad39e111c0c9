//! Errors in words: the one place where they become message, hint and exit status.

use numaio_linux::cuda::Absent;
use numaio_machine::probe::ProbeError;
use numaio_machine::tape::{NotATape, Tape};
use numaio_measure::CampaignError;
use numaio_schema::NotThatDocument;
use std::fmt;
use std::path::Path;

/// Exit status after an interrupt, as shells count it.
pub const INTERRUPTED: u8 = 130;
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// Why the command did not do what was asked.
#[derive(Debug)]
pub struct Failure {
    /// One sentence: what went wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Exit status.
    pub code: u8,
}

impl Failure {
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: None, code: FAILED }
    }

    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    pub fn file(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(format!("{}: {error}", path.display()))
    }
}

impl From<CampaignError> for Failure {
    fn from(error: CampaignError) -> Self {
        let failure = Self::new(&error);
        match error {
            CampaignError::NoTarget => failure.hint("name one by --node K, or all nodes by --all"),
            CampaignError::UnknownNode { .. } => Self { code: USAGE, ..failure },
            CampaignError::NoCpus { .. } => failure.hint(
                "threads must run on the target: choose the nearest node with CPUs by --node K, or widen the \
                 cpuset or container this runs in",
            ),
            CampaignError::NoMemory { .. } => failure.hint("choose the nearest node with memory by --node K"),
            CampaignError::TooManyThreads { .. } => Self { code: USAGE, ..failure },
            CampaignError::TooLittleMemory { .. } => failure
                .hint("free memory on that node (numaio topology shows it), or use fewer cores and so fewer caches by --threads"),
            CampaignError::NoProgram { remedy, .. } => failure.hint(remedy),
            CampaignError::Nothing(why) => match hint_of_probe(&why) {
                Some(hint) => failure.hint(hint),
                None => failure,
            },
        }
    }
}

impl From<Absent> for Failure {
    fn from(absent: Absent) -> Self {
        let failure = Self::new(&absent);
        match absent {
            Absent::Static => failure.hint(
                "use the build that is linked dynamically (make build), or put nvbandwidth on PATH \
                 (https://github.com/NVIDIA/nvbandwidth)",
            ),
            Absent::NoLibrary { .. } => failure.hint(
                "install NVIDIA's driver, of which libcuda.so.1 is a part; into a container it comes with the NVIDIA \
                 container toolkit (docker run --gpus all). Only GPUs of NVIDIA can be measured",
            ),
            Absent::Incomplete { .. } => failure.hint("install a newer driver"),
            Absent::NoDevice { .. } => failure.hint(
                "nvidia-smi tells whether the kernel's driver sees one; CUDA_VISIBLE_DEVICES may hide it, and a \
                 container gets none by default",
            ),
            Absent::NoPermission { .. } => failure.hint(
                "run as root or as a user who may open the device files, often by a group as video or render; a \
                 container must be given them",
            ),
            Absent::Failed { .. } => failure.hint("nvidia-smi, and dmesg for lines with NVRM, tell more"),
        }
    }
}

fn hint_of_probe(error: &ProbeError) -> Option<&'static str> {
    match error {
        ProbeError::Refused { what, .. } if what.contains("mbind") || what.contains("policy") => Some(
            "containers often forbid NUMA system calls by seccomp: allow mbind, set_mempolicy and move_pages \
             (docker: --cap-add SYS_NICE), or run on the host",
        ),
        ProbeError::Refused { what, .. } if what.contains("huge") => {
            Some("reserve huge pages, as by writing their number to nr_hugepages of each node, or leave --hugepages out")
        }
        ProbeError::Refused { .. } => None,
        ProbeError::NoMemory { .. } => Some("free memory on that node; numaio topology shows it"),
        ProbeError::Unsupported { .. } => Some("leave --copy-loop or --stream-loop out to use the fastest that works here"),
        ProbeError::NotOnTape { .. } => Some(
            "a tape holds what was measured when it was recorded: leave out the options that change threads, \
             copy loop, pages or repetitions",
        ),
        ProbeError::Interrupted | ProbeError::OtherOutcome => None,
    }
}

/// A file that is not the document wanted.
pub fn not_that_document(path: &Path, error: &NotThatDocument) -> Failure {
    Failure::file(path, error).hint("numaio model --json writes such a file")
}

/// A file that is no model; a tape is often meant for one.
pub fn no_model(path: &Path, text: &str, error: &NotThatDocument) -> Failure {
    match Tape::parse(text) {
        Ok(_) => Failure::file(path, "it is a tape, and no model")
            .hint(format!("numaio model --machine {} makes a model of it", path.display())),
        Err(_) => not_that_document(path, error),
    }
}

/// A file that is no tape.
pub fn not_a_tape(name: &str, error: &NotATape) -> Failure {
    Failure::new(format!("{name}: {error}")).hint("numaio record -o FILE writes a tape")
}
