//! Mounts of a process: /proc/PID/mountinfo (`Documentation/filesystems/proc.rst`, section 3.5).

use crate::locate::{DeviceNumber, PathFacts};

/// Most mounts that are looked at.
const MAX_MOUNTS: usize = 1 << 16;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Its number.
    pub id: u64,
    /// Number of its device; made up where there is no single one.
    pub on: DeviceNumber,
    /// What of the file system is mounted.
    pub root: String,
    /// Where.
    pub place: String,
    /// Type of the file system: `ext4`, `nfs4`, `fuse.sshfs`.
    pub kind: String,
    /// What is mounted, in the file system's own words.
    pub source: String,
    /// The file system's own options.
    pub options: String,
}

impl Mount {
    /// The value of an option of the file system.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Reads mountinfo; lines that are none are passed over.
pub(super) fn parse(text: &str) -> Vec<Mount> {
    text.lines().take(MAX_MOUNTS).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // Between options and type stand fields in any number, and a dash ends them.
    let (first, second) = line.split_once(" - ")?;
    let mut first = first.split(' ');
    let id = first.next()?.parse().ok()?;
    let (major, minor) = first.nth(1)?.split_once(':')?;
    let on = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let (root, place) = (plain(first.next()?), plain(first.next()?));
    let mut second = second.splitn(3, ' ');
    let (kind, source) = (second.next()?.to_owned(), plain(second.next()?));
    Some(Mount { id, on, root, place, kind, source, options: plain(second.next().unwrap_or_default()) })
}

/// A field with its octal escapes (`\040` is a blank) undone.
fn plain(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [byte, tail @ ..] = rest {
        let escaped = (*byte == b'\\').then(|| octal(tail)).flatten();
        bytes.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3)?;
    let digit = |byte: u8| char::from(byte).to_digit(8);
    let number = digits.iter().try_fold(0, |number, byte| Some(number * 8 + digit(*byte)?))?;
    u8::try_from(number).ok()
}

/// The mount that holds what was found at a path: by the mount's number, or where the kernel tells none by the
/// longest place above the path; of several at one place the last hides the others.
pub(super) fn holding<'m>(mounts: &'m [Mount], facts: &PathFacts) -> Option<&'m Mount> {
    let by_number = facts.mount.and_then(|id| mounts.iter().find(|mount| mount.id == id));
    let above = |mount: &&Mount| mount.on == facts.on && below(&facts.canonical, &mount.place).is_some();
    let by_place = || mounts.iter().filter(above).max_by_key(|mount| mount.place.len());
    by_number.or_else(by_place)
}

/// The way from `place` down to `path`, with its slash; empty for the place itself.
pub(super) fn below<'p>(path: &'p str, place: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(place.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate::PathKind;
    use proptest::prelude::*;

    const TEXT: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
41 27 253:3 / /data rw,noatime shared:1 master:2 - xfs /dev/mapper/vg-data rw,attr2
42 27 0:50 /sub /my\\040disk rw - btrfs /dev/sdb rw,space_cache=v2,subvol=/sub
43 27 253:4 / /data rw - ext4 /dev/mapper/vg-over rw
x y z
44 27 0:60 / /home rw - nfs4 store1:/home rw,vers=4.2,addr=10.0.0.9
";

    fn facts(canonical: &str, on: (u32, u32), mount: Option<u64>) -> PathFacts {
        let on = DeviceNumber { major: on.0, minor: on.1 };
        PathFacts { canonical: canonical.into(), kind: PathKind::File, on, is: None, mount }
    }

    #[test]
    fn fields_and_escapes() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 5);
        assert_eq!((mounts[2].place.as_str(), mounts[2].root.as_str()), ("/my disk", "/sub"));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].source.as_str()), ("xfs", "/dev/mapper/vg-data"));
        assert_eq!((mounts[4].option("addr"), mounts[4].option("add")), (Some("10.0.0.9"), None));
    }

    #[test]
    fn the_mount_of_a_path() {
        let mounts = parse(TEXT);
        let of = |facts: PathFacts| holding(&mounts, &facts).map(|mount| mount.id);
        assert_eq!(of(facts("/data/x", (253, 4), None)), Some(43));
        assert_eq!(of(facts("/data/x", (253, 3), None)), Some(41));
        assert_eq!(of(facts("/data/x", (253, 4), Some(41))), Some(41));
        assert_eq!(of(facts("/database", (254, 0), None)), Some(27));
        assert_eq!(of(facts("/data", (9, 9), None)), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\PC|[0-9:/ \\\\\n-]){0,80}") {
            parse(&text);
            plain(&text);
        }
    }
}
