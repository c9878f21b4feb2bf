//! Panels, and the shelves that they stand on.

use super::colour::Colour;
use super::query::{AGO, Query, Shown};
use super::verdict::Mapping;
use crate::catalog::links::{Board, Panel as Place};

/// Columns of Grafana's grid.
pub(super) const COLUMNS: u32 = 24;

/// A dashboard.
pub(super) struct Dashboard {
    pub(super) board: Board,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// The time that is shown at first, until now.
    pub(super) span: &'static str,
    /// How often it is drawn anew.
    pub(super) refresh: &'static str,
    pub(super) shelves: Vec<Shelf>,
}

/// Panels of one height side by side, or the title of those that follow.
pub(super) enum Shelf {
    Title(&'static str),
    Panels(u32, Vec<Panel>),
}

/// A panel's number.
#[derive(Clone, Copy)]
pub(super) enum Number {
    /// The one that alerts lead to.
    Linked(Place),
    /// One of its own, from 100.
    Own(u32),
}

impl Number {
    pub(super) fn id(self) -> u32 {
        match self {
            Self::Linked(place) => place.id(),
            Self::Own(id) => id,
        }
    }
}

/// How a panel shows its values.
pub(super) enum View {
    /// One large value.
    Tile(Tile),
    /// Lines over time.
    Lines(Lines),
    /// States over time.
    States,
    /// Rows.
    Table(Vec<Column>),
}

/// A tile.
#[derive(Clone, Copy, Default)]
pub(super) struct Tile {
    /// A figure and no verdict: not on a coloured ground.
    pub(super) plain: bool,
}

/// What lines look like together.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(super) struct Lines {
    /// They stand one on the other and add up.
    pub(super) stacked: bool,
    /// The axis ends at 1.
    pub(super) share: bool,
    /// They are bars.
    pub(super) bars: bool,
    /// The axis need not begin at zero.
    pub(super) floating: bool,
    /// The names stand at the right, with values.
    pub(super) beside: bool,
}

/// A column of a table.
pub(super) struct Column {
    /// The label, or the target's letter.
    pub(super) from: From,
    pub(super) title: &'static str,
    pub(super) width: u32,
    pub(super) mappings: Vec<Mapping>,
    /// Leads somewhere by its value.
    pub(super) leads: Option<Leads>,
    /// The unit of a label that is a number.
    pub(super) unit: Option<Shown>,
}

/// Where a cell leads.
#[derive(Clone, Copy)]
pub(super) enum Leads {
    /// To the dashboard of the box that it names.
    Box,
    /// To the runbook of the alert that it names.
    Runbook,
}

/// Where a column comes from.
pub(super) enum From {
    Label(&'static str),
    /// The values of a target.
    Values(usize),
}

impl Column {
    pub(super) fn label(label: &'static str, title: &'static str) -> Self {
        Self {
            from: From::Label(label),
            title,
            width: 0,
            mappings: Vec::new(),
            leads: None,
            unit: None,
        }
    }

    pub(super) fn values(target: usize, title: &'static str) -> Self {
        Self { from: From::Values(target), ..Self::label("", title) }
    }

    pub(super) fn wide(self, width: u32) -> Self {
        Self { width, ..self }
    }

    pub(super) fn states(self, mappings: Vec<Mapping>) -> Self {
        Self { mappings, ..self }
    }

    pub(super) fn leading_to(self, leads: Leads) -> Self {
        Self { leads: Some(leads), ..self }
    }

