//! Which exporter on which box: the resource of everything that is sent.

use crate::catalog::otlp::SCHEMA_URL;
use crate::config::Config;
use crate::config::otlp::Otlp;
use crate::model::frame::Frame;
use crate::sources::identity::Identity;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use uuid::Uuid;

/// The namespace in which OpenTelemetry's specification makes identities of services out of what they are
/// told apart by.
const NAMESPACE: Uuid = Uuid::from_u128(0x4d63_009a_8d0f_11ee_aad7_4c79_6ed8_e320);

/// What is known before anything is read.
pub(super) struct Who {
    identity: Identity,
    version: &'static str,
    /// What tells exporters on one box apart.
    listens: String,
}

impl Who {
    pub(super) fn new(config: &Config, identity: &Identity, version: &'static str) -> Self {
        Self { identity: identity.clone(), version, listens: config.listen.join(",") }
    }

    /// The same as long as box and exporter are the same, whatever is restarted.
    fn instance(&self, frame: &Frame) -> String {
        let boot = || frame.snapshot.kernel.boot_id.as_deref().unwrap_or_default();
        let of_box = self.identity.machine_id.as_deref().or(self.identity.host_name.as_deref());
        let name = match (frame.replay.as_deref(), of_box) {
            (Some(title), _) => format!("replay/{title}"),
            (None, Some(name)) => name.to_owned(),
            // Better a new identity after each boot than one that all such boxes share.
            (None, None) => boot().to_owned(),
        };
        Uuid::new_v5(&NAMESPACE, format!("{name}/{}", self.listens).as_bytes()).to_string()
    }
}

/// The resource. What an operator says wins over what is found; the name of the service over an attribute of
/// that name.
pub(super) fn resource(who: &Who, otlp: &Otlp, frame: &Frame) -> Resource {
    let snapshot = &frame.snapshot;
    let own = |name: &str, value: String| KeyValue::new(name.to_owned(), value);
    let mut all = vec![
        own("service.name", "gb10-exporter".to_owned()),
        own("service.version", who.version.to_owned()),
        own("service.instance.id", who.instance(frame)),
        own("os.type", "linux".to_owned()),
    ];
    // A replayed box is not the one that replays it.
    let of_box = frame.replay.is_none().then_some(&who.identity);
    let arch =
        snapshot.kernel.arch.clone().ok().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    for (name, value) in [
        ("host.id", of_box.and_then(|identity| identity.machine_id.clone())),
        ("host.name", of_box.and_then(|identity| identity.host_name.clone())),
        ("host.arch", Some(architecture(&arch).to_owned())),
        ("host.type", snapshot.dmi.product_name.clone().ok()),
        ("os.name", snapshot.os.id.clone().ok()),
        ("os.version", snapshot.os.version_id.clone().ok()),
        ("os.description", snapshot.os.pretty_name.clone().ok()),
    ] {
        all.extend(value.filter(|value| !value.is_empty()).map(|value| own(name, value)));
    }
    let said = otlp.resource_attributes.iter().map(|(name, value)| own(name, value.clone()));
    let name = otlp.service_name.iter().map(|name| own("service.name", name.clone()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_schema_url(all, SCHEMA_URL)
        .with_attributes(said.chain(name))
        .build()
}

/// As the conventions call what the kernel and compilers call otherwise.
fn architecture(machine: &str) -> &str {
    match machine {
        "aarch64" => "arm64",
        "x86_64" => "amd64",
        other => other,
    }
}
