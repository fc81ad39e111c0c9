//! TLS 1.3 (RFC 8446) with raw public keys (RFC 7250): each side generates a key pair for one
//! transfer, sends its public key through the control channel, and accepts only the peer with the
//! private key of the received one.
//!
//! There are no certificates, and so no names, dates or authorities to check. Sessions are not
//! resumed, and no data is sent before both sides complete the handshake. Control channels of
//! daemons work alike, with persistent keys ([`crate::port::net::control`]).

use super::key_pair::KeyPair;
use super::records::Tls;
use crate::port::net::data_stream::DataStream;
use crate::port::net::deadline::DeadlineSocket;
use crate::port::net::net_error::{tls_error, NetError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption, UnbufferedClientConnection};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{verify_tls13_signature_with_raw_key, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, UnbufferedServerConnection};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Prefers the cipher that this CPU has instructions for; the client decides.
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

type AcceptKey = dyn Fn(&[u8]) -> bool + Send + Sync;

/// Decides which public keys are accepted.
pub struct KeyVerifier {
    accepts: Box<AcceptKey>,
    /// Key that the peer presented, accepted or not.
    presented_key: OnceLock<Vec<u8>>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for KeyVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl KeyVerifier {
    /// Accepts the keys that satisfy `accepts`, given as SubjectPublicKeyInfo in DER.
    pub fn new(accepts: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { accepts: Box::new(accepts), presented_key: OnceLock::new(), provider: provider() })
    }

    /// Accepts exactly one key.
    fn pinned(key: &[u8]) -> Arc<Self> {
        let key = key.to_vec();
        Self::new(move |came| came == key)
    }

    /// Returns the key that the peer presented, if any. The completed handshake proves its
    /// possession.
    pub fn presented_key(&self) -> Option<&[u8]> {
        self.presented_key.get().map(Vec::as_slice)
    }

    fn verify_key(&self, key: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        let came = self.presented_key.get_or_init(|| key.as_ref().to_vec());
        match came == key.as_ref() && others.is_empty() && (self.accepts)(key.as_ref()) {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_signature(
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

impl ServerCertVerifier for KeyVerifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify_key(key, others).map(|()| ServerCertVerified::assertion())
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
        self.verify_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for KeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify_key(key, others).map(|()| ClientCertVerified::assertion())
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
        self.verify_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Performs the handshake as client.
///
/// # Errors
/// [`NetError`] if the peer lacks the key or does not speak TLS.
pub fn connect(
    own: &KeyPair,
    peer: &[u8],
    timed: DeadlineSocket<'_>,
) -> Result<Box<dyn DataStream>, NetError> {
    Ok(Box::new(Tls::begin(client(own, KeyVerifier::pinned(peer))?, timed)?))
}

/// Performs the handshake as server.
///
/// # Errors
/// As for [`connect`].
pub fn accept(
    own: &KeyPair,
    peer: &[u8],
    timed: DeadlineSocket<'_>,
) -> Result<Box<dyn DataStream>, NetError> {
    Ok(Box::new(Tls::begin(server(own, KeyVerifier::pinned(peer))?, timed)?))
}

/// Creates the TLS client.
pub fn client(own: &KeyPair, verifier: Arc<KeyVerifier>) -> Result<UnbufferedClientConnection, NetError> {
    let mut config = ClientConfig::builder_with_provider(verifier.provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(tls_error)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own.certified())));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    // Raw public keys have no names.
    let name = ServerName::try_from("numaio").map_err(|error| NetError::Protocol(error.to_string()))?;
    UnbufferedClientConnection::new(Arc::new(config), name).map_err(tls_error)
}

/// Creates the TLS server.
pub fn server(own: &KeyPair, verifier: Arc<KeyVerifier>) -> Result<UnbufferedServerConnection, NetError> {
    let mut config = ServerConfig::builder_with_provider(verifier.provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(tls_error)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own.certified())));
    config.send_tls13_tickets = 0;
    UnbufferedServerConnection::new(Arc::new(config)).map_err(tls_error)
}
