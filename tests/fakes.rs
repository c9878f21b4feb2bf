//! The fake NVIDIA library and the fake `nvidia-smi` answer as the real ones do, so that other tests
//! may lean on them.
#![expect(clippy::disallowed_methods, reason = "tests start programs and wait")]

#[path = "fakes/raw.rs"]
mod raw;
mod support;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use raw::Raw;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::fakes::{self, Gpu, alone};

const SERVER: &str = "spark-fe-llm-server";

fn load(library: &Path) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(library.as_os_str()).init()
}

/// The error's NVML code, or the kind of error that a missing function is.
fn code<T>(result: Result<T, NvmlError>) -> &'static str {
    match result.map(drop) {
        Ok(()) => "success",
        Err(NvmlError::Uninitialized) => "uninitialized",
        Err(NvmlError::NotSupported) => "not supported",
        Err(NvmlError::DriverNotLoaded) => "driver not loaded",
        Err(NvmlError::GpuLost) => "lost",
        Err(NvmlError::Timeout) => "timeout",
        Err(NvmlError::NotFound) => "not found",
        Err(NvmlError::InvalidArg) => "invalid argument",
        Err(NvmlError::FailedToLoadSymbol(_)) => "no such function",
        Err(_) => "another error",
    }
}

#[test]
fn the_library_answers_as_the_capture_says() {
    let Some(gpu) = alone("the_library_answers_as_the_capture_says", SERVER) else { return };
    let nvml = load(&fakes::nvml()).unwrap();
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.82.09");
    assert_eq!(nvml.sys_nvml_version().unwrap(), "13.580.82.09");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13000);
    assert_eq!(nvml.device_count().unwrap(), 1);
    let device = nvml.device_by_index(0).unwrap();
    assert_eq!(device.name().unwrap(), "NVIDIA GB10");
    assert_eq!(device.index().unwrap(), 0);
    let uuid = device.uuid().unwrap();
    assert_eq!(nvml.device_by_uuid(uuid).unwrap().index().unwrap(), 0);
    assert_eq!(code(nvml.device_by_uuid("GPU-")), "not found");
    assert_eq!(code(nvml.device_by_index(1)), "invalid argument");
    let pci = device.pci_info().unwrap();
    assert_eq!((pci.domain, pci.bus, pci.device, pci.pci_device_id), (15, 1, 0, 0x2E12_10DE));
    assert_eq!(pci.bus_id, "0000000F:01:00.0");
    let compute = device.cuda_compute_capability().unwrap();
    assert_eq!((compute.major, compute.minor), (12, 1));
    assert_eq!(code(device.memory_info()), "not supported");
    assert_eq!(device.vbios_version().unwrap(), "9A.0B.0F.00.1D");
    let use_ = device.utilization_rates().unwrap();
    assert_eq!((use_.gpu, use_.memory), (96, 0));
    assert_eq!(device.temperature(TemperatureSensor::Gpu).unwrap(), 64);
    assert_eq!(device.power_usage().unwrap(), 48700);
    assert_eq!(device.total_energy_consumption().unwrap(), 6_295_521_092);
    assert_eq!(device.clock_info(Clock::SM).unwrap(), 2405);
    assert_eq!(device.clock_info(Clock::Video).unwrap(), 2067);
    assert_eq!(code(device.clock_info(Clock::Memory)), "not supported");
    assert_eq!(device.max_clock_info(Clock::SM).unwrap(), 3003);
    assert_eq!(device.performance_state().unwrap(), PerformanceState::Zero);
    assert_eq!(device.current_throttle_reasons().unwrap(), ThrottleReasons::empty());
    let compute = device.running_compute_processes().unwrap();
    assert_eq!(compute.len(), 1);
    assert_eq!(compute[0].pid, 6330);
    assert_eq!(compute[0].used_gpu_memory, UsedGpuMemory::Used(105_119_744_000));
    assert!(device.running_graphics_processes().unwrap().is_empty());
    assert!(device.mps_running_compute_processes().unwrap().is_empty());
    // What is written now is what the next call answers.
    gpu.set(&[("0.processes.compute", "1:5,2:NA,3:7"), ("0.temperature", "~30 65")]);
    let compute = device.running_compute_processes().unwrap();
    assert_eq!(compute[1].used_gpu_memory, UsedGpuMemory::Unavailable);
    let began = Instant::now();
    assert_eq!(device.temperature(TemperatureSensor::Gpu).unwrap(), 65);
    assert!(began.elapsed() >= Duration::from_millis(30));
    drop(nvml);
    assert_eq!(gpu.trace(), ["init", "shutdown"]);
}

