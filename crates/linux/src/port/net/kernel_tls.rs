//! TLS whose records the kernel makes or opens (kernel TLS, Documentation/networking/tls.rst): the handshake was ours, and what is
//! sent or read after it is not copied once more within this process.
//!
//! A connection gets one of its two keys: data goes one way on each. No key is ever renewed, which Linux 6.14 was the first to
//! be able to: a connection that has used its key up ends, and the transfer goes on by a new one.

use super::records::{PlaintextBuffer, RECORD};
use super::tcp_tuning::set;
use super::{DataStream, StreamDirection};
use rustls::{CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::{size_of, size_of_val};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// What include/uapi/linux/tls.h says.
const TLS_TX: libc::c_int = 1;
const TLS_RX: libc::c_int = 2;
const SET_RECORD_TYPE: libc::c_int = 1;
const GET_RECORD_TYPE: libc::c_int = 2;
const TLS_1_3: u16 = 0x0304;
const AES_128_GCM: u16 = 51;
const CHACHA20_POLY1305: u16 = 54;

/// Types of records (RFC 8446, section 5.1), and the alert that ends a stream in order (section 6.1): a warning, and close_notify.
const ALERT: u8 = 21;
const DATA: u8 = 23;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// Room for the one word that is said with a record: its type.
type ControlBuffer = [u64; 4];

/// Whether the kernel does any of it. Asked of a connection within this host, so it has to be asked before [`crate::confine`]. Whoever
/// administers the network loads the module by asking; for others it has to be there.
pub fn has_kernel_tls() -> bool {
    CIPHERS.into_iter().any(supports)
}

const CIPHERS: [u16; 2] = [AES_128_GCM, CHACHA20_POLY1305];

/// Whether the kernel does TLS 1.3 with a cipher. A connection cannot be given back to who made the handshake, so this is tried at one
/// that nobody needs.
fn supports(cipher: u16) -> bool {
    static SUPPORTED: OnceLock<[bool; CIPHERS.len()]> = OnceLock::new();
    let supports = SUPPORTED.get_or_init(|| CIPHERS.map(|cipher| probe_cipher(cipher).is_ok()));
    CIPHERS.iter().zip(supports).any(|(other, supports)| *other == cipher && *supports)
}

fn probe_cipher(cipher: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    // Keys of zeros: nothing is sent.
    let length = if cipher == AES_128_GCM { 8 + 16 + 4 } else { 12 + 32 } + 8;
    let key = [&crypto_info_header(cipher)[..], &vec![0; length]].concat();
    attach(&socket)?;
    [TLS_TX, TLS_RX].into_iter().try_for_each(|option| set(&socket, libc::SOL_TLS, option, &key))
}

/// How a key begins (`struct tls_crypto_info`).
fn crypto_info_header(cipher: u16) -> [u8; 4] {
    let ([one, two], [three, four]) = (TLS_1_3.to_ne_bytes(), cipher.to_ne_bytes());
    [one, two, three, four]
}

/// Prepares a socket for it, which changes nothing until there is a key.
fn attach(socket: &TcpStream) -> io::Result<()> {
    set(socket, libc::SOL_TCP, libc::TCP_ULP, b"tls")
}

/// The same for a connection of some suite. False where the kernel does not do it.
pub fn prepare(socket: &TcpStream, suite: CipherSuite) -> bool {
    let cipher = match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => AES_128_GCM,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => CHACHA20_POLY1305,
        _ => return false,
    };
    supports(cipher) && attach(socket).is_ok()
}

/// A key as the kernel takes it: `struct tls12_crypto_info_aes_gcm_128`, or that of another cipher.
fn key(number: u64, secrets: &ConnectionTrafficSecrets) -> io::Result<Vec<u8>> {
    let (cipher, key, iv, salt) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AES_128_GCM, key, iv, 4),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (CHACHA20_POLY1305, key, iv, 0),
        _ => return Err(ErrorKind::Unsupported.into()),
    };
    let (salt, iv) = iv.as_ref().split_at(salt);
    Ok([&crypto_info_header(cipher), iv, key.as_ref(), salt, &number.to_be_bytes()].concat())
}

/// A connection of which the kernel makes the records that go out, or opens those that come.
pub struct KernelTls {
    socket: TcpStream,
    /// Data that came before.
    plain: PlaintextBuffer,
    /// Records that may be made before the key is used up.
    left: u64,
    /// Whether the other side said that nothing follows.
    ended: bool,
}

impl KernelTls {
    /// Takes a prepared socket over, on which no part of a record waits in this process: all that came is in `plain`. A key may be
    /// used for `most` records.
    ///
    /// # Errors
    /// The kernel's, if it does not have the cipher or this version of TLS.
    pub fn new(
        socket: TcpStream,
        secrets: ExtractedSecrets,
        way: StreamDirection,
        (plain, most): (PlaintextBuffer, u64),
    ) -> io::Result<Self> {
        let (option, (number, secrets)) = match way {
            StreamDirection::Outgoing => (TLS_TX, secrets.tx),
            StreamDirection::Incoming => (TLS_RX, secrets.rx),
        };
        set(&socket, libc::SOL_TLS, option, &key(number, &secrets)?)?;
        Ok(Self { socket, plain, left: most.saturating_sub(number), ended: false })
    }

