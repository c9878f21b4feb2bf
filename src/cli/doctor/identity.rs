//! Whether this is the machine that the other checks are about.

use super::observed::Observed;
use super::outcome::{Judged, Outcome};
use super::{Check, Needs};
use crate::derive::GB10_DEVICE;
use crate::model::gpu::Gpu;

/// The product name that every driver so far gave.
const NAME: &str = "NVIDIA GB10";

pub(super) const IDENTITY: Check = Check {
    name: "identity",
    expected: "PCI device 0x2E1210DE, name NVIDIA GB10, compute capability 12.1, addressing mode ATS",
    because: "the driver's list of products and the answers of every published machine; that CPU and GPU share \
              the pool rests on the first two",
    needs: Needs::Nothing,
    judge: identity,
};

#[expect(clippy::unnecessary_wraps, reason = "as every row of the table")]
fn identity(observed: &Observed) -> Judged {
    let product = observed.last().snapshot.dmi.product_name.as_deref().unwrap_or("no DMI product");
    let Some(gpu) = observed.gpu() else {
        let other = observed.last().snapshot.gpus.each().next();
        let seen = other.map_or_else(|| observed.why_no_gpu(), figures);
        return Ok(match (other, observed.product_has_one()) {
            // The maker says GB10 and the driver names something else: a part that is not known here.
            (Some(_), true) => Outcome::differs(format!("{product}, whose GPU is {seen}")),
            (None, true) => Outcome::unknown(format!("{product}, whose GPU is not read: {seen}")),
            _ => Outcome::unknown(format!("not a GB10: {product}, {seen}")),
        });
    };
    let is = |reading: &Result<String, _>, wanted: &str| {
        reading.as_ref().map_or(true, |text: &String| text.eq_ignore_ascii_case(wanted))
    };
    let alike = is(&gpu.pci_device_id, GB10_DEVICE)
        && is(&gpu.name, NAME)
        && is(&gpu.compute_capability, "12.1")
        && is(&gpu.addressing_mode, "ATS");
    Ok(Outcome::of(alike, format!("{}; {product}", figures(gpu))))
}

/// What it says it is; what it does not say is left out.
fn figures(gpu: &Gpu) -> String {
    let all = [&gpu.name, &gpu.pci_device_id, &gpu.compute_capability, &gpu.addressing_mode];
    let said: Vec<&str> = all.into_iter().flatten().map(String::as_str).collect();
    if said.is_empty() { "a GPU without a name".to_owned() } else { said.join(", ") }
}
