//! The short cuts by which a pipeline over a collection runs, each of which can be turned off.
//!
//! None of them may change an answer: a pipeline gives the documents that its stages give one after the other. What
//! compares the two turns the short cuts off one by one.

/// A short cut of a pipeline over a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// A query does the filters, the sort, the cuts and the projection at the front, by an index where there is one.
    Head,
    /// Filters move before stages that leave their fields as they are.
    EarlyFilters,
    /// A sort before a limit keeps the first documents alone.
    LimitedSorts,
    /// Fields that no stage reads are not read.
    NeededFields,
    /// A stage that only looks at documents borrows them from the query.
    Lending,
    /// Such a stage takes the keys of an index in the place of documents.
    LentKeys,
    /// A `$sample` of few documents draws them.
    Draws,
    /// Documents are made of the keys of an index that has all fields which are asked for.
    CoveredReads,
}

impl Rewrite {
    /// All short cuts.
    pub const ALL: [Self; 8] = [
        Self::Head,
        Self::EarlyFilters,
        Self::LimitedSorts,
        Self::NeededFields,
        Self::Lending,
        Self::LentKeys,
        Self::Draws,
        Self::CoveredReads,
    ];
}

/// The short cuts that a pipeline takes. Default: all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    /// A bit for each that is off.
    off: u8,
}

impl Rewrites {
    /// No short cuts.
    #[must_use]
    pub fn none() -> Self {
        Rewrite::ALL.into_iter().fold(Self::default(), Self::without)
    }

    /// The same without one of them.
    #[must_use]
    pub const fn without(self, rewrite: Rewrite) -> Self {
        Self { off: self.off | (1 << rewrite as u8) }
    }

    /// Whether a short cut is taken.
    #[must_use]
    pub const fn has(self, rewrite: Rewrite) -> bool {
        self.off & (1 << rewrite as u8) == 0
    }
}
