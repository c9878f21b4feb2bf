//! Our numbers against NVIDIA's own header.

use super::*;
use std::path::Path;

/// `nvml.h`, which `make tools` fetches.
fn header() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/nvml.h");
    std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}: run `make tools` (make test does)", path.display()))
}

/// The rest of the header's line that defines `name`, as `#define name REST` or `name = REST`.
fn definition<'a>(header: &'a str, name: &str) -> &'a str {
    header
        .lines()
        .find_map(|line| {
            let line = line.trim_start();
            match line.strip_prefix("#define ") {
                Some(rest) => rest.strip_prefix(name)?.strip_prefix(' ').map(str::trim),
                None => line.strip_prefix(name)?.trim_start().strip_prefix("= ").map(str::trim),
            }
        })
        .unwrap_or_else(|| panic!("the header does not define {name}"))
}

fn number(text: &str) -> u64 {
    let digits = text.trim_start_matches("0x");
    let radix = if digits.len() < text.len() { 16 } else { 10 };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn return_codes_are_those_of_the_header() {
    let header = header();
    for (name, value) in code::ALL {
        let defined = number(definition(&header, &format!("NVML_ERROR_{name}")));
        assert_eq!(defined, u64::from(*value), "{name}");
    }
    assert!(code::ALL.len() > 20);
}

#[test]
fn event_reasons_have_the_bits_of_the_header() {
    let header = header();
    let names = [
        (EventReason::Idle, "nvmlClocksEventReasonGpuIdle"),
        (EventReason::ApplicationClocks, "nvmlClocksEventReasonApplicationsClocksSetting"),
        (EventReason::SwPowerCap, "nvmlClocksEventReasonSwPowerCap"),
        (EventReason::HwSlowdown, "nvmlClocksThrottleReasonHwSlowdown"),
        (EventReason::SyncBoost, "nvmlClocksEventReasonSyncBoost"),
        (EventReason::SwThermal, "nvmlClocksEventReasonSwThermalSlowdown"),
        (EventReason::HwThermal, "nvmlClocksThrottleReasonHwThermalSlowdown"),
        (EventReason::HwPowerBrake, "nvmlClocksThrottleReasonHwPowerBrakeSlowdown"),
        (EventReason::DisplayClock, "nvmlClocksEventReasonDisplayClockSetting"),
        (EventReason::BoardLimit, "nvmlClocksEventReasonBoardLimit"),
        (EventReason::Reliability, "nvmlClocksEventReasonReliability"),
    ];
    assert_eq!(names.len(), EventReason::ALL.len());
    for (reason, name) in names {
        assert_eq!(number(definition(&header, name)), reason.bit(), "{name}");
    }
}

/// The wrapper's numbers are of the scheme before 580.82; in the present one 251 to 255 have become 269
/// to 273.
#[test]
fn fields_are_those_of_the_header_and_event_times_are_nanoseconds() {
    let header = header();
    for what in FIELDS {
        let (name, unit) = match what {
            Number::PowerAverage => ("NVML_FI_DEV_POWER_AVERAGE", "GPU power"),
            Number::PowerInstant => ("NVML_FI_DEV_POWER_INSTANT", "GPU power"),
            Number::EventTime(reason) => match reason {
                EventReason::SwPowerCap => {
                    ("NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP", " in ns")
                }
                EventReason::SyncBoost => ("NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST", " in ns"),
                EventReason::SwThermal => {
                    ("NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", " in ns")
                }
                EventReason::HwThermal => {
                    ("NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", " in ns")
                }
                EventReason::HwPowerBrake => {
                    ("NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", " in ns")
                }
                other => panic!("{other:?} is not timed"),
            },
            other => panic!("{other:?} is no field"),
        };
        let defined = definition(&header, name);
        assert!(defined.contains(unit), "{name}: {defined}");
        // A name for another name.
        let defined = match defined.split_ascii_whitespace().next() {
            Some(other) if other.starts_with("NVML_FI_") => definition(&header, other),
            _ => defined,
        };
        let ours = match field(what) {
            old @ 251..=255 => old + 18,
            other => other,
        };
        assert_eq!(number(defined), u64::from(ours), "{name}");
    }
}

#[test]
fn raw_calls_match_the_header() {
    let header = header();
    let xid = definition(&header, "nvmlEventTypeXidCriticalError");
    assert_eq!(number(xid), raw::XID_CRITICAL_ERROR);
    for (name, value) in [
        ("NVML_DEVICE_ADDRESSING_MODE_NONE", 0),
        ("NVML_DEVICE_ADDRESSING_MODE_HMM", 1),
        ("NVML_DEVICE_ADDRESSING_MODE_ATS", 2),
    ] {
        assert_eq!(number(definition(&header, name)), value, "{name}");
    }
    // The version word of a structure, and that ours are at version 1.
    let words = header.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        r"(unsigned int)(sizeof(nvml ## data ## _v ## ver ## _t) | \ (ver << 24U))",
        "#define nvmlDeviceAddressingMode_v1 NVML_STRUCT_VERSION(DeviceAddressingMode, 1)",
        "#define nvmlMarginTemperature_v1 NVML_STRUCT_VERSION(MarginTemperature, 1)",
        "unsigned int version; //!< The version number of this struct int marginTemperature;",
        "nvmlReturn_t DECLDIR nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *marginTempInfo);",
        "nvmlReturn_t DECLDIR nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode);",
        "nvmlReturn_t DECLDIR nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *clocksEventReasons);",
        "nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);",
        "nvmlReturn_t DECLDIR nvmlEventSetCreate(nvmlEventSet_t *set);",
        "nvmlReturn_t DECLDIR nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set);",
        "nvmlReturn_t DECLDIR nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t * data, unsigned int timeoutms);",
        "nvmlReturn_t DECLDIR nvmlEventSetFree(nvmlEventSet_t set);",
    ] {
        assert!(words.contains(text), "the header does not say {text}");
    }
}