#[test]
fn the_library_checks_what_it_is_given() {
    let Some(gpu) = alone("the_library_checks_what_it_is_given", SERVER) else { return };
    let nvml = load(&fakes::nvml()).unwrap();
    let raw = Raw::load(&fakes::nvml());
    assert_eq!(raw.margin(0x0100_0008), Ok(32));
    assert_eq!(raw.margin(0x0200_0008), Err(25));
    assert_eq!(raw.addressing_mode(), Ok(2));
    assert_eq!(raw.event_reasons(), Ok(0));
    gpu.set(&[("0.margin", "-2"), ("0.event_reasons", "0x68"), ("0.memory", "1000,300,600")]);
    assert_eq!(raw.margin(0x0100_0008), Ok(-2));
    assert_eq!(raw.event_reasons(), Ok(0x68));
    assert_eq!(raw.memory(), Ok((1000, 300)));
    assert_eq!(raw.memory_v2(0x0200_0028), Ok((1000, 100)));
    assert_eq!(raw.memory_v2(0), Err(25));
    assert_eq!(raw.compute_processes_into_one(), (0, 1));
    gpu.set(&[("0.processes.compute", "1:5,2:NA")]);
    assert_eq!(raw.compute_processes_into_one(), (7, 2));
    assert_eq!(raw.name_into("NVIDIA GB10".len()), 7);
    assert_eq!(raw.name_into("NVIDIA GB10".len() + 1), 0);
    assert_eq!(raw.wrong_calls(), [2; 12]);
    gpu.set(&[("0.margin", "!999")]);
    assert_eq!(raw.margin(0x0100_0008), Err(999));
    drop(nvml);
    assert_eq!(raw.margin(0x0100_0008), Err(1));
}

#[test]
fn fields_have_the_numbers_of_their_driver() {
    let Some(gpu) = alone("fields_have_the_numbers_of_their_driver", SERVER) else { return };
    gpu.set(&[
        ("0.power_average_mw", "48000"),
        ("0.power_instant_mw", "49000"),
        ("0.event_ns.sw_power_cap", "74000"),
        ("0.event_ns.sync_boost", "!3"),
        ("0.event_ns.sw_thermal", "251000"),
        ("0.event_ns.hw_thermal", "5000000000"),
        ("0.event_ns.hw_power_brake", "!4"),
    ]);
    let ids: Vec<FieldId> = [185, 186, 74, 76, 251, 252, 253].map(FieldId).to_vec();
    for (driver, shift) in [("580.82.09", 18), ("610.43.02", 18), ("580.65.06", 0)] {
        gpu.set(&[("driver", driver)]);
        let nvml = load(&fakes::nvml()).unwrap();
        let device = nvml.device_by_index(0).unwrap();
        let values: Vec<_> = device.field_values_for(&ids).unwrap();
        let value = |i: usize| values[i].as_ref().ok().and_then(|v| v.value.as_ref().ok().cloned());
        assert_eq!(value(0), Some(SampleValue::U32(48000)), "{driver}");
        assert_eq!(value(1), Some(SampleValue::U32(49000)), "{driver}");
        assert_eq!(value(2), Some(SampleValue::U64(74000)), "{driver}");
        assert_eq!(value(3), None, "{driver}");
        assert_eq!(value(4), Some(SampleValue::U64(251_000)), "{driver}");
        assert_eq!(value(5), Some(SampleValue::U64(5_000_000_000)), "{driver}");
        assert_eq!(value(6), None, "{driver}");
        let raw = Raw::load(&fakes::nvml());
        assert_eq!(raw.field(251 + shift), (251 + shift, Ok(251_000)), "{driver}");
        // The other numbering means something else.
        assert!(raw.field(251 + 18 - shift).1.is_ok_and(|value| value < 10), "{driver}");
        assert_eq!(raw.field(1), (1, Err(3)), "{driver}");
    }
}

