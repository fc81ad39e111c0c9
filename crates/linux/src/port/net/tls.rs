//! TLS 1.3 (RFC 8446) with raw public keys (RFC 7250): each side makes a key for one transfer, tells its public half
//! through the control channel, and takes nobody else than who has the private half of the key that it was told.
//!
//! There are no certificates: no names, dates and authorities that would have to be checked. No session is resumed, and
//! nothing is sent before the handshake is over on both sides.

use super::timed::{why, Timed};
use super::{Lane, NetError};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, ClientConnectionData, Resumption, UnbufferedClientConnection,
};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group, sign::any_eddsa_type};
use rustls::crypto::{verify_tls13_signature_with_raw_key, CryptoProvider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerConnectionData, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Bytes that come are read into a buffer of so many: some records of 16 KiB.
const INCOMING: usize = 128 << 10;
/// Bytes that are encrypted at once.
const PIECE: usize = 7 * RECORD;
/// Most bytes of data in one record (RFC 8446, section 5.1).
const RECORD: usize = 16 << 10;
/// A buffer for a piece as records, for a message of the handshake, or for news of another key.
const OUTGOING: usize = PIECE + 8 * 256 + RECORD;

/// The key of one side, made for one transfer.
pub struct Keys(Arc<CertifiedKey>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// A fresh one: Ed25519 (RFC 8032).
    ///
    /// # Errors
    /// The kernel's, if it has no random numbers.
    pub fn fresh() -> io::Result<Self> {
        let none = |_| io::Error::other("no key can be made");
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(none)?;
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_ref())).map_err(io::Error::other)?;
        let public = key.public_key().ok_or_else(|| io::Error::other("a key has no public half"))?;
        let public = CertificateDer::from(public.as_ref().to_vec());
        Ok(Self(Arc::new(CertifiedKey::new(vec![public], key))))
    }

    /// The public half, as a SubjectPublicKeyInfo in DER (RFC 8410).
    pub fn public(&self) -> &[u8] {
        self.0.cert.first().map_or(&[], |public| public.as_ref())
    }
}

/// The cipher that this CPU has instructions for comes first; the side that connects decides.
fn provider() -> Arc<CryptoProvider> {
    #[cfg(target_arch = "x86_64")]
    let has_aes = std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    let mut cipher_suites =
        vec![cipher_suite::TLS13_AES_128_GCM_SHA256, cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    if !has_aes {
        cipher_suites.reverse();
    }
    let kx_groups = vec![kx_group::X25519];
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..default_provider() })
}

/// Takes the one key that it was told, and no other.
#[derive(Debug)]
struct Pinned {
    key: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn look(&self, key: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        match key.as_ref() == self.key && others.is_empty() {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }
}

fn only_tls13() -> Error {
    Error::General("only TLS 1.3 is spoken".to_owned())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.look(key, others).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.look(key, others).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The side that connects.
///
/// # Errors
/// [`NetError`] if the other side does not have the key, or does not speak TLS.
pub fn call(own: &Keys, peer: &[u8], timed: Timed<'_>) -> Result<Box<dyn Lane>, NetError> {
    let provider = provider();
    let pinned = Arc::new(Pinned { key: peer.to_vec(), provider: provider.clone() });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(pinned)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own.0.clone())));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    // Keys have no names.
    let name = ServerName::try_from("numaio").map_err(|error| NetError::Protocol(error.to_string()))?;
    let connection = UnbufferedClientConnection::new(Arc::new(config), name).map_err(refused)?;
    Ok(Box::new(Tls::begin(connection, timed)?))
}

/// The side that is connected to.
///
/// # Errors
/// As of [`call`].
pub fn answer(own: &Keys, peer: &[u8], timed: Timed<'_>) -> Result<Box<dyn Lane>, NetError> {
    let provider = provider();
    let pinned = Arc::new(Pinned { key: peer.to_vec(), provider: provider.clone() });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .with_client_cert_verifier(pinned)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own.0.clone())));
    config.send_tls13_tickets = 0;
    let connection = UnbufferedServerConnection::new(Arc::new(config)).map_err(refused)?;
    Ok(Box::new(Tls::begin(connection, timed)?))
}

fn refused(error: Error) -> NetError {
    match error {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => NetError::Stranger,
        Error::AlertReceived(_) => NetError::Refused,
        other => NetError::Protocol(other.to_string()),
    }
}

/// What both sides of rustls do alike.
trait Records: Send {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn is_handshaking(&self) -> bool;
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }
}

/// A connection whose handshake is over.
struct Tls<C> {
    connection: C,
    socket: TcpStream,
    incoming: Window,
    /// Data that was decrypted and not taken yet, and how much of it was.
    plain: (Vec<u8>, usize),
    outgoing: Vec<u8>,
    /// Whether the other side said that nothing follows.
    ended: bool,
}

