//! Members of a stack: which of them carry I/O now, and how the kernel divides it among them.

/// A member of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// The name of its device, interface, host or path.
    pub name: String,
    /// The state in which it carries nothing now: `spare`, `faulty`, `standby`, `link down`.
    pub idle: Option<String>,
}

/// How the kernel divides I/O among the members that carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Division {
    /// Evenly.
    Even,
    /// Not as the kernel promises, and why: a sentence without its full stop.
    Unpromised(&'static str),
}

/// The members of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Members {
    pub members: Vec<Member>,
    pub division: Division,
    /// The kind of the stack, with its mode: `raid5`, `bond 802.3ad 4`.
    pub kind: String,
}

impl Members {
    /// Creates a stack whose members all carry I/O, each an unknown part of it.
    pub fn unpromised(names: impl IntoIterator<Item = String>, kind: &str, why: &'static str) -> Self {
        let members = names.into_iter().map(|name| Member { name, idle: None }).collect();
        Self { members, division: Division::Unpromised(why), kind: kind.to_owned() }
    }

    /// Counts an only member as active: without another, its state decides nothing.
    pub fn keep_only_member(&mut self) {
        if let [only] = self.members.as_mut_slice() {
            only.idle = None;
        }
    }

    /// Returns whether a member carries I/O now.
    pub fn is_active(&self) -> bool {
        self.members.iter().any(|member| member.idle.is_none())
    }

    /// Returns the kind and the names of all members: `raid1: sda sdb`.
    pub fn value(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
        match self.kind.as_str() {
            "" => names.join(" "),
            kind => format!("{kind}: {}", names.join(" ")),
        }
    }
}