#[test]
fn events_come_once_and_for_registered_gpus_only() {
    let Some(gpu) = alone("events_come_once_and_for_registered_gpus_only", SERVER) else { return };
    gpu.add_second();
    let nvml = load(&fakes::nvml()).unwrap();
    let device = nvml.device_by_index(0).unwrap();
    assert_eq!(device.supported_event_types().unwrap(), EventTypes::CRITICAL_XID_ERROR);
    let set = nvml.create_event_set().unwrap();
    let set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap();
    let began = Instant::now();
    assert_eq!(code(set.wait(0)), "timeout");
    assert!(began.elapsed() < Duration::from_secs(2));
    let next = || set.wait(0).map(|event| (event.device.index().unwrap(), event.event_data));
    gpu.set(&[("events", "1:0:13,2:1:31,3:0:119")]);
    assert_eq!(next().unwrap(), (0, Some(XidError::Value(13))));
    assert_eq!(next().unwrap(), (0, Some(XidError::Value(119))));
    assert_eq!(code(next()), "timeout");
    // One that happens while somebody waits; and the last one before its GPU is lost.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            gpu.set(&[("events", "3:0:119,4:0:79"), ("0.device", "!15")]);
        });
        let event = set.wait(10_000).unwrap();
        assert_eq!(event.event_data, Some(XidError::Value(79)));
    });
    assert_eq!(code(set.wait(0)), "lost");
    gpu.set(&[("events", "!3")]);
    let second = nvml.device_by_index(1).unwrap();
    let set = nvml.create_event_set().unwrap();
    assert!(second.register_events(EventTypes::CRITICAL_XID_ERROR, set).is_err());
}

#[test]
fn gpus_are_lost_and_drivers_go() {
    let Some(gpu) = alone("gpus_are_lost_and_drivers_go", SERVER) else { return };
    gpu.set(&[("init", "!18")]);
    assert!(matches!(load(&fakes::nvml()), Err(NvmlError::LibRmVersionMismatch)));
    gpu.leave_out(&["init"]);
    gpu.add_second();
    let nvml = load(&fakes::nvml()).unwrap();
    let first = nvml.device_by_index(0).unwrap();
    let second = nvml.device_by_index(1).unwrap();
    assert_eq!(second.name().unwrap(), "NVIDIA RTX 6000");
    gpu.set(&[("0.device", "!15")]);
    assert_eq!(code(nvml.device_by_index(0)), "lost");
    assert_eq!(code(first.name()), "lost");
    assert_eq!(code(first.field_values_for(&[FieldId(74)])), "lost");
    assert_eq!(code(second.name()), "success");
    // The driver is gone, and stays so for this library even when it comes back.
    gpu.set(&[("init", "!9")]);
    assert_eq!(code(second.name()), "driver not loaded");
    assert_eq!(code(nvml.device_count()), "driver not loaded");
    gpu.leave_out(&["init", "0.device"]);
    assert_eq!(code(second.name()), "driver not loaded");
    let again = load(&fakes::nvml()).unwrap();
    assert_eq!(code(again.device_by_index(0)), "success");
    drop(again);
    assert_eq!(code(second.name()), "success", "initialisations are counted");
    // A call that hangs while another thread calls.
    assert!(!gpu.trace().contains(&"OVERLAP".to_owned()));
    gpu.set(&[("1.power_mw", "~1000 5000")]);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(second.power_usage().unwrap(), 5000));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(code(first.name()), "success", "one that hangs holds up no other");
    });
    assert_eq!(gpu.trace(), ["init", "init", "init", "shutdown", "OVERLAP"]);
}

#[test]
fn the_old_library_lacks_what_came_later() {
    let Some(gpu) = alone("the_old_library_lacks_what_came_later", SERVER) else { return };
    gpu.set(&[("driver", "450.80.02"), ("0.event_reasons", "0x20")]);
    let nvml = load(&fakes::nvml_old()).unwrap();
    let device = nvml.device_by_index(0).unwrap();
    assert_eq!(device.name().unwrap(), "NVIDIA GB10");
    assert_eq!(device.current_throttle_reasons().unwrap(), ThrottleReasons::SW_THERMAL_SLOWDOWN);
    assert_eq!(device.running_compute_processes().unwrap().len(), 1);
    assert_eq!(code(device.memory_info()), "no such function");
    assert_eq!(code(device.mps_running_compute_processes()), "no such function");
    assert_eq!(code(device.field_values_for(&[FieldId(186)])), "no such function");
    assert_eq!(code(nvml.create_event_set()), "no such function");
    assert!(nvml.lib().nvmlDeviceGetMarginTemperature.is_err());
    assert!(nvml.lib().nvmlDeviceGetAddressingMode.is_err());
    assert!(nvml.lib().nvmlDeviceGetCurrentClocksEventReasons.is_err());
}

