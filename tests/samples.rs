//! What `sample` writes of every captured machine is read back as what it was.

mod support;

use gb10_exporter::capture::Capture;
use gb10_exporter::export::sample::{self, Columns, Style};
use gb10_exporter::model::frame::Frame;
use gb10_exporter::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use gb10_exporter::model::samples::{SamplePoint, SampleRemark, SampleSeries};
use gb10_exporter::sources::samples::{SampleOptions, read};
use gb10_exporter::units::{Ratio, Watts};
use jiff::tz::TimeZone;

/// Header and two rows in a zone, read back in it.
fn there_and_back(
    frame: &Frame,
    gpu: u32,
    style: Option<Style>,
    columns: &Columns,
) -> SampleSeries {
    let zone = TimeZone::posix("IST-5:30").unwrap();
    let at = || sample::timestamp(frame.snapshot.at.wall, &zone);
    let header = style.map(|style| sample::header(style, columns)).unwrap_or_default();
    let row = sample::row(at(), Some(frame), gpu, columns) + &sample::row(at(), None, gpu, columns);
    let text = header + &row;
    let options = SampleOptions { zone, gpu: None };
    read("sample", text.as_bytes(), &options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn basics(frame: &Frame, gpu: Option<&Gpu>, point: &SamplePoint) {
    assert_eq!(point.wall, frame.snapshot.at.wall);
    let temperature = gpu.and_then(|gpu| gpu.temperature.ok()).map(|t| t.0.round());
    assert_eq!(point.temperature.ok().map(|t| t.0), temperature);
    let power = gpu.and_then(|gpu| gpu.mean_power().ok());
    let off = |Watts(written): Watts, Watts(was): Watts| (written - was).abs();
    let near = match (point.power.ok(), power) {
        (Some(written), Some(was)) => off(written, was) <= 0.005_001,
        (written, was) => written.is_none() && was.is_none(),
    };
    assert!(near, "{:?} {power:?}", point.power);
}

#[test]
fn what_was_written_is_read() {
    for (name, path) in support::captures() {
        let frame = support::frame(&Capture::load(&path).unwrap());
        let gpu = frame.snapshot.gpus.each().next();
        let index = gpu.map_or(0, |gpu| gpu.index);
        for style in [Some(Style::Short), Some(Style::Smi), None] {
            let series = there_and_back(&frame, index, style, &Columns::default());
            basics(&frame, gpu, &series.points[0]);
            assert_eq!((series.points.len(), series.points[1].temperature.is_ok()), (2, false));
            assert_eq!(series.remarks, [SampleRemark::ZoneAssumed], "{name}");
        }
        for style in [Style::Short, Style::Smi] {
            let columns = Columns::of(&frame);
            let series = there_and_back(&frame, index, Some(style), &columns);
            let point = &series.points[0];
            basics(&frame, gpu, point);
            assert_eq!(point.available.ok(), frame.snapshot.meminfo.available.ok(), "{name}");
            assert_eq!(series.points[1].available.ok(), None);
            let Some(gpu) = gpu else { continue };
            assert_eq!(point.clock.ok(), gpu.clocks[ClockKind::Sm as usize].ok(), "{name}");
            // In percent and back, a share is a little off.
            let percent = |share: Ratio| (share.0 * 1e6).round();
            let (written, was) = (point.utilization.ok(), gpu.utilization.ok());
            assert_eq!(written.map(percent), was.map(percent), "{name}");
            assert_eq!(point.reasons.ok(), gpu.event_reasons.ok().map(|mask| mask.0), "{name}");
            let thermal = [EventReason::SwThermal, EventReason::HwThermal];
            let seconds = TIMED.iter().zip(gpu.event_seconds);
            let seconds = seconds.filter(|(reason, _)| thermal.contains(reason));
            let larger = seconds.filter_map(|(_, s)| Some(s.ok()?.0)).reduce(f64::max);
            assert_eq!(point.thermal_seconds.ok().map(|s| s.0), larger, "{name}");
            let judged = frame.verdicts.throttle.iter().find(|one| one.index == gpu.index);
            assert_eq!(point.throttle.as_deref(), judged.map(|one| one.state().as_str()), "{name}");
        }
    }
}
