//! Why there is no GPU to be used.

use numaio_machine::probe::ProbeError;
use std::io;

/// Files by which the driver library reaches the kernel's driver.
const DEVICE_FILES: [&str; 3] = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"];

/// Codes of the driver (`CUresult`) that stand for an absent device: `CUDA_ERROR_STUB_LIBRARY`,
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: [i32; 2] = [34, 100];

/// `CUDA_ERROR_NOT_PERMITTED`.
const NOT_PERMITTED: i32 = 800;

/// Why there is no GPU to be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaUnavailable {
    /// A static binary cannot load libraries.
    #[error("this numaio is linked statically, so it cannot load the CUDA driver library")]
    Static,
    /// The library is not there.
    #[error("no GPU found: there is no CUDA driver library ({why})")]
    NoLibrary {
        /// The loader's words.
        why: String,
    },
    /// The library is too old, or none of NVIDIA's.
    #[error("the CUDA driver library has no {function}: CUDA 11 or newer is needed")]
    Incomplete {
        /// What it lacks.
        function: String,
    },
    /// The library finds no device.
    #[error("no GPU found: the CUDA driver library is there, and finds no device ({name})")]
    NoDevice {
        /// The driver's name of the error.
        name: String,
    },
    /// There is a device, and this process may not use it.
    #[error("no permission to use the GPU: {what}: {why}")]
    NoPermission {
        /// The file, or the driver's call.
        what: String,
        /// The kernel's or the driver's words.
        why: String,
    },
    /// The driver fails otherwise.
    #[error("the CUDA driver fails: {call}: {name}")]
    Failed {
        /// Its function.
        call: String,
        /// Its name of the error.
        name: String,
    },
}

impl CudaUnavailable {
    /// Why a function of the driver failed before any device was found. `open` opens a file for reading and writing.
    pub(super) fn of_code(
        call: &str,
        code: i32,
        name: String,
        open: impl Fn(&str) -> io::Result<()>,
    ) -> Self {
        let refused = |file: &&str| {
            let error = open(file).err().filter(|error| error.kind() == io::ErrorKind::PermissionDenied)?;
            Some(Self::NoPermission { what: (*file).to_owned(), why: error.to_string() })
        };
        // Without the right to open these files, the library says that there is no device.
        if let Some(refused) = DEVICE_FILES.iter().find_map(refused) {
            return refused;
        }
        match code {
            NOT_PERMITTED => Self::NoPermission { what: call.to_owned(), why: name },
            code if NO_DEVICE.contains(&code) => Self::NoDevice { name },
            _ => Self::Failed { call: call.to_owned(), name },
        }
    }
}

impl From<CudaUnavailable> for ProbeError {
    fn from(absent: CudaUnavailable) -> Self {
        Self::Refused { what: "GPU".to_owned(), why: absent.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32, error: Option<io::ErrorKind>) -> String {
        let open = |file: &str| match error {
            Some(kind) if file == "/dev/nvidiactl" => Err(io::Error::from(kind)),
            _ => Ok(()),
        };
        CudaUnavailable::of_code("cuInit", code, format!("CODE_{code}"), open).to_string()
    }

    #[test]
    fn no_device_no_permission_and_failure_are_told_apart() {
        let (denied, missing) = (Some(io::ErrorKind::PermissionDenied), Some(io::ErrorKind::NotFound));
        assert!(of(100, missing).starts_with("no GPU found: the CUDA driver library is there"));
        assert!(of(100, denied).starts_with("no permission to use the GPU: /dev/nvidiactl: "));
        assert_eq!(of(800, None), "no permission to use the GPU: cuInit: CODE_800");
        assert_eq!(of(999, missing), "the CUDA driver fails: cuInit: CODE_999");
    }
}
