"""A FUSE file system over a directory that lacks abilities (include/uapi/linux/fuse.h).

Arguments: the directory, the mount point, and what it lacks:

offsets   data is accepted only at the end of a file that was emptied when it was opened, and is
          still open for writing alone; a file that was flushed has ended
renames   ENOSYS        replacing  a rename over an existing file gives EPERM
removal   EPERM         times      setting them gives EPERM
modes     EPERM         sizes      changing the size of an open file gives EPERM
locks     flock(2) gives ENOSYS
inodes    each answer has another inode number
"""
import ctypes, errno, os, stat, struct, sys, time

base, mount_point, lacks = sys.argv[1], sys.argv[2], set(sys.argv[3:])
device = os.open('/dev/fuse', os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f'fd={device},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()
if libc.mount(b'numaio', mount_point.encode(), b'fuse', 6, options):
    sys.exit('cannot mount: ' + os.strerror(ctypes.get_errno()))
os.umask(0)
os.chdir(base)
paths, nodes, handles, count = {1: b'.'}, {b'.': 1}, {}, 1000


class Handle:
    def __init__(self, fd, empty=False):
        self.fd, self.end, self.ended = fd, 0 if empty else None, False


def refuse(what, error, unless=False):
    if what in lacks and not unless:
        raise OSError(error, what)


def node_of(path):
    if path not in nodes:
        nodes[path] = max(paths) + 1
        paths[nodes[path]] = path
    return nodes[path]


def forget(path):
    for old in [old for old in nodes if old == path or old.startswith(path + b'/')]:
        paths.pop(nodes.pop(old))


def attributes(found):
    global count
    count += 1
    inode = count if 'inodes' in lacks else found.st_ino
    times = [found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns]
    return struct.pack('=6Q10I', inode, found.st_size, found.st_blocks,
                       *[time // 10**9 for time in times], *[time % 10**9 for time in times],
                       found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_rdev, 4096, 0)


def entry(path):
    return struct.pack('=QQQQII', node_of(path), 0, 0, 0, 0, 0) + attributes(os.lstat(path))


def opened(handle):
    number = max(handles, default=0) + 1
    handles[number] = handle
    return struct.pack('=QII', number, 0, 0)


def set_attributes(path, body):
    fields = struct.unpack_from('=2I6Q7I', body)
    valid, size, atime, mtime, atime_ns, mtime_ns, mode, user, group = (fields[at] for at in (0, 3, 5, 6, 8, 9, 11, 13, 14))
    if valid & 1:
        refuse('modes', errno.EPERM)
        os.chmod(path, mode & 0o7777)
    if valid & 6:
        os.lchown(path, user if valid & 2 else -1, group if valid & 4 else -1)
    if valid & 8:
        refuse('offsets', errno.EPERM, size == os.lstat(path).st_size)
        refuse('sizes', errno.EPERM)
        os.truncate(path, size)
    if valid & 0x1b0:
        refuse('times', errno.EPERM)
        now = os.lstat(path)
        def chosen(bit, seconds, ns, old):
            if not valid & bit:
                return old
            return time.time_ns() if valid & bit << 3 else seconds * 10**9 + ns
        both = (chosen(16, atime, atime_ns, now.st_atime_ns), chosen(32, mtime, mtime_ns, now.st_mtime_ns))
        os.utime(path, ns=both, follow_symlinks=False)


def open_file(path, flags):
    access = flags & os.O_ACCMODE
    if access != os.O_RDONLY:
        refuse('offsets', errno.EPERM, access == os.O_WRONLY and flags & os.O_TRUNC)
    fd = os.open(path, access | flags & os.O_TRUNC)
    return opened(Handle(fd, flags & os.O_TRUNC))


def write(handle, offset, data):
    if 'offsets' in lacks:
        if handle.ended:
            raise OSError(errno.EBADF, 'ended')
        if offset != handle.end:
            raise OSError(errno.EINVAL, 'not at the end')
    handle.end = offset + os.pwrite(handle.fd, data, offset)
    return struct.pack('=II', handle.end - offset, 0)


def rename(old, new):
    refuse('renames', errno.ENOSYS)
    refuse('replacing', errno.EPERM, not os.path.lexists(new))
    os.rename(old, new)
    for path in [path for path in nodes if path == new or path.startswith(new + b'/')]:
        paths.pop(nodes.pop(path))
    for path in [path for path in nodes if path == old or path.startswith(old + b'/')]:
        node = nodes.pop(path)
        nodes[new + path[len(old):]], paths[node] = node, new + path[len(old):]


def list_directory(path, offset, size):
    names, reply = [b'.', b'..'] + sorted(os.listdir(path)), b''
    for index, name in list(enumerate(names))[offset:]:
        kind = stat.S_IFMT(os.lstat(os.path.join(path, name)).st_mode) >> 12
        one = struct.pack('=QQII', index + 7, index + 1, len(name), kind) + name
        one += bytes(-len(one) % 8)
        if len(reply) + len(one) > size:
            break
        reply += one
    return reply


def answer(opcode, node, body):
    path = paths.get(node, b'')
    name = lambda start: os.path.join(path, body[start:].split(b'\0')[0])
    if opcode == 26:
        print('mounted', flush=True)
        # Version 7.17 with O_TRUNC in open, and large writes. The kernel locks, unless it asks for flock.
        flags = 8 | 32 | (1 << 10 if 'locks' in lacks else 0)
        return struct.pack('=IIIIII', 7, 17, 0, flags, 0, 1 << 17)
    if opcode == 1:
        return entry(name(0))
    if opcode == 3:
        return struct.pack('=QII', 0, 0, 0) + attributes(os.lstat(path))
    if opcode == 4:
        set_attributes(path, body)
        return struct.pack('=QII', 0, 0, 0) + attributes(os.lstat(path))
    if opcode == 5:
        return os.readlink(path)
    if opcode == 6:
        at, target = body.split(b'\0')[:2]
        os.symlink(target, os.path.join(path, at))
        return entry(name(0))
    if opcode == 9:
        os.mkdir(name(8), struct.unpack_from('=I', body)[0])
        return entry(name(8))
    if opcode in (10, 11):
        refuse('removal', errno.EPERM)
        (os.unlink if opcode == 10 else os.rmdir)(name(0))
        return forget(name(0)) or b''
    if opcode in (12, 45):
        start = 8 if opcode == 12 else 16
        old, new = body[start:].split(b'\0')[:2]
        return rename(os.path.join(path, old), os.path.join(paths[struct.unpack_from('=Q', body)[0]], new)) or b''
    if opcode == 13:
        refuse('offsets', errno.EPERM)
        os.link(paths[struct.unpack_from('=Q', body)[0]], name(8), follow_symlinks=False)
        return entry(name(8))
    if opcode == 14:
        return open_file(path, struct.unpack_from('=I', body)[0])
    if opcode == 15:
        fh, offset, size = struct.unpack_from('=QQI', body)
        return os.pread(handles[fh].fd, size, offset)
    if opcode == 16:
        fh, offset, size = struct.unpack_from('=QQI', body)
        return write(handles[fh], offset, body[40:40 + size])
    if opcode == 17:
        found = os.statvfs(base)
        counts = [found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree]
        return struct.pack('=5Q10I', *counts, found.f_bsize, 255, found.f_frsize, *[0] * 7)
    if opcode == 18:
        os.close(handles.pop(struct.unpack_from('=Q', body)[0]).fd)
        return b''
    if opcode in (20, 25):
        handle = handles[struct.unpack_from('=Q', body)[0]]
        handle.ended = bool(handle.end)
        return b''
    if opcode == 27:
        return bytes(16)
    if opcode == 28:
        _, offset, size = struct.unpack_from('=QQI', body)
        return list_directory(path, offset, size)
    if opcode in (29, 30):
        return b''
    if opcode in (31, 32, 33):
        refuse('locks', errno.ENOSYS)
        return b''
    if opcode == 35:
        flags, mode = struct.unpack_from('=II', body)
        refuse('offsets', errno.EPERM, flags & os.O_ACCMODE != os.O_RDWR)
        fd = os.open(name(16), flags & (os.O_ACCMODE | os.O_EXCL | os.O_TRUNC) | os.O_CREAT, mode)
        return entry(name(16)) + opened(Handle(fd, True))
    raise OSError(errno.ENOSYS, 'not known')


while True:
    try:
        request = os.read(device, 1 << 20)
    except OSError as failure:
        if failure.errno in (errno.EINTR, errno.ENOENT):
            continue
        sys.exit()
    _, opcode, unique, node = struct.unpack_from('=IIQQ', request)
    if opcode in (2, 36, 42):
        continue
    error, body = 0, b''
    try:
        body = answer(opcode, node, request[40:])
    except OSError as failure:
        error = -failure.errno
    os.write(device, struct.pack('=IiQ', 16 + len(body), error, unique) + body)
