//! Errors: their message, hint and exit status.

mod fleet_launch;
pub mod transfer;

use numaio_linux::cuda::CudaUnavailable;
use numaio_machine::near::Resolved;
use numaio_machine::probe::ProbeError;
use numaio_machine::sysfs::ReadErrorKind;
use numaio_machine::tape::{Tape, TapeError};
use numaio_measure::CampaignError;
use numaio_schema::{Document, DocumentError};
use std::path::Path;
use std::{fmt, io};

/// Exit status after an interrupt, as shells report SIGINT (128 + 2).
pub const INTERRUPTED: u8 = 130;
/// Exit status after a signal, plus its number, as shells report it.
pub const SIGNALED: u8 = 128;
/// Exit status, as in shells, if a program does not exist.
pub const NOT_FOUND: u8 = 127;
/// Error numbers of Linux (errno(3)).
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// The failed operation, its object and the reason.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// Exit status.
    pub code: u8,
}

impl Failure {
    /// Returns a failure with exit status 1.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: None, code: FAILED }
    }

    /// Returns a usage error, with exit status 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Sets the hint.
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// Returns the failure of an operation on a file.
    pub fn file(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(format!("{}: {error}", path.display()))
    }

    /// Returns the failure of an operation on a process that cannot be read.
    pub fn process(verb: &str, pid: u32, why: &ReadErrorKind) -> Self {
        let why = match why {
            ReadErrorKind::Absent => "no such process".to_owned(),
            why => why.to_string(),
        };
        Self::new(format!("cannot {verb} process {pid}: {why}")).hint("ps -e lists all processes")
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
            CampaignError::NoTarget => failure.hint("choose one with --node K, or all nodes with --all"),
            CampaignError::UnknownNode { .. } => Self { code: USAGE, ..failure },
            CampaignError::NoCpus { .. } => failure.hint(
                "threads run on the target: choose the nearest node with CPUs with --node K, or extend the cpuset \
                 or the container of this process",
            ),
            CampaignError::NoMemory { .. } => failure.hint("choose the nearest node with memory with --node K"),
            CampaignError::TooManyThreads { .. } => Self { code: USAGE, ..failure },
            CampaignError::TooLittleMemory { .. } => failure
                .hint(
                    "free memory on that node (see numaio topology), use fewer threads, or measure with \
                     --buffer SIZE, which numaio model marks as possibly cached",
                ),
            CampaignError::NoProgram { remedy, .. } => failure.hint(remedy),
            CampaignError::ProgramNotFound { .. } => Self { code: NOT_FOUND, ..failure }
                .hint("name a program in PATH, or a path such as ./stream"),
            CampaignError::Nothing(why) => failure.maybe_hint(hint_of_probe(&why)),
        }
    }
}

impl From<CudaUnavailable> for Failure {
    fn from(absent: CudaUnavailable) -> Self {
        let failure = Self::new(&absent);
        match absent {
            CudaUnavailable::Static => failure.hint(
                "use a dynamically linked build (make build), or install nvbandwidth in PATH \
                 (https://github.com/NVIDIA/nvbandwidth)",
            ),
            CudaUnavailable::NoLibrary { .. } => failure.hint(
                "install the NVIDIA driver, which includes libcuda.so.1; in a container, use the NVIDIA container \
                 toolkit (docker run --gpus all). Only NVIDIA GPUs can be measured",
            ),
            CudaUnavailable::Incomplete { .. } => failure.hint("install a newer driver"),
            CudaUnavailable::NoDevice { .. } => failure.hint(
                "check that nvidia-smi lists one; CUDA_VISIBLE_DEVICES may hide it, and a container gets none by \
                 default",
            ),
            CudaUnavailable::NoPermission { .. } => failure.hint(
                "run as root or as a user with access to the device files, often through the group video or \
                 render; pass them into a container",
            ),
            CudaUnavailable::Failed { .. } => failure.hint("see nvidia-smi, and lines with NVRM in dmesg"),
        }
    }
}

fn hint_of_probe(error: &ProbeError) -> Option<&'static str> {
    match error {
        ProbeError::Refused { call: what, .. } if what.contains("mbind") || what.contains("policy") => Some(
            "containers often forbid NUMA system calls by seccomp: allow mbind, set_mempolicy and move_pages \
             (docker: --cap-add SYS_NICE), or run on the host",
        ),
        ProbeError::Refused { call: what, .. } if what.contains("huge") => {
            Some("reserve huge pages by writing their number to nr_hugepages of each node, or omit --hugepages")
        }
        ProbeError::Refused { call: what, reason: why } => hint_of_bar(what, why),
        ProbeError::NoMemory { .. } => Some("free memory on that node (see numaio topology)"),
        ProbeError::Unsupported { .. } => Some("omit --copy-loop or --stream-loop to use the fastest supported loop"),
        ProbeError::NotOnTape { .. } => Some(
            "a tape contains only the measurements of its recording: omit the options that change threads, copy \
             loop, pages or repetitions",
        ),
        ProbeError::Interrupted | ProbeError::OtherOutcome => None,
    }
}