/// What `nvidia-smi` prints, and its exit code.
fn smi(gpu: &Gpu, arguments: &[&str]) -> (String, i32) {
    let out = Command::new(fakes::nvidia_smi()).args(arguments).envs(gpu.environment()).output();
    let out = out.expect("runs");
    (String::from_utf8(out.stdout).expect("text"), out.status.code().expect("an exit code"))
}

#[test]
fn nvidia_smi_prints_what_is_published() {
    let gpu = Gpu::new("spark-fe-idle");
    gpu.set(&[("driver", "580.173.02"), ("0.power_mw", "11170"), ("0.temperature", "35")]);
    let query = "--query-gpu=memory.total,memory.used,memory.free,utilization.gpu,power.draw,temperature.gpu";
    assert_eq!(
        smi(&gpu, &[query, "--format=csv"]),
        (
            "memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], \
             power.draw [W], temperature.gpu\n[N/A], [N/A], [N/A], 0 %, 11.17 W, 35\n"
                .to_owned(),
            0
        )
    );
    gpu.set(&[("0.power_mw", "4520"), ("0.temperature", "47")]);
    let query = "--query-gpu=pci.device_id,compute_cap,addressing_mode,utilization.gpu,power.draw,temperature.gpu";
    let (text, _) = smi(&gpu, &[query, "--format=csv,noheader,nounits"]);
    assert_eq!(text, "0x2E1210DE, 12.1, ATS, 0, 4.52, 47\n");
    gpu.set(&[("0.clock.sm", "2522"), ("0.power_mw", "15570"), ("0.event_reasons", "0x4")]);
    gpu.set(&[("0.event_ns.sw_power_cap", "10800240649123")]);
    let query = "--query-gpu=name,clocks.sm,clocks.max.sm,power.draw,pstate,gpu_bus_id,\
                 clocks_throttle_reasons.active,clocks_event_reasons_counters.sw_power_cap";
    assert_eq!(
        smi(&gpu, &[query, "--format=csv"]).0,
        "name, clocks.current.sm [MHz], clocks.max.sm [MHz], power.draw [W], pstate, pci.bus_id, \
         clocks_event_reasons.active, clocks_event_reasons_counters.sw_power_cap [us]\n\
         NVIDIA GB10, 2522 MHz, 3003 MHz, 15.57 W, P0, 0000000F:01:00.0, 0x0000000000000004, \
         10800240649 us\n"
    );
    gpu.set(&[("0.processes.compute", "37388:115168247808,5:NA,6:1048576")]);
    gpu.set(&[("0.process_name.37388", "VLLM::EngineCore"), ("0.process_name.5", "a, b")]);
    let query = "--query-compute-apps=pid,process_name,used_memory";
    assert_eq!(
        smi(&gpu, &[query, "--format=csv"]).0,
        "pid, process_name, used_gpu_memory [MiB]\n37388, VLLM::EngineCore, 109833 MiB\n\
         5, a, b, [N/A]\n6, [Not Found], 1 MiB\n"
    );
    assert_eq!(
        smi(&gpu, &["-L"]).0,
        "GPU 0: NVIDIA GB10 (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"
    );
    assert_eq!(
        smi(&gpu, &["--query-gpu=clocks.throttle_reasons.active", "--format=csv"]),
        (
            "Field \"clocks.throttle_reasons.active\" is not a valid field to query.\n\n"
                .to_owned(),
            2
        )
    );
}

