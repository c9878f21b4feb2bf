//! Heat and power: what the GPU draws, how warm it and its board are, and what that costs.

use super::super::super::colour;
use super::super::super::panel::{Lines, Number, Panel, Shelf};
use super::super::super::query::{Query, Series, of};
use super::super::super::verdict::{Rank, called, faint, throttle};
use crate::catalog::links::Panel as Place;
use crate::catalog::metrics::{
    BOARD_TEMPERATURE_CELSIUS, BOARD_TEMPERATURE_MAX_CELSIUS, GPU_CLOCK_CAP_CHANGES_TOTAL,
    GPU_CLOCK_CAP_HERTZ, GPU_CLOCK_HERTZ, GPU_CLOCK_LEARNED_HERTZ, GPU_CLOCK_MAX_HERTZ,
    GPU_EVENT_REASON, GPU_EVENT_REASON_SECONDS_TOTAL, GPU_POWER_MAX_WATTS, GPU_POWER_WATTS,
    GPU_SM_CLOCK_MIN_HERTZ, GPU_TEMPERATURE_CELSIUS, GPU_TEMPERATURE_MARGIN_CELSIUS,
    GPU_UTILIZATION_RATIO, MODULE_BUDGET_USED_WATTS, MODULE_ENERGY_JOULES_TOTAL,
    MODULE_POWER_LIMIT_WATTS, MODULE_PROCHOT, POWER_THRESHOLD_WATTS, TEMPERATURE_THRESHOLD_CELSIUS,
    THROTTLE_BASELINE_HERTZ, THROTTLE_CLOCK_LOST_RATIO, THROTTLE_EPISODES_TOTAL,
    THROTTLE_SECONDS_TOTAL, THROTTLE_SIGNATURE, THROTTLE_THERMAL_RATIO, THROTTLE_UNREACHABLE,
    ZONE_TEMPERATURE_CELSIUS, ZONE_TRIP_CELSIUS,
};
use crate::model::gpu::{ClockKind, EventReason};
use crate::model::pool::Window;
use crate::model::throttle::CapChange;

const MINUTE: &str = Window::OneMinute.as_str();

fn power_line(scope: &str, threshold: &str) -> Query {
    of(&POWER_THRESHOLD_WATTS).is("scope", scope).is("threshold", threshold).max(&[])
}

fn heat_line(scope: &str, threshold: &str) -> Query {
    of(&TEMPERATURE_THRESHOLD_CELSIUS).is("scope", scope).is("threshold", threshold).max(&[])
}

fn sm(series: Series) -> Query {
    series.gpu().is("clock", ClockKind::Sm.as_str()).max(&["gpu"])
}

pub(super) fn power() -> Panel {
    let most = of(&GPU_POWER_MAX_WATTS).gpu().is("window", MINUTE).max(&[]);
    Panel::lines(Number::Linked(Place::Power), "GPU power", Lines::default())
        .says(
            "Power of the GPU alone. A plateau of 80 to 100 W for hours is normal, for that is what the platform sustains; the 240 W \
             of the supply are for the whole box and are never reached by the GPU. So are 30 to 50 W while decoding. \
             Busy under 30 W means waiting or a supply that does not deliver.",
        )
        .when_empty("no GPU, or it does not tell its power (see What cannot be read)")
        .wide(8)
        .draws(most, "GPU, most of 1 min", colour::ORANGE)
        .draws(of(&GPU_POWER_WATTS).gpu().max(&[]), "GPU", colour::GPU)
        .compares(power_line("gpu", "sustained"), "sustained", colour::EXPECTED)
        .compares(power_line("supply", "rated"), "supply rated", colour::RATED)
}

pub(super) fn temperature() -> Panel {
    Panel::lines(Number::Own(130), "Temperature", Lines { floating: true, ..Lines::default() })
        .says(
            "The GPU and the hottest zone of its board, which reads about ten degrees more. 80 to 85 for the GPU \
             and 85 to 90 for the board are normal after an hour of full load. Hot is where the throttle \
             verdict begins to look; boxes have cut their power from 93 on.",
        )
        .when_empty("neither the GPU nor the board tells a temperature")
        .wide(8)
        .draws(of(&GPU_TEMPERATURE_CELSIUS).gpu().max(&[]), "GPU", colour::GPU)
        .draws(of(&BOARD_TEMPERATURE_CELSIUS).max(&[]), "board, hottest zone", colour::BOARD)
        .compares(heat_line("gpu", "hot"), "GPU hot", colour::RATED)
        .compares(heat_line("board", "cutoff_from"), "board cut-off", colour::LIMIT)
}

