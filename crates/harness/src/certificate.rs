//! A certificate for the servers that users come to, made for one run: its authority is trusted by the users of that run alone.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::net::IpAddr;

/// An authority whose key is never written anywhere.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A server's certificate and its key, both as PEM.
pub(crate) struct Certificate {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    /// A new one.
    pub(crate) fn new() -> Result<Authority, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "baremark run");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), pem })
    }

    /// Its own certificate, as PEM: what users trust.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server at that address.
    pub(crate) fn certify(&self, address: IpAddr) -> Result<Certificate, rcgen::Error> {
        let mut params = CertificateParams::new(vec![address.to_string(), "localhost".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, address.to_string());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        Ok(Certificate { chain: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}
