//! How a part of the pool looks to a person: one letter, one colour, one name everywhere.

use crate::model::pool::Segment;

/// How a segment is drawn.
pub(super) struct Look {
    /// In the terminal's bar and before its name.
    pub letter: char,
    /// Colour of a 256-colour terminal.
    pub terminal: u8,
    /// The same colour for a page.
    pub page: &'static str,
    /// Name.
    pub name: &'static str,
    /// What a person should know about it.
    pub remark: &'static str,
}

/// The look of a segment. Unaccounted is not red: on a box that serves a model it is most of the
/// pool, and nothing is wrong.
///
/// `shared`: whether a GPU shares the pool; `cuda`: whether CUDA's free memory is the pool's.
pub(super) const fn look(segment: Segment, shared: bool, cuda: bool) -> Look {
    let (letter, terminal, page, name, remark) = match segment {
        Segment::Free => ('.', 240, "#8886", "free", ""),
        Segment::PageCache => (
            'c',
            68,
            "#5f87d7",
            "page cache",
            if cuda {
                "the kernel can take it back, CUDA's query does not count it as free"
            } else {
                "the kernel can take it back"
            },
        ),
        Segment::Shared => {
            ('s', 139, "#af87af", "shared", "tmpfs, /dev/shm; not given back by a flush")
        }
        Segment::Anonymous => ('a', 107, "#87af5f", "anonymous", "programs' own pages"),
        Segment::SlabReclaimable => ('r', 74, "#5fafd7", "slab, reclaimable", ""),
        Segment::SlabUnreclaimable => ('b', 137, "#af875f", "slab, unreclaimable", ""),
        Segment::Kernel => ('k', 173, "#d7875f", "kernel", ""),
        Segment::HugePages => ('h', 179, "#d7af5f", "huge pages", "set aside, used or not"),
        Segment::Compressed => ('z', 103, "#8787af", "compressed swap", ""),
        Segment::Unaccounted => (
            '#',
            97,
            "#875faf",
            "unaccounted",
            if shared {
                "no counter of the kernel has it; GPU and driver memory show here"
            } else {
                "no counter of the kernel has it"
            },
        ),
    };
    Look { letter, terminal, page, name, remark }
}

/// The order of a bar: what is used from the left, what is free at its end.
pub(super) fn in_bar() -> impl Iterator<Item = Segment> {
    let used = Segment::ALL.iter().copied().filter(|segment| *segment != Segment::Free);
    used.chain([Segment::Free])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_has_a_letter_and_a_colour_of_its_own() {
        let mut letters: Vec<char> =
            Segment::ALL.iter().map(|s| look(*s, true, true).letter).collect();
        let mut colours: Vec<&str> =
            Segment::ALL.iter().map(|s| look(*s, true, true).page).collect();
        letters.sort_unstable();
        letters.dedup();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!((letters.len(), colours.len()), (Segment::ALL.len(), Segment::ALL.len()));
        assert_eq!(in_bar().count(), Segment::ALL.len());
    }
}
