//! Command lines of Firecracker (`firecracker --help`). Most of its configuration arrives over its
//! socket, so that only its threads, memory and open files describe the guest.

use super::configuration::{GuestConfiguration, Hypervisor};

/// Parses the arguments; `None` for a run without a guest.
pub(super) fn parse(arguments: &[&str]) -> Option<GuestConfiguration> {
    if arguments.iter().any(|argument| matches!(*argument, "--version" | "--help" | "-h")) {
        return None;
    }
    let mut found = GuestConfiguration::new(Hypervisor::Firecracker);
    found.accelerator = Some("kvm".to_owned());
    let after = arguments.iter().position(|argument| *argument == "--id");
    let separate = after.and_then(|index| arguments.get(index + 1)).copied();
    let joined = arguments.iter().find_map(|argument| argument.strip_prefix("--id="));
    found.name = separate.or(joined).filter(|name| !name.is_empty()).map(str::to_owned);
    Some(found)
}
