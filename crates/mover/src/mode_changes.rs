//! Changes of modes, in the syntax of rsync's `--chmod`, which is that of chmod(1) with prefixes.

use std::fmt;

/// The bits that chmod(2) sets.
const MODE_BITS: u32 = 0o7777;
/// Permission to execute, of all.
const EXECUTE: u32 = 0o111;
const STICKY: u32 = 0o1000;
/// Set-user-ID, which is set if `s` is given without a class.
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The objects whose modes change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ChangedObjects {
    #[default]
    All,
    Directories,
    Others,
}

/// A single change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ModeChange {
    objects: ChangedObjects,
    /// Bits to keep.
    keep: u32,
    /// Bits to set.
    set: u32,
    /// The class whose permissions are set for those of `copied_to` (`g=u`): its shift in the mode.
    copied_from: Option<u32>,
    /// Permission to execute, of the classes that get copied permissions.
    copied_to: u32,
    /// The bits that a copy may change.
    allowed: u32,
    /// Whether a copy is subtracted.
    removes: bool,
    /// Whether permission to execute is set only for directories and executable files (`X`).
    conditional: bool,
}

/// Changes of modes, which are applied in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModeChanges(Vec<ModeChange>);

/// Why changes of modes cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidModeChange;

impl fmt::Display for InvalidModeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected changes such as Du=rwx,Dgo=rx,Fu=rw,go-w or F644, separated by commas")
    }
}

impl std::error::Error for InvalidModeChange {}

impl ModeChanges {
    /// Parses changes. `umask` limits those without a class (`+w`), as for chmod(1).
    ///
    /// # Errors
    /// [`InvalidModeChange`].
    pub fn parse(text: &str, umask: u32) -> Result<Self, InvalidModeChange> {
        text.split(',').map(|one| ModeChange::parse(one, umask)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the changed mode of an object that is not a symbolic link.
    pub fn apply(&self, mode: u32, is_directory: bool) -> u32 {
        let is_executable = mode & EXECUTE != 0;
        let concerned = self.0.iter().filter(|change| match change.objects {
            ChangedObjects::All => true,
            ChangedObjects::Directories => is_directory,
            ChangedObjects::Others => !is_directory,
        });
        concerned.fold(mode, |mode, change| {
            let leaves_execute = change.conditional && !is_executable && !is_directory;
            let copied = change
                .copied_from
                .map_or(0, |shift| ((mode >> shift & 7) * change.copied_to) & change.allowed);
            let set = if leaves_execute { change.set & !EXECUTE } else { change.set };
            match change.removes {
                true => mode & change.keep & !copied,
                false => mode & change.keep | set | copied,
            }
        })
    }
}

impl ModeChange {
    fn parse(text: &str, umask: u32) -> Result<Self, InvalidModeChange> {
        let (objects, text) = match text.as_bytes() {
            [b'D', ..] => (ChangedObjects::Directories, &text[1..]),
            [b'F', ..] => (ChangedObjects::Others, &text[1..]),
            _ => (ChangedObjects::All, text),
        };
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= MODE_BITS);
            let set = bits.ok_or(InvalidModeChange)?;
            return Ok(Self { objects, keep: 0, set, ..Self::default() });
        }
        let operator = text.find(['+', '-', '=']).ok_or(InvalidModeChange)?;
        let (classes, permissions) = (&text[..operator], &text[operator + 1..]);
        // One bit of each class, and the set-ID bits of the classes.
        let (mut class, mut set_id) = (0, 0);
        for letter in classes.bytes() {
            let (bit, id) = match letter {
                b'u' => (0o100, SET_USER_ID),
                b'g' => (0o010, SET_GROUP_ID),
                b'o' => (0o001, 0),
                b'a' => (EXECUTE, 0),
                _ => return Err(InvalidModeChange),
            };
            (class, set_id) = (class | bit, set_id | id);
        }
        let allowed = if class == 0 { !umask } else { !0 };
        let class = if class == 0 { EXECUTE } else { class };
        let operator = text.as_bytes()[operator];
        if let Some(shift) = copied_class(permissions) {
            return Ok(Self::copy(objects, operator, class, allowed, shift));
        }
        let (mut what, mut special, mut conditional) = (0, 0, false);
        for letter in permissions.bytes() {
            match letter {
                b'r' => what |= 4,
                b'w' => what |= 2,
                b'x' => what |= 1,
                b'X' => (what, conditional) = (what | 1, true),
                b's' => special |= if set_id == 0 { SET_USER_ID } else { set_id },
                b't' => special |= STICKY,
                _ => return Err(InvalidModeChange),
            }
        }
        let bits = ((class * what) & allowed) | special;
        let cleared = (class * 7) | if special == 0 { 0 } else { set_id };
        let (keep, set) = match operator {
            b'+' => (MODE_BITS, bits),
            b'-' => (MODE_BITS & !bits, 0),
            _ => (MODE_BITS & !cleared, bits),
        };
        Ok(Self { objects, keep, set, conditional, ..Self::default() })
    }

