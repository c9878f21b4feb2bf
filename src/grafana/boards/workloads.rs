//! Who holds what, and who fights.

use super::super::colour::{self, Colour, classes};
use super::super::panel::{Column, Dashboard, Lines, Number, Panel, Shelf, Tile};
use super::super::query::{NUMBER, Query, of};
use super::super::verdict::{Rank, called, contention, phase, symptom_mappings, symptoms};
use super::tiles::{self, NONE_IS_GOOD};
use super::training;
use crate::catalog::Metric;
use crate::catalog::links::{Board, Panel as Place};
use crate::catalog::metrics::{
    CONTENTION_COMMITTED_RATIO, CONTENTION_HEAVY_JOBS, CONTENTION_UNCAPPED_JOBS, GPU_PROCESSES,
    GPU_PROCESSES_MEMORY_BYTES, POOL_ATTRIBUTION, POOL_SIZE_BYTES, RELEASE_LAG_SECONDS,
    RELEASE_PENDING_BYTES, WORKLOAD_CAP_BYTES, WORKLOAD_CAP_EXCEEDED, WORKLOAD_CAP_KIND,
    WORKLOAD_ENDS_TOTAL, WORKLOAD_GPU_MEMORY_BYTES, WORKLOAD_GROUP_MEMORY_BYTES,
    WORKLOAD_LOAD_PEAK_BYTES, WORKLOAD_MAJOR_FAULTS_TOTAL, WORKLOAD_ORPHANED_BYTES,
    WORKLOAD_PROCESSES, WORKLOAD_RESIDENT_BYTES, WORKLOAD_STARTS_TOTAL, WORKLOAD_SWAP_BYTES,
    WORKLOAD_VIEW,
};
use crate::model::workload::View;

/// What tells jobs apart.
const JOB: &[&str] = &["workload", "unit"];
const NAME: &str = "{{workload}} {{unit}}";

fn by_job(metric: &'static Metric) -> Query {
    of(metric).sum(JOB)
}

pub(in crate::grafana) fn dashboard() -> Dashboard {
    let verdicts = vec![
        tiles::contention_verdict(100),
        heavy(),
        uncapped(),
        committed(),
        pending(),
        orphaned(),
    ];
    let mut shelves = vec![
        Shelf::Panels(3, verdicts),
        Shelf::Panels(8, vec![contention_states(), phases()]),
        Shelf::Panels(9, vec![holders(), resident()]),
        Shelf::Panels(8, vec![now()]),
        Shelf::Title("Caps, loads and what stays behind"),
        Shelf::Panels(8, vec![caps(), peaks(), release()]),
        Shelf::Title("What it does to the jobs"),
        Shelf::Panels(8, vec![swap(), faults(), starts_and_ends()]),
        Shelf::Panels(8, vec![groups(), processes().wide(6), attribution(), view().wide(3)]),
    ];
    shelves.extend(training::shelves());
    Dashboard {
        board: Board::Workloads,
        title: "GB10: Workloads",
        about: "Who holds the pool, by class and unit, and who fights over it. With several boxes chosen, jobs of \
                one class and unit are added up.",
        span: "1h",
        refresh: "15s",
        shelves,
    }
}

const CALM: &[(Option<f64>, Colour)] =
    &[(None, Rank::Good.colour()), (Some(2.0), Rank::Watch.colour())];

fn heavy() -> Panel {
    Panel::tile(102, "Heavy jobs", Tile::default())
        .says("Jobs that hold 4 GiB without a cap, or hold or may take half of the pool. One is normal, two seldom fit.")
        .when_empty("n/a: a cap that would decide it cannot be seen")
        .shows(of(&CONTENTION_HEAVY_JOBS).max(&[]), "heavy")
        .stepped(CALM)
        .digits(0)
}

fn uncapped() -> Panel {
    Panel::tile(103, "Unbounded", Tile::default())
        .says("Jobs that hold something and that nothing bounds. One beside small capped ones is normal; trainers have none.")
        .when_empty("the box does not answer, or its jobs cannot be seen")
        .shows(of(&CONTENTION_UNCAPPED_JOBS).max(&[]), "uncapped")
        .stepped(CALM)
        .digits(0)
}

