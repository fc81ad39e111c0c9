//! Random trees of files.

use numaio_mover::port::Stamp;
use numaio_mover::simulator::{Chance, Disk, Inode, Kind, Object};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = 4_096;

fn stamp(chance: &mut Chance) -> Stamp {
    Stamp {
        seconds: chance.below(2_000_000_000) as i64 - 5_000,
        nanoseconds: chance.below(1_000_000_000) as u32,
    }
}

pub fn inode(chance: &mut Chance, object: Object) -> Inode {
    let modes = [0o644, 0o600, 0o755, 0o4755, 0o000];
    let xattrs = match chance.once_in(5) {
        true => vec![(b"user.a".to_vec().into(), chance.below(9).to_string().into_bytes().into())],
        false => Vec::new(),
    };
    let mode = modes[chance.below(5) as usize];
    let (user, group) = (chance.below(3) as u32, chance.below(3) as u32);
    Inode { object, mode, user, group, mtime: stamp(chance), xattrs }
}

/// Generates a file of this size; of a sparse file only some pages are written.
pub fn file(chance: &mut Chance, size: u64, sparse: bool) -> Object {
    let mut content = vec![0u8; size as usize];
    let mut pages = BTreeSet::new();
    for page in 0..size.div_ceil(PAGE) {
        if sparse && !chance.once_in(40) {
            continue;
        }
        let start = (page * PAGE) as usize;
        let end = content.len().min(start + PAGE as usize);
        let filled = chance.below(u64::MAX).to_le_bytes().repeat(PAGE as usize / 8);
        content[start..end].copy_from_slice(&filled[..end - start]);
        pages.insert(page);
    }
    Object::File(content, pages)
}

/// Generates an incompressible file.
fn noise(chance: &mut Chance, size: u64) -> Object {
    let content: Vec<u8> = (0..size.div_ceil(8)).flat_map(|_| chance.below(u64::MAX).to_le_bytes()).collect();
    Object::File(content[..size as usize].to_vec(), (0..size.div_ceil(PAGE)).collect())
}

fn size(chance: &mut Chance) -> u64 {
    match chance.below(12) {
        0 => 0,
        1 => 1 << 20,
        2 => (1 << 20) + 1 + chance.below(5_000),
        3 => (2 << 20) + chance.below(2 << 20),
        _ => chance.below(20_000),
    }
}

/// Generates a tree with objects of all kinds, and some large files.
pub fn source(chance: &mut Chance, large: u64) -> Disk {
    let mut disk = Disk::default();
    let mut directories: Vec<Vec<u8>> = vec![Vec::new()];
    let mut files: Vec<Vec<u8>> = Vec::new();
    for index in 0..8 + chance.below(25) {
        let above = directories[chance.below(directories.len() as u64) as usize].clone();
        let last = match chance.below(6) {
            0 => format!("{index} \n").into_bytes(),
            1 => vec![0xff, b'a' + index as u8],
            _ => format!("f{index}").into_bytes(),
        };
        let name = if above.is_empty() { last } else { [&above[..], b"/", &last].concat() };
        let object = match chance.below(14) {
            0..3 => {
                directories.push(name.clone());
                Object::Directory(BTreeMap::new())
            }
            3 => Object::Special(Kind::Symlink(b"../somewhere".to_vec().into())),
            4 => Object::Special(Kind::Fifo),
            5 => Object::Special(Kind::CharacterDevice(1, 3)),
            6 if !files.is_empty() => {
                disk.link(&files[chance.below(files.len() as u64) as usize], &name);
                continue;
            }
            7 => file(chance, 0, false),
            8 => {
                let size = 1 + chance.below(3 << 20);
                file(chance, size, true)
            }
            9 => {
                let size = size(chance);
                noise(chance, size)
            }
            _ => {
                let size = size(chance);
                file(chance, size, false)
            }
        };
        if let Object::File(..) = object {
            files.push(name.clone());
        }
        let inode = inode(chance, object);
        disk.put(&name, inode);
    }
    for index in 0..large {
        let content = file(chance, 9 << 20, false);
        let inode = inode(chance, content);
        disk.put(format!("large{index}").as_bytes(), inode);
    }
    disk
}

/// Generates a destination: some files of the source unchanged, some modified, and an extra one.
pub fn sink(chance: &mut Chance, source: &Disk) -> Disk {
    let mut disk = Disk::default();
    if chance.once_in(3) {
        return disk;
    }
    for (name, (_, inode)) in source.tree().into_iter().skip(1) {
        let is_directory = matches!(inode.object, Object::Directory(_));
        // Skip entries whose parent was skipped.
        let parent = name.iter().rposition(|&byte| byte == b'/').map(|slash| name[..slash].to_vec());
        let has_parent = parent.is_none_or(|parent| {
            disk.tree().get(&parent).is_some_and(|(_, inode)| matches!(inode.object, Object::Directory(_)))
        });
        if !has_parent {
            continue;
        }
        match chance.below(6) {
            0 | 1 if is_directory => {
                disk.put(&name, Inode { object: Object::Directory(BTreeMap::new()), ..inode });
            }
            // A symlink in place of a directory.
            2 if is_directory => {
                disk.put(
                    &name,
                    Inode { object: Object::Special(Kind::Symlink(b"/".to_vec().into())), ..inode },
                );
            }
            _ if is_directory => {}
            0 => disk.put(&name, inode),
            1 => {
                let size = chance.below(9_000);
                let object = file(chance, size, false);
                disk.put(&name, self::inode(chance, object));
            }
            2 => disk.put(&name, Inode { mode: 0o640, ..inode }),
            _ => {}
        }
    }
    let own = file(chance, 100, false);
    let own = inode(chance, own);
    disk.put(b"only here", own);
    disk
}

/// Generates one large file.
pub fn one_large(chance: &mut Chance, size: u64) -> Disk {
    let mut disk = Disk::default();
    let content = file(chance, size, false);
    let inode = inode(chance, content);
    disk.put(b"large", inode);
    disk
}

/// Generates many small files.
pub fn many(count: usize) -> Disk {
    let mut disk = Disk::default();
    let mut chance = Chance::new(1);
    let directory = inode(&mut chance, Object::Directory(BTreeMap::new()));
    disk.put(b"d", directory);
    for index in 0..count - 1 {
        let content = file(&mut chance, 10 + index as u64 % 50, false);
        let inode = inode(&mut chance, content);
        disk.put(format!("d/{index}").as_bytes(), inode);
    }
    disk
}

/// Generates versions of files named by number; if `alike`, all have one mtime and some the same
/// size.
pub fn versions(chance: &mut Chance, files: u64, alike: bool) -> Vec<Vec<Inode>> {
    let one = |chance: &mut Chance| {
        let size = match chance.below(4) {
            // Too small to be recorded.
            0 => 3 << 20,
            1 => (8 << 20) + chance.below(2 << 20),
            _ => 9 << 20,
        };
        let content = file(chance, size, false);
        let seconds = if alike { 1 } else { chance.below(1_000_000) as i64 };
        Inode { mtime: Stamp { seconds, nanoseconds: 0 }, ..inode(chance, content) }
    };
    (0..files).map(|_| (0..3).map(|_| one(chance)).collect()).collect()
}

/// Selects one version of each file for the source.
pub fn choose(chance: &mut Chance, versions: &[Vec<Inode>], source: &mut Disk) {
    for (number, versions) in versions.iter().enumerate() {
        let version = &versions[chance.below(versions.len() as u64) as usize];
        source.put(format!("f{number}").as_bytes(), version.clone());
    }
}
