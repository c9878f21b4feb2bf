use super::read::{boolean, endpoint, exporters, list, milliseconds};
use super::*;

fn set(pairs: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    for (key, value) in pairs {
        config
            .set(key, &[(*value).to_owned()], Origin::Flag)
            .unwrap_or_else(|e| panic!("{key}: {e}"));
    }
    config
}

fn target(pairs: &[(&str, &str)], signal: Signal) -> Option<Target> {
    set(pairs).otlp.target(signal)
}

#[test]
fn the_general_endpoint_gets_the_path_of_the_signal_and_an_own_one_does_not() {
    assert_eq!(Config::default().otlp.targets().count(), 0, "off unless an endpoint is set");
    let url = |pairs: &[_], signal| target(pairs, signal).map(|t| t.url);
    let general = [("otlp.endpoint", "http://c:4318"), ("otlp.logs", "true")];
    assert_eq!(url(&general, Signal::Metrics).unwrap(), "http://c:4318/v1/metrics");
    assert_eq!(url(&general, Signal::Logs).unwrap(), "http://c:4318/v1/logs");
    let slash = [("otlp.endpoint", "http://c:4318/base/")];
    assert_eq!(url(&slash, Signal::Metrics).unwrap(), "http://c:4318/base/v1/metrics");
    assert_eq!(url(&slash, Signal::Logs), None, "logs are off by default");
    let own = [
        ("otlp.endpoint", "http://c:4318"),
        ("otlp.metrics_endpoint", "http://p:9090/api/v1/otlp/v1/metrics"),
    ];
    assert_eq!(url(&own, Signal::Metrics).unwrap(), "http://p:9090/api/v1/otlp/v1/metrics");
    let grpc = [("otlp.endpoint", "c:4317"), ("otlp.protocol", "grpc")];
    assert_eq!(url(&grpc, Signal::Metrics).unwrap(), "https://c:4317");
    let bare = [("otlp.endpoint", "c:4317"), ("otlp.protocol", "grpc"), ("otlp.insecure", "true")];
    assert_eq!(url(&bare, Signal::Metrics).unwrap(), "http://c:4317");
    let off = [("otlp.endpoint", "http://c:4318"), ("otlp.disabled", "true")];
    assert_eq!(url(&off, Signal::Metrics), None);
}

#[test]
fn what_is_said_for_one_signal_wins() {
    let pairs = [
        ("otlp.endpoint", "http://c:4318"),
        ("otlp.logs", "true"),
        ("otlp.timeout", "3s"),
        ("otlp.logs_timeout", "500ms"),
        ("otlp.headers", "a=1"),
        ("otlp.logs_headers", "b=2"),
        ("otlp.metrics_compression", "gzip"),
    ];
    let (metrics, logs) =
        (target(&pairs, Signal::Metrics).unwrap(), target(&pairs, Signal::Logs).unwrap());
    assert_eq!((metrics.timeout.as_millis(), logs.timeout.as_millis()), (3000, 500));
    assert_eq!(metrics.headers[0].0, "a");
    assert_eq!(logs.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!((metrics.compression, logs.compression), (Compression::Gzip, Compression::None));
}

#[test]
fn contradictions_are_found() {
    let wrong = |pairs: &[(&str, &str)]| Otlp::contradiction(&set(pairs)).map(|c| c.keys[0]);
    let https = ("otlp.endpoint", "https://c:4318");
    assert_eq!(wrong(&[]), None);
    assert_eq!(wrong(&[https]), None);
    assert_eq!(wrong(&[https, ("otlp.client_key", "/k")]), Some("otlp.client_certificate"));
    assert_eq!(wrong(&[https, ("otlp.client_key", "/k"), ("otlp.client_certificate", "/c")]), None);
    let http = ("otlp.endpoint", "http://c:4318");
    assert_eq!(wrong(&[http, ("otlp.certificate", "/c")]), Some("otlp.endpoint"));
    assert_eq!(wrong(&[("otlp.protocol", "grpc")]), Some("otlp.protocol"));
    assert_eq!(
        wrong(&[("otlp.metrics_endpoint", "http://c:1/x"), ("otlp.logs", "true")]),
        Some("otlp.logs")
    );
    let mut shared = Config::default();
    shared.set("otlp.logs", &["true".to_owned()], Origin::Standard).unwrap();
    assert_eq!(Otlp::contradiction(&shared), None, "everybody's environment is no order");
}

#[test]
fn a_secret_is_in_nothing_that_is_shown() {
    let config = set(&[
        ("otlp.endpoint", "https://c:1"),
        ("otlp.headers", "authorization=Bearer topsecret"),
    ]);
    let shown = format!("{config:?} {:?}", crate::config::table::shown(&config, "otlp.headers"));
    assert!(shown.contains("authorization=<hidden>") && !shown.contains("topsecret"), "{shown}");
    for wrong in ["authorization", "author ization=topsecret", "a=topsecret\u{7}"] {
        assert!(!header(wrong).unwrap_err().contains("topsecret"), "{wrong}");
    }
}

#[test]
fn standard_variables_are_read_as_specified() {
    assert_eq!(list("a=b,c=d%2Ce,, f = g ").unwrap(), ["a=b", "c=d,e", "f = g"]);
    assert_eq!(milliseconds("2500").unwrap(), ["2500ms"]);
    assert!(milliseconds("2.5s").is_err());
    assert_eq!(
        (boolean("TRUE").unwrap(), boolean("1").unwrap()),
        (vec!["true".to_owned()], vec!["false".to_owned()])
    );
    assert_eq!(
        (exporters("console, otlp").unwrap(), exporters("prometheus").unwrap()),
        (vec!["true".to_owned()], vec!["false".to_owned()])
    );
    for wrong in
        ["collector", "ftp://c:1", "http://", "http:///v1", "http://me:secret@c:1", "http://c:1/#x"]
    {
        assert!(endpoint(&[wrong.to_owned()]).is_err(), "{wrong}");
    }
}
