//! Kernel TLS (Documentation/networking/tls.rst): the kernel encrypts or decrypts the records after
//! our handshake, which avoids a copy within this process.
//!
//! Each connection carries data in one direction, so the kernel gets one of its two keys. Keys are
//! never updated, which requires Linux 6.14: a connection whose key is used up ends, and the
//! transfer resumes with a new one.

use super::plaintext::{PlaintextBuffer, RECORD};
use crate::port::net::data_stream::{DataStream, StreamDirection};
use crate::port::net::tcp_tuning::set;
use rustls::{CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::{size_of, size_of_val};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Constants of include/uapi/linux/tls.h.
const TLS_TX: libc::c_int = 1;
const TLS_RX: libc::c_int = 2;
const SET_RECORD_TYPE: libc::c_int = 1;
const GET_RECORD_TYPE: libc::c_int = 2;
const TLS_1_3: u16 = 0x0304;
const AES_128_GCM: u16 = 51;
const CHACHA20_POLY1305: u16 = 54;

/// Record types (RFC 8446, section 5.1), and the close_notify alert, a warning (section 6.1).
const ALERT: u8 = 21;
const DATA: u8 = 23;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// Space for one control message, which holds the type of a record.
type ControlBuffer = [u64; 4];

/// Returns whether the kernel supports TLS. This opens a loopback connection, so call it before
/// [`crate::confine`]. With CAP_NET_ADMIN the call loads the kernel module; other users need it
/// loaded.
pub fn has_kernel_tls() -> bool {
    CIPHERS.into_iter().any(supports)
}

const CIPHERS: [u16; 2] = [AES_128_GCM, CHACHA20_POLY1305];

/// Returns whether the kernel supports TLS 1.3 with a cipher. Tested on a separate connection,
/// since a connection cannot be returned to rustls.
fn supports(cipher: u16) -> bool {
    static SUPPORTED: OnceLock<[bool; CIPHERS.len()]> = OnceLock::new();
    let supports = SUPPORTED.get_or_init(|| CIPHERS.map(|cipher| probe_cipher(cipher).is_ok()));
    CIPHERS.iter().zip(supports).any(|(other, supports)| *other == cipher && *supports)
}

fn probe_cipher(cipher: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    // All-zero keys: nothing is sent.
    let length = if cipher == AES_128_GCM { 8 + 16 + 4 } else { 12 + 32 } + 8;
    let key = [&crypto_info_header(cipher)[..], &vec![0; length]].concat();
    attach(&socket)?;
    [TLS_TX, TLS_RX].into_iter().try_for_each(|option| set(&socket, libc::SOL_TLS, option, &key))
}

/// Returns the header of a key (`struct tls_crypto_info`).
fn crypto_info_header(cipher: u16) -> [u8; 4] {
    let ([one, two], [three, four]) = (TLS_1_3.to_ne_bytes(), cipher.to_ne_bytes());
    [one, two, three, four]
}

/// Attaches TLS to a socket, which has no effect until a key is set.
fn attach(socket: &TcpStream) -> io::Result<()> {
    set(socket, libc::SOL_TCP, libc::TCP_ULP, b"tls")
}

/// Attaches TLS for a cipher suite. False if the kernel does not support it.
pub fn prepare(socket: &TcpStream, suite: CipherSuite) -> bool {
    let cipher = match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => AES_128_GCM,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => CHACHA20_POLY1305,
        _ => return false,
    };
    supports(cipher) && attach(socket).is_ok()
}

/// Encodes a key for the kernel: `struct tls12_crypto_info_aes_gcm_128`, or that of another cipher.
fn key(number: u64, secrets: &ConnectionTrafficSecrets) -> io::Result<Vec<u8>> {
    let (cipher, key, iv, salt) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AES_128_GCM, key, iv, 4),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (CHACHA20_POLY1305, key, iv, 0),
        _ => return Err(ErrorKind::Unsupported.into()),
    };
    let (salt, iv) = iv.as_ref().split_at(salt);
    Ok([&crypto_info_header(cipher), iv, key.as_ref(), salt, &number.to_be_bytes()].concat())
}

/// A connection whose records the kernel encrypts or decrypts.
pub struct KernelTls {
    socket: TcpStream,
    /// Data decrypted before the kernel took over.
    plain: PlaintextBuffer,
    /// Records that the key may still encrypt.
    left: u64,
    /// Whether the peer has closed its stream.
    ended: bool,
}

impl KernelTls {
    /// Moves a prepared socket to the kernel. No part of a record may be buffered in this process:
    /// all received data is in `plain`. A key may encrypt `most` records.
    ///
    /// # Errors
    /// I/O error if the kernel lacks the cipher or the TLS version.
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

    /// Receives a record or a part of it, and returns its type and length.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(u8, usize)> {
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut message = message(&mut part, &mut control);
        // SAFETY: the buffers that the message refers to live through the call and have the given
        // sizes.
        let count = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel wrote the control data that the message describes, and the header lies
        // within it.
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
        // SAFETY: the kernel only reads; the buffers that the message refers to live through the
        // call. The control buffer has space for one byte.
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
    // SAFETY: an all-zero message is valid and empty.
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
            // Peers send no empty records, so without close_notify the connection is lost.
            Ok((_, 0)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok((DATA, count)) => Ok(count),
            Ok((ALERT, count)) if buffer[..count] == CLOSE_NOTIFY => {
                self.ended = true;
                Ok(0)
            }
            // Another alert, or a key update: a new connection gets a new key.
            Ok(_) => Err(ErrorKind::ConnectionReset.into()),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => {
                Err(io::Error::new(ErrorKind::InvalidData, "corrupted TLS record"))
            }
            Err(error) => Err(error),
        }
    }
}

impl Write for KernelTls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One record is reserved for close_notify.
        let left = self.left.checked_sub(bytes.len().div_ceil(RECORD) as u64).filter(|left| *left > 0);
        self.left = left.ok_or_else(|| io::Error::other("the TLS key has reached its record limit"))?;
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

    /// Returns a connection without a key, which carries plaintext.
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
    fn key_is_not_used_beyond_its_record_limit() {
        let (mut tls, mut other) = pair(4);
        tls.write_all(&[7; RECORD]).expect("the first");
        tls.write_all(&[7; RECORD + 1]).expect("the second and the third");
        let spent = tls.write_all(&[7]).expect_err("one record is reserved");
        assert_eq!(spent.to_string(), "the TLS key has reached its record limit");
        let mut came = vec![0; 2 * RECORD + 1];
        other.read_exact(&mut came).expect("what was written");
    }

    #[test]
    fn buffered_data_comes_first_and_eof_without_close_notify_is_an_error() {
        let (mut tls, mut other) = pair(0);
        other.write_all(b", after").expect("written");
        drop(other);
        let mut came = [0; 13];
        tls.read_exact(&mut came).expect("both");
        assert_eq!(&came, b"before, after");
        assert_eq!(tls.read(&mut came).expect_err("a cut").kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn key_layout_matches_the_kernel() {
        let iv = rustls::crypto::cipher::Iv::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let secrets = ConnectionTrafficSecrets::Chacha20Poly1305 { key: [77; 32].into(), iv };
        let chacha = key(258, &secrets).expect("a key");
        let words = [TLS_1_3.to_ne_bytes(), CHACHA20_POLY1305.to_ne_bytes()].concat();
        let rest =
            [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..], &[77; 32], &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
        assert_eq!(chacha, [words, rest].concat());
    }
}