pub(super) fn clock() -> Panel {
    let least = of(&GPU_SM_CLOCK_MIN_HERTZ).gpu().is("window", MINUTE).min(&[]);
    let changes = of(&GPU_CLOCK_CAP_CHANGES_TOTAL).gpu();
    let lost = changes.is("change", CapChange::Lost.as_str()).increase().sum(&[]);
    Panel::lines(Number::Linked(Place::Clock), "SM clock", Lines::default())
        .says(
            "The SM clock, which throttling lowers. 2.0 to 2.5 GHz of 3.0 are normal for busy boxes. The cap (nvidia-smi \
             -lgc) is inferred from a clock that stays at one value, for no query tells it. Learned is the \
             highest under load; under 1 GHz while busy is a fault unless it is capped so.",
        )
        .when_empty("no GPU, or it does not tell its clock (see What cannot be read)")
        .wide(8)
        .digits(2)
        .draws(least, "SM, least of 1 min", colour::ORANGE)
        .draws(sm(of(&GPU_CLOCK_HERTZ)).max(&[]), "SM", colour::GPU)
        .compares(of(&GPU_CLOCK_CAP_HERTZ).gpu().min(&[]), "cap", colour::LIMIT)
        .compares(of(&GPU_CLOCK_LEARNED_HERTZ).gpu().min(&[]), "learned", colour::GREEN)
        .compares(of(&THROTTLE_BASELINE_HERTZ).gpu().min(&[]), "this job at first", colour::BLUE)
        .compares(sm(of(&GPU_CLOCK_MAX_HERTZ)).max(&[]), "highest", colour::RATED)
        .marks(lost, "caps lost", colour::YELLOW)
}

pub(super) fn shelves() -> Vec<Shelf> {
    vec![
        Shelf::Title("Heat and power"),
        Shelf::Panels(7, vec![states(), reasons()]),
        Shelf::Panels(8, vec![zones(), cost(), utilization()]),
        Shelf::Panels(8, vec![time(), margins(), rails()]),
    ]
}

fn states() -> Panel {
    Panel::states(Number::Linked(Place::ThrottleStates), "Throttle state")
        .says(
            "How each GPU works, and whether the signature of heat is there: ten minutes of flat power well under \
             the rating with a temperature that climbs or is high. Idle, nominal and at power cap are normal. \
             The signature alone proves no cost.",
        )
        .when_empty("no GPU, or no answer")
        .wide(12)
        .shows(throttle().worst_of(Series::gpu, &["gpu"]), "GPU {{gpu}}")
        .shows(
            of(&THROTTLE_SIGNATURE).gpu().max(&["gpu"]),
            "GPU {{gpu}} signature",
        )
        .called(throttle().mappings())
        .called(vec![faint("0"), called(1, Rank::Watch, "signature")])
}

fn reasons() -> Panel {
    let reasons = of(&GPU_EVENT_REASON).gpu().without("reason", EventReason::Idle.as_str());
    Panel::states(Number::Own(131), "Reasons that hold the clock")
        .says(
            "Event reasons that NVIDIA's driver states. Idle on an idle GPU and the software power cap under full \
             load are normal. Thermal reasons for seconds are normal at 85 degrees; for minutes they cost work. \
             A supply that does not deliver has none.",
        )
        .when_empty("the driver states no reasons")
        .wide(12)
        .shows(reasons.max(&["reason"]), "{{reason}}")
        .called(vec![faint("0"), called(1, Rank::Watch, "holds")])
}

fn zones() -> Panel {
    let place = Number::Linked(Place::BoardZones);
    let most = of(&BOARD_TEMPERATURE_MAX_CELSIUS).is("window", MINUTE).max(&[]);
    Panel::lines(place, "Zones of the board", Lines { floating: true, ..Lines::default() })
        .says(
            "Every thermal zone, by its ACPI name; which one is the GPU is contested. 85 to 90 degrees are normal \
             under full load. Boxes have cut their power between 93 and 96, well under the 104.8 that the \
             firmware states as its trip point.",
        )
        .when_empty("no thermal zone can be read")
        .wide(12)
        .coloured(vec![
            ("/^TSOC/".to_owned(), colour::BOARD),
            ("/^TGPU/".to_owned(), colour::GPU),
            ("/^TS0E/".to_owned(), colour::BLUE),
            ("/^TS0P/".to_owned(), colour::BROWN),
            ("/^TS1E/".to_owned(), colour::SKY),
            ("/^TS1P/".to_owned(), colour::PALE_GREY),
            ("/^TUNC/".to_owned(), colour::GREEN),
        ])
        .numbered(colour::zones())
        .shows(of(&ZONE_TEMPERATURE_CELSIUS).max(&["zone"]), "{{zone}}")
        .draws(most, "hottest, most of 1 min", colour::YELLOW)
        .compares(heat_line("board", "cutoff_from"), "cut-off from", colour::LIMIT)
        .compares(heat_line("board", "cutoff_to"), "cut-off to", colour::LIMIT)
        .compares(of(&ZONE_TRIP_CELSIUS).min(&[]), "trip by firmware", colour::RATED)
}

