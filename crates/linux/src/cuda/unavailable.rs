//! Reasons why CUDA is unavailable.

use numaio_machine::probe::ProbeError;
use std::io;

/// Device files through which the driver library accesses the kernel driver.
const DEVICE_FILES: [&str; 3] = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"];

/// Driver codes (`CUresult`) for a missing device: `CUDA_ERROR_STUB_LIBRARY`,
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: [i32; 2] = [34, 100];

/// `CUDA_ERROR_NOT_PERMITTED`.
const NOT_PERMITTED: i32 = 800;

/// Reason why no GPU is usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaUnavailable {
    /// A static binary cannot load libraries.
    #[error("this numaio is linked statically, so it cannot load the CUDA driver library")]
    Static,
    /// The driver library cannot be loaded.
    #[error("no GPU found: cannot load the CUDA driver library: {why}")]
    NoLibrary {
        /// The loader's message.
        why: String,
    },
    /// The library lacks a required function.
    #[error("the CUDA driver library lacks {function}: CUDA 11 or newer is needed")]
    Incomplete {
        /// The missing function.
        function: String,
    },
    /// The driver found no device.
    #[error("no GPU found: the CUDA driver library finds no device ({name})")]
    NoDevice {
        /// The driver's name of the error.
        name: String,
    },
    /// A device exists but this process lacks permission for it.
    #[error("no permission to use the GPU: {what}: {why}")]
    NoPermission {
        /// The device file or driver call.
        what: String,
        /// The kernel's or driver's message.
        why: String,
    },
    /// The driver returned another error.
    #[error("CUDA driver error: {call}: {name}")]
    Failed {
        /// The driver call.
        call: String,
        /// The driver's name of the error.
        name: String,
    },
}

impl CudaUnavailable {
    /// Converts an error during device discovery. `open` opens a file for reading and writing.
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
        // Without permission for these files, the library reports that there is no device.
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
        Self::Refused { call: "GPU".to_owned(), reason: absent.to_string() }
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
    fn distinguishes_missing_device_permission_and_failure() {
        let (denied, missing) = (Some(io::ErrorKind::PermissionDenied), Some(io::ErrorKind::NotFound));
        assert!(of(100, missing).starts_with("no GPU found: the CUDA driver library finds no device"));
        assert!(of(100, denied).starts_with("no permission to use the GPU: /dev/nvidiactl: "));
        assert_eq!(of(800, None), "no permission to use the GPU: cuInit: CODE_800");
        assert_eq!(of(999, missing), "CUDA driver error: cuInit: CODE_999");
    }
}
