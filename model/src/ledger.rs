//! Why samples are missing, and what is there.

use crate::code::coded;

coded! {
    /// One line of the ledger. Units: records unless the name says otherwise.
    Reason {
        /// Samples the collector took from rings.
        Produced = 1, "produced";
        /// Samples that became rows; those among them that the store refused later are counted as `refused` besides.
        Stored = 2, "stored";
        /// Batches seen: a sign of life of idle hosts.
        Batches = 3, "batches";
        /// The kernel had no room in the ring, by the event's own LOST count.
        Lost = 4, "lost";
        /// Counted by the event, neither in the ring nor reported lost.
        Residue = 5, "residue";
        /// Seconds the event was throttled.
        ThrottledSeconds = 6, "throttled_s";
        /// Seconds in which nothing could be seen.
        BlindSeconds = 7, "blind_s";
        /// Share of SPE samples lost by collision (sum over batches; divide by `batches`).
        CollisionShare = 8, "collision_share";
        /// Given up by the spool's bound.
        Gap = 9, "gap";
        /// The decoder could not place them.
        Undecodable = 10, "undecodable";
        /// The store refused them for good, after they had been counted as stored: what is there is stored − refused.
        Refused = 11, "refused";
        /// Sent after the source had left the cursor.
        Expired = 12, "expired";
        /// Rows without a function's name because the symbol table had not come in time (they are stored).
        Unresolved = 13, "unresolved";
        /// Rows of batches whose side-band was lost or damaged in part: their process, mapping or function may be wrong or
        /// missing (they are stored).
        Partial = 14, "partial";
        /// Rows without a function's name because there is none: no mapping at the address, no symbol table to be had, or
        /// no symbol there (they are stored).
        Nameless = 15, "nameless";
    }
}

impl Reason {
    /// True for reasons that say a produced sample did not become a row.
    pub const fn is_loss_of_produced(self) -> bool {
        matches!(
            self,
            Self::Gap | Self::Undecodable | Self::Refused | Self::Expired
        )
    }
}
