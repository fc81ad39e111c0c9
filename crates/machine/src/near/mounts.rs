//! Mounts of a process: /proc/PID/mountinfo (`Documentation/filesystems/proc.rst`, section 3.5).

use crate::locate::{DeviceNumber, PathFacts};

/// Maximum number of mounts to read.
const MAX_MOUNTS: usize = 1 << 16;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Mount id.
    pub id: u64,
    /// Device number; anonymous for file systems without a single device.
    pub on: DeviceNumber,
    /// Mounted directory within the file system.
    pub root: String,
    /// Mount point.
    pub place: String,
    /// File system type: `ext4`, `nfs4`, `fuse.sshfs`.
    pub kind: String,
    /// Mount source, in a file-system-specific format.
    pub source: String,
    /// File-system-specific options.
    pub options: String,
}

impl Mount {
    /// Returns the value of a file system option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Parses mountinfo, skipping malformed lines.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().take(MAX_MOUNTS).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // A dash ends a variable number of optional fields.
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

/// Decodes the octal escapes of a field (`\040` is a blank).
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

/// Returns the mount of a path: by mount id, or without it by the longest matching mount point.
///
/// The last of several mounts at the same point hides the others.
pub(super) fn holding<'m>(mounts: &'m [Mount], facts: &PathFacts) -> Option<&'m Mount> {
    let by_number = facts.mount.and_then(|id| mounts.iter().find(|mount| mount.id == id));
    let above = |mount: &&Mount| mount.on == facts.dev && below(&facts.canonical, &mount.place).is_some();
    let by_place = || mounts.iter().filter(above).max_by_key(|mount| mount.place.len());
    by_number.or_else(by_place)
}

/// Returns the part of `path` below `place`, with its leading slash; empty for `place` itself.
pub(crate) fn below<'p>(path: &'p str, place: &str) -> Option<&'p str> {
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
        PathFacts { canonical: canonical.into(), kind: PathKind::File, dev: on, rdev: None, mount }
    }

    #[test]
    fn parses_mountinfo_fields_and_escapes() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 5);
        assert_eq!((mounts[2].place.as_str(), mounts[2].root.as_str()), ("/my disk", "/sub"));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].source.as_str()), ("xfs", "/dev/mapper/vg-data"));
        assert_eq!((mounts[4].option("addr"), mounts[4].option("add")), (Some("10.0.0.9"), None));
    }

    #[test]
    fn finds_the_mount_of_a_path() {
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