/// Returns the hint for a base address register that the kernel does not open or map, by the text
/// of its error (`pci_mmap_resource` in `drivers/pci/pci-sysfs.c`).
fn hint_of_bar(what: &str, why: &str) -> Option<&'static str> {
    let is =
        |action: &str, errno: i32| what.starts_with(action) && why.ends_with(&format!("(os error {errno})"));
    match () {
        () if is("open BAR", EACCES) || is("open BAR", EPERM) => {
            Some("reading a register requires root: run numaio by sudo, outside of an unprivileged container")
        }
        () if is("open BAR", ENOENT) => Some(
            "this kernel offers no file that maps BARs (resourceN in the device's directory): some kernels of \
             virtual machines are built without it",
        ),
        () if is("map BAR", EPERM) => Some(
            "the kernel's lockdown forbids it, which secure boot enables (lockdown in the kernel's log): boot \
             without secure boot",
        ),
        () if is("map BAR", EINVAL) => Some(
            "a kernel with CONFIG_IO_STRICT_DEVMEM maps no BAR that a driver uses: boot with iomem=relaxed, or \
             unbind the driver",
        ),
        () if what.starts_with("read BAR") => Some("--bar N --offset BYTES reads another register"),
        () => None,
    }
}

/// Hint: which commands write documents.
pub const DOCUMENTS: &str = "numaio topology, model, stream, latency and compare write documents with --json";

/// Returns the error of a file that cannot be read.
pub fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::file(path, error);
    match error.kind() {
        io::ErrorKind::IsADirectory => failure.hint("pass the files in it"),
        io::ErrorKind::NotFound => failure.hint(DOCUMENTS),
        _ => failure,
    }
}

/// Returns the error of a file that cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "choose a file in a writable directory",
        io::ErrorKind::IsADirectory => "choose a file in it",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there, or choose another file system"
        }
        _ => "choose another path",
    };
    Failure::file(path, error).hint(hint)
}

/// Describes a fault of a TOML text in one line, with its line number.
pub fn toml_fault(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let reason = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{line}{reason}")
}

/// Returns the error of a file that is not a document, with a hint for tapes.
pub fn not_a_document(path: &Path, text: &str, error: &DocumentError) -> Failure {
    if Tape::parse(text).is_ok() {
        return Failure::file(path, "expected a document, found a tape")
            .hint(format!("use it as a machine: --machine {}", path.display()));
    }
    Failure::file(path, error).hint(match error {
        DocumentError::NotJson(error) if error.is_eof() => "the file is truncated: copy or create it again",
        DocumentError::NewerVersion { .. } => "use a newer numaio, or measure again with this one",
        _ => DOCUMENTS,
    })
}

/// Returns the error of a file that is not a model, with a hint for tapes.
pub fn not_a_model(path: &Path, text: &str, error: &DocumentError) -> Failure {
    let tape = || format!("create a model of it: numaio model --machine {}", path.display());
    match error {
        _ if Tape::parse(text).is_ok() => Failure::file(path, "expected a model, found a tape").hint(tape()),
        DocumentError::WrongKind { .. } => {
            Failure::file(path, error).hint("numaio model --json writes models")
        }
        _ => not_a_document(path, text, error),
    }
}

/// Returns the error of a handle without a device: an unknown name is a usage error.
pub fn unresolved(found: &Resolved) -> Failure {
    let finding = found.findings.first();
    let (what, remedy) = finding.map_or(("", ""), |found| (&found.message, &found.remedy));
    let what = lower(what.trim_end_matches('.'));
    let failure = match found.is_unknown() {
        true => Failure::usage(what),
        false => Failure::new(format!("no device found for '{}': {what}", found.handle)),
    };
    match remedy.trim_end_matches('.') {
        "" => failure,
        remedy => failure.hint(lower(remedy)),
    }
}

/// Lowers the first letter of a sentence, unless it starts with a name.
fn lower(sentence: &str) -> String {
    let word = sentence.split(' ').next().unwrap_or_default();
    let is_word = word.chars().skip(1).all(|c| c.is_ascii_lowercase());
    let mut chars = sentence.chars();
    match chars.next() {
        Some(first) if is_word => first.to_lowercase().chain(chars).collect(),
        _ => sentence.to_owned(),
    }
}

/// Returns the error of a file that is not a tape, with a hint for documents.
pub fn not_a_tape(name: &str, content: &[u8], error: &TapeError) -> Failure {
    let is_document = std::str::from_utf8(content).is_ok_and(|text| Document::from_json(text).is_ok());
    if is_document {
        return Failure::new(format!("{name}: expected a tape, found a document"))
            .hint("numaio report, export and compare --from read documents");
    }
    Failure::new(format!("{name}: {error}")).hint("numaio record -o FILE writes a tape")
}