    /// Returns a change that copies the permissions of the class at `shift` (`g=u`).
    fn copy(objects: ChangedObjects, operator: u8, class: u32, allowed: u32, shift: u32) -> Self {
        // As for chmod(1), `=` also clears the set-ID bits and the sticky bit of the classes.
        let special = [(0o100, SET_USER_ID), (0o010, SET_GROUP_ID), (0o001, STICKY)];
        let special = special.iter().filter(|(bit, _)| class & bit != 0).fold(0, |all, (_, bit)| all | bit);
        let keep = if operator == b'=' { MODE_BITS & !((class * 7) | special) } else { MODE_BITS };
        let removes = operator == b'-';
        Self {
            objects,
            keep,
            removes,
            copied_from: Some(shift),
            copied_to: class,
            allowed,
            ..Self::default()
        }
    }
}

/// Returns the position of the class whose permissions are copied, if the letters name one.
fn copied_class(permissions: &str) -> Option<u32> {
    match permissions {
        "u" => Some(6),
        "g" => Some(3),
        "o" => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octal modes of an executable, another file and a directory after the changes.
    fn changed(text: &str) -> [u32; 3] {
        let changes = ModeChanges::parse(text, 0o022).expect(text);
        [changes.apply(0o755, false), changes.apply(0o640, false), changes.apply(0o2750, true)]
    }

    #[test]
    fn applies_changes_as_chmod_does() {
        for (text, expected) in [
            ("644", [0o644, 0o644, 0o644]),
            ("D2755,F600", [0o600, 0o600, 0o2755]),
            ("u=rwX,g=rX,o=", [0o750, 0o640, 0o2750]),
            ("go-w", [0o755, 0o640, 0o2750]),
            ("a+rX", [0o755, 0o644, 0o2755]),
            // The umask limits changes without a class.
            ("+w", [0o755, 0o640, 0o2750]),
            ("=rw", [0o644, 0o644, 0o2644]),
            ("a=", [0, 0, 0o2000]),
            ("Dg+s,Fo=t", [0o1750, 0o1640, 0o2750]),
            ("u+s,g-s", [0o4755, 0o4640, 0o4750]),
            ("ug=s", [0o6005, 0o6000, 0o6000]),
            ("g=u,o=g", [0o777, 0o666, 0o777]),
            ("g-u,o+g", [0o705, 0o600, 0o2700]),
            ("=u", [0o755, 0o644, 0o755]),
            ("F-x,ugo+r", [0o644, 0o644, 0o2754]),
        ] {
            let changed = changed(text);
            assert_eq!(
                changed.map(|mode| format!("{mode:o}")),
                expected.map(|mode| format!("{mode:o}")),
                "{text}"
            );
        }
    }

    #[test]
    fn rejects_other_texts() {
        for text in [
            "", "u", "rwx", "u=rw,", "z+r", "u+z", "8", "17777", "DF644", "u=gr", "g=u+x", "D", "644x", "ü=r",
        ] {
            assert_eq!(ModeChanges::parse(text, 0), Err(InvalidModeChange), "{text}");
        }
    }
}