fn committed() -> Panel {
    Panel::tile(104, "Committed", Tile::default())
        .says("What jobs hold or may take by their caps, as a share of the pool. Up to 95 % is normal by plan; above it somebody loses.")
        .when_empty("the box does not answer, or its jobs cannot be seen")
        .shows(of(&CONTENTION_COMMITTED_RATIO).max(&[]), "committed")
        .stepped(&[(None, Rank::Good.colour()), (Some(1.0), Rank::Watch.colour())])
        .digits(0)
}

fn pending() -> Panel {
    Panel::tile(105, "Being released", Tile::default())
        .says("What is still held of jobs that have ended. 0 is normal within a minute; releases of three minutes were seen.")
        .when_empty("n/a: the driver's processes cannot be read")
        .shows(of(&RELEASE_PENDING_BYTES).max(&[]), "pending")
        .stepped(&[(None, Rank::Good.colour()), (Some(1_073_741_824.0), Rank::Watch.colour())])
        .digits(1)
}

fn orphaned() -> Panel {
    // Absent when there are none; the other figure is absent when nobody can tell.
    let none = of(&RELEASE_PENDING_BYTES).sum(&[]);
    let none = Query { text: format!("0 * {}", none.text), ..none };
    let orphaned = of(&WORKLOAD_ORPHANED_BYTES).sum(&[]).or(&none);
    Panel::tile(106, "Orphaned", Tile::default())
        .says("What workers without their server hold and do nothing with. None is normal. The runbook says how to end them.")
        .when_empty("n/a: the driver's processes cannot be read")
        .shows(orphaned, "orphaned")
        .stepped(NONE_IS_GOOD)
        .digits(1)
}

fn view() -> Panel {
    let states: Vec<String> = View::ALL
        .iter()
        .map(|view| {
            let series = of(&WORKLOAD_VIEW).is("view", view.as_str());
            format!("{} * ({} == 1)", *view as u8, series.now().text)
        })
        .collect();
    let query = Query { text: states.join(" or "), unit: NUMBER };
    let mappings = View::ALL.iter().map(|view| {
        let rank = if *view == View::Full { Rank::Good } else { Rank::Untold };
        called(u32::from(*view as u8), rank, view.as_str())
    });
    Panel::tile(107, "Sight", Tile::default())
        .says(
            "How much of the box's processes can be seen. Full is normal. In a container without the host's pids \
             jobs are in another namespace, and this dashboard knows nothing of them.",
        )
        .when_empty("n/a: processes are not read")
        .shows(query.max(&[]), "view")
        .called(mappings.collect())
}

fn contention_states() -> Panel {
    Panel::states(Number::Linked(Place::ContentionStates), "Who fights")
        .says(
            "Whether the jobs fit together, and the signs that memory in use was taken away. None and shared are \
             normal. Overcommitted may work for hours; evicting means that it does not: a slow run or a lost cache \
             is then the only symptom, and no log has an error.",
        )
        .when_empty("the box does not answer")
        .wide(12)
        .shows(contention().worst(&[]), "jobs")
        .shows(symptoms(&["symptom"]), "{{symptom}}")
        .called(contention().mappings())
        .called(symptom_mappings())
}

fn phases() -> Panel {
    Panel::states(Number::Own(110), "What jobs do")
        .says(
            "What each job does: starting, loading (what it holds grows), warming, serving, idle. Serving and idle for hours are normal, and minutes for a load of tens of GiB; one that starts again and again is a loop, however its health check answers. Below them the pace of training runs, against their own.",
        )
        .when_empty("no job that is known by its class, and no training log is followed")
        .wide(12)
        .shows(phase().worst(JOB), NAME)
        .shows(training::paces(), "run {{run}}")
        .called(phase().mappings())
        .called(training::pace_mappings())
}

fn holders() -> Panel {
    let lines = Lines { stacked: true, ..Lines::default() };
    Panel::lines(Number::Linked(Place::Holders), "GPU memory by job", lines)
        .says(
            "What the driver charges to each job. On a GB10 it is part of the pool, and neither resident memory nor \
             a control group shows it. A server takes its share at the start and keeps it: flat is normal.",
        )
        .when_empty("no job on the GPU, or its processes cannot be seen (see Sight)")
        .wide(12)
        .coloured(classes())
        .shows(by_job(&WORKLOAD_GPU_MEMORY_BYTES), NAME)
        .compares(of(&POOL_SIZE_BYTES).sum(&[]), "pool", colour::RATED)
}