fn cost() -> Panel {
    let thermal = of(&THROTTLE_THERMAL_RATIO).gpu().max(&[]);
    Panel::lines(Number::Own(132), "What heat costs", Lines::default())
        .says(
            "Share of the last minutes under a thermal reason, and what the clock has lost against the job's own \
             first steady minutes. Both near 0 are normal. Other work has other clocks, so a lost clock alone \
             proves nothing.",
        )
        .when_empty("the GPU is not busy, or there is nothing to compare with yet")
        .wide(6)
        .draws(thermal, "time under a thermal reason", colour::VERMILION)
        .draws(of(&THROTTLE_CLOCK_LOST_RATIO).gpu().max(&[]), "clock lost", colour::BLUE)
}

fn utilization() -> Panel {
    let lines = Lines { share: true, ..Lines::default() };
    Panel::lines(Number::Own(133), "GPU utilization", lines)
        .says(
            "Share of time in which a kernel ran. 96 % is normal for a busy GB10, whatever it gets done: judge it \
             beside power and clock.",
        )
        .when_empty("no GPU, or it does not tell its utilization")
        .wide(6)
        .draws(of(&GPU_UTILIZATION_RATIO).gpu().max(&[]), "busy", colour::GPU)
}

fn time() -> Panel {
    let lines = Lines { stacked: true, ..Lines::default() };
    let reasons =
        of(&GPU_EVENT_REASON_SECONDS_TOTAL).gpu().matching("reason", "sw_thermal|hw_thermal");
    Panel::lines(Number::Own(134), "Share of time held back", lines)
        .says(
            "Share of time in each state that holds the GPU back, as the verdict has it, and under thermal reasons \
             by the driver's own counters. Hours at the power cap are normal.",
        )
        .when_empty("no GPU, or no answer")
        .wide(8)
        .coloured(vec![
            ("/^at_power_cap/".to_owned(), Rank::Known.colour()),
            ("/^heating_at_cap/".to_owned(), Rank::Watch.colour()),
            ("/^thermal/".to_owned(), Rank::Bad.colour()),
            ("/^power_delivery/".to_owned(), Rank::Grave.colour()),
            ("/^stalled_busy/".to_owned(), colour::PURPLE),
        ])
        .shows(of(&THROTTLE_SECONDS_TOTAL).gpu().rate().max(&["kind"]), "{{kind}}")
        .compares(reasons.rate().sum(&[]), "thermal by the driver", colour::RATED)
}

fn margins() -> Panel {
    let begun = of(&THROTTLE_EPISODES_TOTAL).gpu().increase().sum(&["kind"]);
    Panel::lines(Number::Own(135), "Margin and episodes", Lines::default())
        .says(
            "Degrees that the driver says are left to its highest operating temperature, 96 on this part: \
             throttling in software starts long before it is used up, so 10 to 15 are normal under load. Bars of \
             episodes: how often a state that holds the GPU back began.",
        )
        .when_empty("no GPU, or it does not tell its margin")
        .wide(8)
        .draws(of(&GPU_TEMPERATURE_MARGIN_CELSIUS).gpu().min(&[]), "margin", colour::GPU)
        .marks(begun.sum(&[]), "episodes begun", colour::ORANGE)
}

fn rails() -> Panel {
    let used = of(&MODULE_BUDGET_USED_WATTS).max(&["limit"]);
    Panel::lines(Number::Own(136), "Module and its limits", Lines::default())
        .says(
            "Mean power of the whole package and what counts against the limits of the firmware's controller, \
             where the optional driver spbm is loaded. Limits of 140 W (pl1) and 231 W (syspl1) are normal; about \
             20 and 30 W mean that the box has not agreed with its supply. NVML knows nothing of it.",
        )
        .when_empty("n/a: the optional driver spbm is not loaded, and nothing else tells the module's power")
        .wide(8)
        .coloured(vec![
            ("/^used of pl1/".to_owned(), colour::GPU),
            ("/^used of pl2/".to_owned(), colour::SKY),
            ("/^used of syspl1/".to_owned(), colour::BLUE),
            ("/^used of syspl2/".to_owned(), colour::GREEN),
            ("/^limit/".to_owned(), colour::LIMIT),
        ])
        .shows(used, "used of {{limit}}")
        .shows(of(&MODULE_POWER_LIMIT_WATTS).min(&["limit"]), "limit {{limit}}")
        .draws(of(&MODULE_ENERGY_JOULES_TOTAL).is("rail", "pkg").rate().sum(&[]), "package", colour::ORANGE)
        .draws(of(&MODULE_PROCHOT).max(&[]), "processor hot", colour::VERMILION)
}

/// States that cannot be told for want of an input.
pub(super) fn unreachable() -> Panel {
    Panel::states(Number::Own(137), "States that cannot be told")
        .says(
            "A state is listed while an input that it needs is missing: it can then not be reached, whatever the \
             GPU does. Empty is normal; the reason is in What cannot be read.",
        )
        .when_empty("every state can be told")
        .wide(6)
        .shows(of(&THROTTLE_UNREACHABLE).gpu().max(&["state", "input"]), "{{state}}: no {{input}}")
        .called(vec![called(1, Rank::Untold, "cannot be told")])
}