    /// Takes what comes next: the type of a record, and how much of it there is.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(u8, usize)> {
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut message = message(&mut part, &mut control);
        // SAFETY: the buffers that the message names live until then, and have the sizes that it says.
        let count = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel wrote what the message now says, and the word lies within its length.
        let kind = unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let has_type = !header.is_null()
                && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_TLS, GET_RECORD_TYPE);
            if has_type {
                *libc::CMSG_DATA(header)
            } else {
                DATA
            }
        };
        Ok((kind, count))
    }

    /// Sends a record that is not data.
    fn send_record(&self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut message = message(&mut part, &mut control);
        // SAFETY: the kernel only reads, and the buffers that the message names live until then. There is room for a word of one byte.
        let sent = unsafe {
            message.msg_controllen = libc::CMSG_SPACE(1) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_TLS;
            (*header).cmsg_type = SET_RECORD_TYPE;
            (*header).cmsg_len = libc::CMSG_LEN(1) as _;
            *libc::CMSG_DATA(header) = kind;
            libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
        };
        match usize::try_from(sent) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(ErrorKind::WriteZero.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

fn message(part: &mut libc::iovec, control: &mut ControlBuffer) -> libc::msghdr {
    const { assert!(size_of::<ControlBuffer>() >= size_of::<libc::cmsghdr>() + size_of::<u64>()) };
    // SAFETY: a message of nothing is all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(control) as _);
    message.msg_name = null_mut();
    message
}

impl Read for KernelTls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(count) = self.plain.take(buffer) {
            return Ok(count);
        }
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        match self.receive(buffer) {
            // Nobody sends an empty record, and without a last word this is a cut.
            Ok((_, 0)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok((DATA, count)) => Ok(count),
            Ok((ALERT, count)) if buffer[..count] == CLOSE_NOTIFY => {
                self.ended = true;
                Ok(0)
            }
            // Another alert, or a new key: with a new connection there is one too.
            Ok(_) => Err(ErrorKind::ConnectionReset.into()),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => {
                Err(io::Error::new(ErrorKind::InvalidData, "a record is not as it was sent"))
            }
            Err(error) => Err(error),
        }
    }
}

impl Write for KernelTls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One more is left for the last word.
        let left = self.left.checked_sub(bytes.len().div_ceil(RECORD) as u64).filter(|left| *left > 0);
        self.left = left.ok_or_else(|| io::Error::other("its key has encrypted as much as it may"))?;
        (&self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DataStream for KernelTls {
    fn close(&mut self) -> io::Result<()> {
        self.send_record(ALERT, &CLOSE_NOTIFY)?;
        self.socket.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn into_one_way(self: Box<Self>, _: StreamDirection) -> io::Result<Box<dyn DataStream>> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that the kernel knows no key of: what it carries is as it was written.
    fn pair(left: u64) -> (KernelTls, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let other = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (socket, _) = listener.accept().expect("a connection");
        (
            KernelTls {
                socket,
                plain: PlaintextBuffer { bytes: b"*before".to_vec(), taken: 1 },
                left,
                ended: false,
            },
            other,
        )
    }

    #[test]
    fn a_key_is_used_for_no_more_records_than_it_may() {
        let (mut tls, mut other) = pair(4);
        tls.write_all(&[7; RECORD]).expect("the first");
        tls.write_all(&[7; RECORD + 1]).expect("the second and the third");
        let spent = tls.write_all(&[7]).expect_err("the last one is for the last word");
        assert_eq!(spent.to_string(), "its key has encrypted as much as it may");
        let mut came = vec![0; 2 * RECORD + 1];
        other.read_exact(&mut came).expect("what was written");
    }

    #[test]
    fn what_came_before_comes_first_and_an_end_without_a_word_is_a_cut() {
        let (mut tls, mut other) = pair(0);
        other.write_all(b", after").expect("written");
        drop(other);
        let mut came = [0; 13];
        tls.read_exact(&mut came).expect("both");
        assert_eq!(&came, b"before, after");
        assert_eq!(tls.read(&mut came).expect_err("a cut").kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn keys_are_as_the_kernel_takes_them() {
        let iv = rustls::crypto::cipher::Iv::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let secrets = ConnectionTrafficSecrets::Chacha20Poly1305 { key: [77; 32].into(), iv };
        let chacha = key(258, &secrets).expect("a key");
        let words = [TLS_1_3.to_ne_bytes(), CHACHA20_POLY1305.to_ne_bytes()].concat();
        let rest =
            [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..], &[77; 32], &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
        assert_eq!(chacha, [words, rest].concat());
    }
}
