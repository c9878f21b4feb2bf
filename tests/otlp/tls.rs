//! Encryption: roots of the system or given ones, and the exporter's own certificate. Authority and
//! certificates below tests/otlp/tls are for these tests alone; the authority's key was thrown away.

use crate::PATIENCE;
use crate::support::otlp::{Collector, Mood, wait_for};
use crate::support::{Exporter, exporter, root};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

fn file(name: &str) -> PathBuf {
    root().join("tests/otlp/tls").join(name)
}

/// A collector with a certificate, which may ask for one.
fn collector(asks: bool) -> Collector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if asks {
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Collector::at(0, Mood::Takes, Some(TlsAcceptor::from(Arc::new(config))))
}

fn sending(collector: &Collector, protocol: &str, variables: &[(&str, PathBuf)]) -> Exporter {
    let mut command = exporter();
    command.args(["serve", "--web.listen-address", "127.0.0.1:0", "--otlp.interval", "1s"]);
    command.args(["--otlp.timeout", "900ms", "--otlp.protocol", protocol]);
    let port = collector.address.port();
    command.arg("--otlp.endpoint").arg(format!("https://127.0.0.1:{port}"));
    for (name, path) in variables {
        command.env(format!("OTEL_EXPORTER_OTLP_{name}"), path);
    }
    Exporter::spawn(command)
}

#[test]
fn a_given_root_is_trusted_and_the_systems_roots_are_not_enough() {
    for protocol in ["http/protobuf", "grpc"] {
        let collector = collector(false);
        let stranger = sending(&collector, protocol, &[]);
        let log = wait_for("it is not trusted", PATIENCE, || {
            let log = stranger.log.lock().unwrap().clone();
            log.contains("does not take metrics").then_some(log)
        });
        assert!(log.contains("invalid peer certificate: UnknownIssuer"), "{log}");
        assert!(collector.came().is_empty(), "nothing is sent to somebody unknown");
        drop(stranger);
        let _friend = sending(&collector, protocol, &[("CERTIFICATE", file("ca.pem"))]);
        let came = wait_for("it is trusted", PATIENCE, || collector.came().into_iter().next());
        let path = if protocol == "grpc" {
            "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
        } else {
            "/v1/metrics"
        };
        assert_eq!(came.path, path);
        assert!(came.size > 5_000, "{came:?}");
    }
}

#[test]
fn the_exporter_shows_its_own_certificate_where_it_has_one() {
    for protocol in ["http/protobuf", "grpc"] {
        let collector = collector(true);
        let root = ("CERTIFICATE", file("ca.pem"));
        let nameless = sending(&collector, protocol, std::slice::from_ref(&root));
        wait_for("it is sent away", PATIENCE, || {
            nameless.log.lock().unwrap().contains("does not take metrics").then_some(())
        });
        assert!(collector.came().is_empty());
        drop(nameless);
        let (own, key) = (file("client.pem"), file("client.key"));
        let _known = sending(
            &collector,
            protocol,
            &[root, ("CLIENT_CERTIFICATE", own), ("CLIENT_KEY", key)],
        );
        wait_for("it is let in", PATIENCE, || (!collector.came().is_empty()).then_some(()));
    }
}
