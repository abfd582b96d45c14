//! The vocabulary's enums as `Enum8` columns.

use memwide_model::{
    Blocked, Context, LatencyKind, Level, Locality, LocalityBasis, MemRegion, Op, Outcome, Reason,
    Region, Snoop, Suspect, Tier, Tlb,
};

use crate::native::NamedCodes;

macro_rules! stored {
    ($($kind:ident)+) => {$(
        impl NamedCodes for $kind {
            fn stored_code(self) -> u8 {
                self.code()
            }

            fn stored_codes() -> Vec<(u8, &'static str)> {
                Self::ALL.iter().map(|variant| (variant.code(), variant.name())).collect()
            }
        }
    )+};
}

stored! { Blocked Context LatencyKind Level Locality LocalityBasis MemRegion Op Outcome Reason Region Snoop Suspect Tier Tlb }

/// The tier of a ledger line; lines about no event have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierOrNone(pub Option<Tier>);

impl NamedCodes for TierOrNone {
    fn stored_code(self) -> u8 {
        self.0.map_or(0, Tier::code)
    }

    fn stored_codes() -> Vec<(u8, &'static str)> {
        [(0, "none")]
            .into_iter()
            .chain(Tier::stored_codes())
            .collect()
    }
}
