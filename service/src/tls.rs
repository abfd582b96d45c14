//! Whom to believe over HTTPS: those whom this machine believes.

use std::sync::{Arc, LazyLock};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The machine's own certificates (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), read when HTTPS is first spoken.
pub static TLS: LazyLock<TlsConfig> = LazyLock::new(|| {
    // Those that cannot be read are not believed.
    let found = rustls_native_certs::load_native_certs().certs;
    let certs = found
        .iter()
        .map(|cert| Certificate::from_der(cert).to_owned());
    let certs: Vec<Certificate<'static>> = certs.collect();
    TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certs)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
});