/// Bytes that came and were not decrypted yet.
struct Window {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    fn filled(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    fn discard(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    fn fill(&mut self, mut from: impl Read) -> io::Result<()> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = from.read(&mut self.bytes[self.end..])?;
        self.end += count;
        match count {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// What rustls found in what came.
enum Now {
    /// Something that it keeps to itself.
    Again,
    /// So many bytes of data.
    Data(usize),
    /// So many bytes of the outgoing buffer are to be sent.
    Send(usize),
    /// Nothing whole: more must come.
    Idle,
}

impl<C: Records> Tls<C> {
    fn begin(connection: C, mut timed: Timed<'_>) -> Result<Self, NetError> {
        let incoming = Window { bytes: vec![0; INCOMING], start: 0, end: 0 };
        let mut tls = Self {
            connection,
            socket: timed.socket.try_clone()?,
            incoming,
            plain: (Vec::new(), 0),
            outgoing: vec![0; OUTGOING],
            ended: false,
        };
        loop {
            match tls.step(&mut [])? {
                Now::Send(length) => timed.write_all(&tls.outgoing[..length]).map_err(why)?,
                Now::Idle if !tls.connection.is_handshaking() => return Ok(tls),
                Now::Idle => tls.incoming.fill(timed).map_err(why)?,
                Now::Again | Now::Data(_) => {}
            }
        }
    }

    /// Lets rustls look at what came. Data goes to `into`, as much as fits, and the rest is kept.
    fn step(&mut self, into: &mut [u8]) -> Result<Now, NetError> {
        let status = self.connection.process(self.incoming.filled());
        let mut discard = status.discard;
        let now = match status.state.map_err(refused)? {
            ConnectionState::ReadTraffic(mut traffic) => {
                let mut used = 0;
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(refused)?;
                    discard += record.discard;
                    let fits = record.payload.len().min(into.len() - used);
                    into[used..used + fits].copy_from_slice(&record.payload[..fits]);
                    used += fits;
                    self.plain.0.extend_from_slice(&record.payload[fits..]);
                }
                Now::Data(used)
            }
            ConnectionState::EncodeTlsData(mut message) => {
                let length = message.encode(&mut self.outgoing);
                Now::Send(length.map_err(|error| NetError::Protocol(error.to_string()))?)
            }
            ConnectionState::TransmitTlsData(sent) => {
                // It was sent when it was encoded.
                sent.done();
                Now::Again
            }
            ConnectionState::PeerClosed | ConnectionState::Closed => {
                self.ended = true;
                Now::Again
            }
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Now::Idle,
            other => return Err(NetError::Protocol(format!("{other:?}"))),
        };
        self.incoming.discard(discard);
        Ok(now)
    }

    /// Encrypts, and gives how many bytes of the buffer are to be sent; nothing of `data` says that nothing follows.
    fn encrypt(&mut self, data: &[u8]) -> Result<usize, NetError> {
        let status = self.connection.process(&mut []);
        match status.state.map_err(refused)? {
            ConnectionState::WriteTraffic(mut traffic) => match data {
                [] => traffic.queue_close_notify(&mut self.outgoing),
                data => traffic.encrypt(data, &mut self.outgoing),
            }
            .map_err(|error| NetError::Protocol(error.to_string())),
            other => Err(NetError::Protocol(format!("{other:?}"))),
        }
    }
}

impl<C: Records> Read for Tls<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let (plain, taken) = &mut self.plain;
            if *taken < plain.len() {
                let count = buffer.len().min(plain.len() - *taken);
                buffer[..count].copy_from_slice(&plain[*taken..*taken + count]);
                *taken += count;
                return Ok(count);
            }
            plain.clear();
            *taken = 0;
            if self.ended || buffer.is_empty() {
                return Ok(0);
            }
            match self.step(buffer).map_err(kernels)? {
                Now::Data(used) if used > 0 => return Ok(used),
                Now::Data(_) | Now::Again => {}
                Now::Send(length) => self.socket.write_all(&self.outgoing[..length])?,
                Now::Idle => self.incoming.fill(&self.socket)?,
            }
        }
    }
}

impl<C: Records> Write for Tls<C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        if piece.is_empty() {
            return Ok(0);
        }
        let length = self.encrypt(piece).map_err(kernels)?;
        self.socket.write_all(&self.outgoing[..length])?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<C: Records> Lane for Tls<C> {
    fn close(&mut self) -> io::Result<()> {
        let length = self.encrypt(&[]).map_err(kernels)?;
        self.socket.write_all(&self.outgoing[..length])?;
        self.socket.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// Once a connection is open, what is wrong with it is told as the kernel tells of others.
fn kernels(error: NetError) -> io::Error {
    match error {
        NetError::Failed(error) => error,
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}
