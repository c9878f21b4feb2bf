//! Panels that several dashboards have: the verdicts.

use super::super::colour;
use super::super::panel::{Number, Panel, Tile};
use super::super::query::{Series, of};
use super::super::verdict::{
    self, Rank, alert_mappings, answer_mappings, contention, pool, pool_mappings, pressure,
    throttle,
};
use crate::catalog::metrics::POOL_SAFE_TO_START_BYTES;
use crate::model::pool::Reader;

/// A colour from a value on, for tiles of which more is worse.
pub(super) const NONE_IS_GOOD: &[(Option<f64>, colour::Colour)] =
    &[(None, Rank::Good.colour()), (Some(1.0), Rank::Bad.colour())];
/// The same for figures whose zero is a line not to be crossed.
const NEGATIVE_IS_BAD: &[(Option<f64>, colour::Colour)] =
    &[(None, Rank::Bad.colour()), (Some(0.0), Rank::Good.colour())];

pub(in crate::grafana) fn pool_verdict(id: u32) -> Panel {
    Panel::tile(id, "Pool", Tile::default())
        .says(
            "Whether memory runs out. Room is normal, also on a box that is 90 % full by plan: only the reserve counts, \
             4 GiB unless it is configured otherwise. Running out means within seconds: collapses of 2 to \
             4 GiB a second are usual on these machines.",
        )
        .when_empty("the box does not answer")
        .shows(pool(&[]), "pool")
        .called(pool_mappings())
}

pub(in crate::grafana) fn throttle_verdict(id: u32) -> Panel {
    Panel::tile(id, "Throttle", Tile::default())
        .says(
            "How the GPU works. Idle, nominal and at the power cap are normal: the cap, 80 to 100 W for hours, is what the platform sustains and no \
             fault. Thermal means that heat is proven to cost work. Power delivery means busy at a fraction \
             of clock and power: take the box off the mains for a minute.",
        )
        .when_empty("no GPU, or no answer")
        .shows(throttle().worst_of(Series::gpu, &[]), "throttle")
        .called(throttle().mappings())
}

pub(in crate::grafana) fn contention_verdict(id: u32) -> Panel {
    Panel::tile(id, "Jobs", Tile::default())
        .says(
            "Whether the jobs on the box fit together. Several are normal while their sizes and caps fit into \
             the pool with the reserve. Evicting means that memory in use is proven to be taken away and read \
             back, which shows in no log.",
        )
        .when_empty("the box does not answer")
        .shows(contention().worst(&[]), "jobs")
        .called(contention().mappings())
}

pub(in crate::grafana) fn pressure_verdict(id: u32) -> Panel {
    Panel::tile(id, "Pressure", Tile::default())
        .says(
            "How hard it is to get memory. Comfortable is normal, and so is tight: many boxes are meant to run so. Thrashing means that \
             work stands still for pages that were just taken away.",
        )
        .when_empty("the box does not answer")
        .shows(pressure().worst(&[]), "pressure")
        .called(pressure().mappings())
}

pub(in crate::grafana) fn safe_to_start(id: u32) -> Panel {
    let available = Reader::Available.as_str();
    Panel::tile(id, "Safe to start", Tile::default())
        .says(
            "What the next job can take: headroom less what running jobs may still take by their caps. An estimate, not a promise. Near headroom is normal while servers have settled. A load may take twice the model for a while.",
        )
        .when_empty("not known: a job without a visible bound loads")
        .shows(of(&POOL_SAFE_TO_START_BYTES).is("reader", available).min(&[]), "safe")
        .stepped(NEGATIVE_IS_BAD)
        .digits(1)
}

pub(in crate::grafana) fn firing(id: u32) -> Panel {
    Panel::tile(id, "Alerts firing", Tile::default())
        .says(
            "The gravest alert of this project that fires. None and info are normal: an info asks nothing of anybody. The \
             dashboard Incident lists all that fire. It is none as well where the rules are not loaded into this Prometheus.",
        )
        .when_empty("Prometheus does not answer")
        .shows(verdict::firing(), "alerts")
        .called(alert_mappings())
}

pub(in crate::grafana) fn exporter(id: u32) -> Panel {
    Panel::tile(id, "Exporter", Tile::default())
        .says(
            "Whether the last scrape was answered, which is normal. On these machines an exporter that is silent is often a box \
             that has frozen: it may answer ping and nothing else.",
        )
        .when_empty("not scraped: no such box in this Prometheus")
        .shows(verdict::answers(&[]), "exporter")
        .called(answer_mappings())
}

/// All verdicts over time.
pub(in crate::grafana) fn verdicts(id: u32, width: u32) -> Panel {
    Panel::states(Number::Own(id), "Verdicts over time")
        .says(
            "What the exporter judged, each verdict as one band, and the gravest alert that fired. Green and sky blue are normal, the latter worth knowing; yellow is worth a look, orange costs work, vermilion is about to lose the \
             box, grey cannot be told. A gap is a time without an answer.",
        )
        .when_empty("no answer in this time: see the dashboard Fleet for boxes that are silent")
        .wide(width)
        .shows(verdict::firing(), "alerts")
        .shows(pool(&[]), "pool")
        .shows(pressure().worst(&[]), "pressure")
        .shows(contention().worst(&[]), "jobs")
        .shows(throttle().worst_of(Series::gpu, &["gpu"]), "GPU {{gpu}}")
        .called(
            [
                alert_mappings(),
                pool_mappings(),
                pressure().mappings(),
                contention().mappings(),
                throttle().mappings(),
            ]
            .concat(),
        )
}