#[test]
fn nvidia_smi_fails_as_the_real_one() {
    let gpu = Gpu::new(SERVER);
    let names =
        ["--query-gpu=index,memory.total,power.draw,clocks.mem", "--format=csv,noheader,nounits"];
    let kmd = ["--query-gpu=kmd_version", "--format=csv,noheader"];
    assert_eq!(smi(&gpu, &kmd).1, 2);
    gpu.set(&[("driver", "595.84"), ("0.memory", "!4"), ("0.power_mw", "!15")]);
    gpu.set(&[("smi.unsupported", "[Not Supported]")]);
    assert_eq!(smi(&gpu, &kmd), ("595.84\n".to_owned(), 0));
    let row = "0, [Insufficient Permissions], [GPU is lost], [Not Supported]\n";
    assert_eq!(smi(&gpu, &names), (row.to_owned(), 0));
    gpu.set(&[("0.memory", "!999"), ("0.power_mw", "5000"), ("0.clock.memory", "!7")]);
    gpu.set(&[("smi.units", "1")]);
    assert_eq!(smi(&gpu, &names).0, "0, [Unknown Error], 5.00 W, ERR!\n");
    gpu.set(&[("smi.refuses", "power.draw, index"), ("smi.delay", "100")]);
    let began = Instant::now();
    assert_eq!(smi(&gpu, &names).0, "Field \"index\" is not a valid field to query.\n\n");
    assert!(began.elapsed() >= Duration::from_millis(100));
    gpu.set(&[("0.device", "!15"), ("smi.refuses", "")]);
    let lost = "Unable to determine the device handle for GPU0: 0000000F:01:00.0: GPU is lost.  \
                Reboot the system to recover this GPU\n";
    let index = ["--query-gpu=index", "--format=csv,noheader"];
    assert_eq!(smi(&gpu, &index), (lost.to_owned(), 15));
    gpu.add_second();
    gpu.leave_out(&["1.device"]);
    assert_eq!(smi(&gpu, &index), (format!("{lost}1\n"), 15));
    gpu.set(&[("count", "0")]);
    assert_eq!(smi(&gpu, &index), ("No devices were found\n".to_owned(), 6));
    for (init, text, exit) in [
        ("!4", "Failed to initialize NVML: Insufficient Permissions\n", 4),
        ("!18", "Failed to initialize NVML: Driver/library version mismatch\n", 18),
        ("!9", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. ", 9),
    ] {
        gpu.set(&[("init", init)]);
        let (printed, code) = smi(&gpu, &index);
        assert!(printed.starts_with(text) && code == exit, "{printed} {code}");
    }
    assert_eq!(smi(&Gpu::new("x86-vm"), &index).1, 9);
}

/// An `nvidia-smi` that hangs in a process group of its own. Nothing of it outlives the test.
struct Hanging<'a> {
    child: Child,
    pids: Vec<u32>,
    gpu: &'a Gpu,
}

impl<'a> Hanging<'a> {
    fn start(gpu: &'a Gpu, how: &str) -> Self {
        gpu.set(&[("smi.hang", how)]);
        let mut command = Command::new(fakes::nvidia_smi());
        command.arg("-L").envs(gpu.environment()).process_group(0).stdout(Stdio::piped());
        let child = command.spawn().expect("starts");
        let mut hanging = Self { child, pids: Vec::new(), gpu };
        hanging.wait_until(|hanging| hanging.gpu.pids().len() == 2);
        hanging.pids = gpu.pids();
        assert_eq!(hanging.pids[0], hanging.child.id());
        hanging
    }

    fn kill_group(&self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    }

    fn wait_until(&mut self, done: impl Fn(&mut Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < Duration::from_secs(10), "never, with {:?}", self.gpu.pids());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.kill_group();
        self.gpu.let_go();
    }
}

/// Whether a process is there and not a dead one that waits for its parent.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn nvidia_smi_hangs_with_a_child() {
    let gpu = Gpu::new(SERVER);
    let mut hanging = Hanging::start(&gpu, "children");
    let child = hanging.pids[1];
    // Killing the one alone leaves the other with the pipe in its hands.
    hanging.child.kill().unwrap();
    hanging.child.wait().unwrap();
    assert!(lives(child));
    hanging.kill_group();
    hanging.wait_until(|_| !lives(child));
}

#[test]
fn nvidia_smi_hangs_beyond_the_reach_of_a_kill() {
    let gpu = Gpu::new(SERVER);
    let mut hanging = Hanging::start(&gpu, "unkillable");
    let tracer = hanging.pids[1];
    for _ in 0..3 {
        hanging.kill_group();
        hanging.child.kill().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(hanging.child.try_wait().unwrap().is_none(), "it was reaped");
    }
    assert!(lives(tracer), "it is in the group that was killed");
    gpu.let_go();
    hanging.wait_until(|hanging| hanging.child.try_wait().unwrap().is_some() && !lives(tracer));
}