fn resident() -> Panel {
    let lines = Lines { stacked: true, ..Lines::default() };
    Panel::lines(Number::Own(111), "Resident memory by job", lines)
        .says(
            "Resident memory of each job's processes, mapped files included and shared pages counted in each. It comes on top of GPU memory. A few GiB for a server are normal; while a model loads it can be as large as the model, and falls when the mapping is given up.",
        )
        .when_empty("no job that is known by its class, or its processes cannot be seen")
        .wide(12)
        .coloured(classes())
        .shows(by_job(&WORKLOAD_RESIDENT_BYTES), NAME)
        .compares(of(&POOL_SIZE_BYTES).sum(&[]), "pool", colour::RATED)
}

fn now() -> Panel {
    let columns = vec![
        Column::label("workload", "Class"),
        Column::label("unit", "Unit"),
        Column::values(0, "Does").states(phase().mappings()).wide(95),
        Column::values(1, "GPU memory").wide(105),
        Column::values(2, "Resident").wide(90),
        Column::values(3, "Swapped").wide(85),
        Column::values(4, "Cap").wide(80),
        Column::label("kind", "Bounded by").wide(105),
        Column::values(6, "Beyond it").wide(85),
        Column::values(7, "Load peak").wide(90),
    ];
    let kind = of(&WORKLOAD_CAP_KIND).max(&["workload", "unit", "kind"]).only("> 0");
    Panel::table(Number::Own(112), "Jobs now", columns)
        .says(
            "Every job that is known, with what it holds, may take and did take while it loaded. Use up to the cap is normal. An empty cap has no bound in bytes or one that cannot be seen; a limit of a control group does not bind GPU memory.",
        )
        .when_empty("no job that is known by its class, or its processes cannot be seen")
        .shows(phase().worst(JOB), "")
        .shows(by_job(&WORKLOAD_GPU_MEMORY_BYTES), "")
        .shows(by_job(&WORKLOAD_RESIDENT_BYTES), "")
        .shows(by_job(&WORKLOAD_SWAP_BYTES), "")
        .shows(by_job(&WORKLOAD_CAP_BYTES), "")
        .shows(kind, "")
        .shows(by_job(&WORKLOAD_CAP_EXCEEDED), "")
        .shows(of(&WORKLOAD_LOAD_PEAK_BYTES).max(JOB), "")
}

fn caps() -> Panel {
    let used = by_job(&WORKLOAD_GPU_MEMORY_BYTES).share_of(&by_job(&WORKLOAD_CAP_BYTES));
    let committed = of(&CONTENTION_COMMITTED_RATIO).max(&[]);
    Panel::lines(Number::Linked(Place::Caps), "Caps against use", Lines::default())
        .says(
            "What each job holds of the cap that it was given, and what all of them may take of the pool. 85 to 100 % of a server's cap are normal. Above 100 % the cap is none; a committed share above 100 % does not fit. \
             Jobs without a cap in bytes are not here.",
        )
        .when_empty("no job has a cap in bytes that can be seen")
        .wide(8)
        .coloured(classes())
        .shows(used, NAME)
        .compares(committed, "committed of the pool", colour::RATED)
}

fn peaks() -> Panel {
    Panel::lines(Number::Own(113), "Most that was held while loading", Lines::default())
        .says(
            "GPU and resident memory together at the peak of each job's load. Up to twice the model is normal: the \
             mapped file and its copy. The next start needs this much.",
        )
        .when_empty("no load was seen yet")
        .wide(8)
        .coloured(classes())
        .shows(of(&WORKLOAD_LOAD_PEAK_BYTES).max(JOB), NAME)
}