    pub(super) fn in_unit(self, unit: Shown) -> Self {
        Self { unit: Some(unit), ..self }
    }
}

/// What one series looks like.
#[derive(Clone, Copy, Default)]
pub(super) struct Look {
    pub(super) colour: Option<Colour>,
    /// A line to compare with: dashed, not filled, not stacked.
    pub(super) dashed: bool,
    /// A bar where something happened.
    pub(super) marked: bool,
}

/// A query of a panel, and what its series are called.
pub(super) struct Target {
    pub(super) query: Query,
    pub(super) legend: String,
    pub(super) look: Look,
}

/// A panel.
pub(super) struct Panel {
    pub(super) number: Number,
    pub(super) title: &'static str,
    pub(super) says: &'static str,
    pub(super) empty: &'static str,
    pub(super) width: u32,
    pub(super) view: View,
    pub(super) targets: Vec<Target>,
    pub(super) mappings: Vec<Mapping>,
    /// From which value on which colour; the first holds for all that is below.
    pub(super) steps: Vec<(Option<f64>, Colour)>,
    /// Series by name: a part of it that matches, and the colour.
    pub(super) named: Vec<(String, Colour)>,
    /// The same of lines of which some are dotted.
    pub(super) numbered: Vec<(String, Colour, bool)>,
    pub(super) decimals: Option<u32>,
}

impl Panel {
    fn new(number: Number, title: &'static str, view: View) -> Self {
        Self {
            number,
            title,
            says: "",
            empty: "",
            width: COLUMNS,
            view,
            targets: Vec::new(),
            mappings: Vec::new(),
            steps: Vec::new(),
            named: Vec::new(),
            numbered: Vec::new(),
            decimals: None,
        }
    }

    /// Six of them fill a shelf.
    pub(super) fn tile(id: u32, title: &'static str, look: Tile) -> Self {
        Self::new(Number::Own(id), title, View::Tile(look)).wide(COLUMNS / 6)
    }

    pub(super) fn lines(number: Number, title: &'static str, lines: Lines) -> Self {
        Self::new(number, title, View::Lines(lines))
    }

    pub(super) fn states(number: Number, title: &'static str) -> Self {
        Self::new(number, title, View::States)
    }

    pub(super) fn table(number: Number, title: &'static str, columns: Vec<Column>) -> Self {
        Self::new(number, title, View::Table(columns))
    }

    /// What it shows, and what is normal on this hardware.
    pub(super) fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    /// What it says when it has nothing to show.
    pub(super) fn when_empty(self, empty: &'static str) -> Self {
        Self { empty, ..self }
    }

    /// How many columns of the grid it takes.
    pub(super) fn wide(self, width: u32) -> Self {
        Self { width, ..self }
    }

    /// Names of numbers.
    pub(super) fn called(mut self, mappings: Vec<Mapping>) -> Self {
        self.mappings.extend(mappings);
        self
    }

    /// Colours of a tile from some values on.
    pub(super) fn stepped(self, steps: &[(Option<f64>, Colour)]) -> Self {
        Self { steps: steps.to_vec(), ..self }
    }

    /// Colours of series by what their names match.
    pub(super) fn coloured(self, named: Vec<(String, Colour)>) -> Self {
        Self { named, ..self }
    }

    /// Colours of series by the number in their names, and whether they are dotted.
    pub(super) fn numbered(self, numbered: Vec<(String, Colour, bool)>) -> Self {
        Self { numbered, ..self }
    }

    /// The same panel on another dashboard, where no alert leads to it.
    pub(super) fn own(self, id: u32) -> Self {
        Self { number: Number::Own(id), ..self }
    }

    /// Digits behind the point.
    pub(super) fn digits(self, decimals: u32) -> Self {
        Self { decimals: Some(decimals), ..self }
    }

    fn target(mut self, query: Query, legend: &str, look: Look) -> Self {
        self.targets.push(Target { query, legend: legend.to_owned(), look });
        self
    }

    /// Shows a query's series in colours of Grafana's choice or of [`coloured`](Self::coloured).
    pub(super) fn shows(self, query: Query, legend: &str) -> Self {
        self.target(query, legend, Look::default())
    }

    /// Shows a query's one series.
    pub(super) fn draws(self, query: Query, legend: &str, colour: Colour) -> Self {
        self.target(query, legend, Look { colour: Some(colour), ..Look::default() })
    }

    /// Shows a figure to compare with.
    pub(super) fn compares(self, query: Query, legend: &str, colour: Colour) -> Self {
        self.target(query, legend, Look { colour: Some(colour), dashed: true, ..Look::default() })
    }

    /// Marks when something happened, and shows nothing while nothing does.
    pub(super) fn marks(self, query: Query, legend: &str, colour: Colour) -> Self {
        let look = Look { colour: Some(colour), marked: true, ..Look::default() };
        self.target(query.only("> 0"), legend, look)
    }

    /// The unit of its values.
    pub(super) fn unit(&self) -> Shown {
        self.targets.first().map_or(AGO, |target| target.query.unit)
    }
}
