//! What a caller asks of samples.

use std::ops::BitOr;

/// What is to be found out of samples beyond the fields they have; what is not wanted costs nothing and reads as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted(u16);

impl Wanted {
    /// Nothing but the fields.
    pub const NOTHING: Self = Self(0);
    /// The task's name.
    pub const COMM: Self = Self(1);
    /// What lies at the code address.
    pub const CODE: Self = Self(1 << 1);
    /// What lies at the callchain's addresses.
    pub const FRAMES: Self = Self(1 << 2);
    /// What lies at the data address; for its region also [`Wanted::DERIVED`].
    pub const DATA: Self = Self(1 << 3);
    /// Classes, localities, region, context; the last needs [`Wanted::CODE`] and [`Wanted::FRAMES`] too.
    pub const DERIVED: Self = Self(1 << 4);
    /// The line of the source that the code address comes from; needs [`Wanted::CODE`].
    pub const LINES: Self = Self(1 << 5);
    /// The same for the callchain's addresses, with the functions inlined there; needs [`Wanted::FRAMES`].
    pub const INLINES: Self = Self(1 << 6);
    /// With [`Wanted::FRAMES`]: numbers of callchains. Without [`Wanted::DERIVED`] frames are sure to come only with the first
    /// sample of each.
    pub const CHAINS: Self = Self(1 << 7);
    /// Which member of a variable lies at the data address; needs [`Wanted::DATA`] and [`Wanted::DERIVED`].
    pub const MEMBERS: Self = Self(1 << 8);
    /// Everything but what only debug information says.
    pub const ALL: Self = Self((1 << 5) - 1);

    /// Whether nothing is wanted beyond `other`.
    #[must_use]
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether all of `other` is wanted.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Wanted {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
