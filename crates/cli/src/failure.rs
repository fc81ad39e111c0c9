//! Errors in words: the one place where they become message, hint and exit status.

use numaio_linux::cuda::CudaUnavailable;
use numaio_machine::near::Resolved;
use numaio_machine::probe::ProbeError;
use numaio_machine::tape::{Tape, TapeError};
use numaio_measure::CampaignError;
use numaio_schema::{Document, DocumentError};
use std::path::Path;
use std::{fmt, io};

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

    fn maybe_hint(self, hint: Option<impl fmt::Display>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
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
            CampaignError::Nothing(why) => failure.maybe_hint(hint_of_probe(&why)),
        }
    }
}

impl From<CudaUnavailable> for Failure {
    fn from(absent: CudaUnavailable) -> Self {
        let failure = Self::new(&absent);
        match absent {
            CudaUnavailable::Static => failure.hint(
                "use the build that is linked dynamically (make build), or put nvbandwidth on PATH \
                 (https://github.com/NVIDIA/nvbandwidth)",
            ),
            CudaUnavailable::NoLibrary { .. } => failure.hint(
                "install NVIDIA's driver, of which libcuda.so.1 is a part; into a container it comes with the NVIDIA \
                 container toolkit (docker run --gpus all). Only GPUs of NVIDIA can be measured",
            ),
            CudaUnavailable::Incomplete { .. } => failure.hint("install a newer driver"),
            CudaUnavailable::NoDevice { .. } => failure.hint(
                "nvidia-smi tells whether the kernel's driver sees one; CUDA_VISIBLE_DEVICES may hide it, and a \
                 container gets none by default",
            ),
            CudaUnavailable::NoPermission { .. } => failure.hint(
                "run as root or as a user who may open the device files, often by a group as video or render; a \
                 container must be given them",
            ),
            CudaUnavailable::Failed { .. } => failure.hint("nvidia-smi, and dmesg for lines with NVRM, tell more"),
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

/// Where documents come from.
pub const DOCUMENTS: &str = "numaio model, stream, latency, compare and topology write documents with --json";

/// A file that cannot be read.
pub fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::file(path, error);
    match error.kind() {
        io::ErrorKind::IsADirectory => failure.hint("name the files in it one by one"),
        io::ErrorKind::NotFound => failure.hint(DOCUMENTS),
        _ => failure,
    }
}

/// A place that cannot be written to.
pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "name a file in a folder that is there and can be written"
        }
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there, or name another place"
        }
        _ => "name another place",
    };
    Failure::file(path, error).hint(hint)
}

/// A file that is no document; a tape is often meant for one.
pub fn not_a_document(path: &Path, text: &str, error: &DocumentError) -> Failure {
    if Tape::parse(text).is_ok() {
        return Failure::file(path, "it is a tape, and no document")
            .hint(format!("--machine {} takes it as a machine with all it holds", path.display()));
    }
    Failure::file(path, error).hint(match error {
        DocumentError::NotJson(error) if error.is_eof() => {
            "it was cut short: copy it again, or write it anew"
        }
        DocumentError::UnsupportedVersion { age: "a newer", .. } => {
            "use that version of numaio, or measure anew with this one"
        }
        _ => DOCUMENTS,
    })
}

/// A file that is no model; a tape is often meant for one.
pub fn not_a_model(path: &Path, text: &str, error: &DocumentError) -> Failure {
    let tape = || format!("numaio model --machine {} makes a model of it", path.display());
    match error {
        _ if Tape::parse(text).is_ok() => Failure::file(path, "it is a tape, and no model").hint(tape()),
        DocumentError::WrongKind { .. } => {
            Failure::file(path, error).hint("numaio model --json writes such a file")
        }
        _ => not_a_document(path, text, error),
    }
}

/// A handle that leads to no device: an unknown name is wrong usage, a dead end is not.
pub fn unresolved(found: &Resolved) -> Failure {
    let finding = found.findings.first();
    let (what, remedy) = finding.map_or(("", ""), |found| (&found.what, &found.remedy));
    let what = lower(what.trim_end_matches('.'));
    let failure = match found.is_unknown() {
        true => Failure::usage(what),
        false => Failure::new(format!("{} leads to no device: {what}", found.handle)),
    };
    match remedy.trim_end_matches('.') {
        "" => failure,
        remedy => failure.hint(lower(remedy)),
    }
}

/// A sentence as errors are written: without a capital, unless it begins with a name.
fn lower(sentence: &str) -> String {
    let word = sentence.split(' ').next().unwrap_or_default();
    let is_word = word.chars().skip(1).all(|c| c.is_ascii_lowercase());
    let mut chars = sentence.chars();
    match chars.next() {
        Some(first) if is_word => first.to_lowercase().chain(chars).collect(),
        _ => sentence.to_owned(),
    }
}

/// A file that is no tape; a document is often meant for one.
pub fn not_a_tape(name: &str, content: &[u8], error: &TapeError) -> Failure {
    let is_document = std::str::from_utf8(content).is_ok_and(|text| Document::from_json(text).is_ok());
    if is_document {
        return Failure::new(format!("{name}: it is a document, and no tape"))
            .hint("numaio report, export and compare --from take documents");
    }
    Failure::new(format!("{name}: {error}")).hint("numaio record -o FILE writes a tape")
}