fn release() -> Panel {
    let orphans = of(&WORKLOAD_ORPHANED_BYTES).sum(&["workload", "unit", "proof"]);
    Panel::lines(Number::Linked(Place::Release), "What stopped jobs still hold", Lines::default())
        .says(
            "Memory of jobs that have ended and that is not back, workers that their server left behind, and how \
             long the last release took. A second is normal, a minute was seen after kills, three after stops. \
             A container that is gone proves nothing.",
        )
        .when_empty("n/a: the driver's processes cannot be read")
        .wide(8)
        .draws(of(&RELEASE_PENDING_BYTES).sum(&[]), "still held", colour::ORANGE)
        .draws(of(&RELEASE_LAG_SECONDS).max(&[]), "release took", colour::GREY)
        .shows(orphans, "orphaned {{workload}} {{unit}}, {{proof}}")
}

fn swap() -> Panel {
    Panel::lines(Number::Own(114), "Swapped out by job", Lines::default())
        .says("Memory of each job that is in swap. 0 is normal; a server that sleeps may lose some hundred MiB.")
        .when_empty("no job that is known by its class, or its processes cannot be seen")
        .wide(8)
        .coloured(classes())
        .shows(by_job(&WORKLOAD_SWAP_BYTES), NAME)
}

fn faults() -> Panel {
    let faults = of(&WORKLOAD_MAJOR_FAULTS_TOTAL).rate().sum(JOB);
    Panel::lines(Number::Own(115), "Faults that waited for a disk, by job", Lines::default())
        .says("Who waits for pages that were taken away. Some hundred a second while a job starts are normal, none once it has settled.")
        .when_empty("no job that is known by its class, or its processes cannot be seen")
        .wide(8)
        .coloured(classes())
        .shows(faults, NAME)
}

fn starts_and_ends() -> Panel {
    let ends = of(&WORKLOAD_ENDS_TOTAL).increase().sum(&["workload", "phase"]).only("> 0");
    let starts = of(&WORKLOAD_STARTS_TOTAL).increase().sum(&["workload"]).only("> 0");
    let lines = Lines { bars: true, ..Lines::default() };
    Panel::lines(Number::Linked(Place::StartsAndEnds), "Starts and ends", lines)
        .says(
            "Jobs that began and ended, by what they were doing when they ended. None for hours is normal, and an end while serving or idle is a stop; ends while starting, loading or warming, again and again, are a loop of restarts.",
        )
        .when_empty("no job began or ended in this time")
        .wide(8)
        .coloured(classes())
        .shows(starts, "{{workload}} starts")
        .shows(ends, "{{workload}} ends while {{phase}}")
}

fn groups() -> Panel {
    Panel::lines(Number::Own(116), "What control groups see", Lines::default())
        .says(
            "What the jobs' control groups account for, beside nothing of their GPU memory: docker stats and kubectl \
             top show this. Far less than the job holds is normal on these machines.",
        )
        .when_empty("no control group can be read")
        .wide(8)
        .coloured(classes())
        .shows(by_job(&WORKLOAD_GROUP_MEMORY_BYTES), NAME)
}

fn processes() -> Panel {
    Panel::lines(Number::Own(117), "Processes by job", Lines::default())
        .says("Processes of each job. One to a handful are normal for a server, dozens for a build. 0 after the last has ended.")
        .when_empty("no job that is known by its class, or its processes cannot be seen")
        .wide(8)
        .coloured(classes())
        .shows(by_job(&WORKLOAD_PROCESSES), NAME)
}

fn attribution() -> Panel {
    let told = of(&POOL_ATTRIBUTION).max(&["state"]).only("== 1");
    // A figure of the whole box in the row of its state.
    let beside = |figure: Query| Query {
        text: format!("({}) * on () group_left {}", told.text, figure.text),
        ..figure
    };
    let columns = vec![
        Column::label("state", "Account").wide(100),
        Column::values(1, "GPU memory").wide(105),
        Column::values(2, "Processes").wide(95),
    ];
    Panel::table(Number::Own(118), "How sure it is who holds what", columns)
        .says(
            "How far the account of GPU memory can be trusted. Complete is normal; estimated where the driver keeps \
             page pools; hidden in a container without the host's pids.",
        )
        .when_empty("the box does not answer")
        .wide(7)
        .shows(told.clone(), "")
        .shows(beside(of(&GPU_PROCESSES_MEMORY_BYTES).sum(&[])), "")
        .shows(beside(of(&GPU_PROCESSES).sum(&[])), "")
}
