//! The sums that every rollup of accesses carries.

use memwide_model::{Blocked, Locality, Moments, Snoop, Tlb};

use super::SampleRow;
use crate::native::Column;

/// Sums of the samples behind one rollup row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    /// Samples and the sums over their periods and weights.
    pub moments: Moments,
    /// Samples whose address was found by a page walk.
    pub n_stlb_walk: u64,
    /// Samples of locked instructions.
    pub n_locked: u64,
    /// Samples of blocked loads.
    pub n_blocked: u64,
    /// Samples that found the line modified in another cache.
    pub n_hitm: u64,
    /// Of these, on another node.
    pub n_hitm_rmt: u64,
    /// Samples forwarded from another cache.
    pub n_fwd: u64,
    /// Samples served by a peer cache.
    pub n_peer: u64,
    /// Samples whose page lies on another node than the CPU.
    pub n_page_remote: u64,
    /// Samples whose page's node is known.
    pub n_page_known: u64,
}

impl Sums {
    /// Adds one sample; the same rules stand in the view `samples_as_functions`.
    pub fn add(&mut self, row: &SampleRow<'_>) {
        self.moments.add(row.period, row.weight.into());
        let count = |sum: &mut u64, holds: bool| *sum += u64::from(holds);
        let hitm = row.snoop == Snoop::HitM;
        count(&mut self.n_stlb_walk, row.tlb == Tlb::Walk);
        count(&mut self.n_locked, row.locked != 0);
        count(
            &mut self.n_blocked,
            !matches!(row.blocked, Blocked::Unknown | Blocked::No),
        );
        count(&mut self.n_hitm, hitm);
        count(
            &mut self.n_hitm_rmt,
            hitm && row.hw_locality == Locality::Remote,
        );
        count(&mut self.n_fwd, row.snoop == Snoop::Fwd);
        count(&mut self.n_peer, row.snoop == Snoop::Peer);
        count(
            &mut self.n_page_remote,
            row.page_locality == Locality::Remote,
        );
        count(
            &mut self.n_page_known,
            row.page_locality != Locality::Unknown,
        );
    }

    /// Adds another row of the same key.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.n_stlb_walk += other.n_stlb_walk;
        self.n_locked += other.n_locked;
        self.n_blocked += other.n_blocked;
        self.n_hitm += other.n_hitm;
        self.n_hitm_rmt += other.n_hitm_rmt;
        self.n_fwd += other.n_fwd;
        self.n_peer += other.n_peer;
        self.n_page_remote += other.n_page_remote;
        self.n_page_known += other.n_page_known;
    }
}

macro_rules! sums_columns {
    (floats: $($float:ident = $moment:ident,)+; counts: $($count:ident,)+) => {
        /// The columns of [`Sums`].
        #[derive(Debug, Default)]
        pub struct SumsColumns {
            n: Vec<u64>,
            $($float: Vec<f64>,)+
            $($count: Vec<u64>,)+
        }

        impl Column for SumsColumns {
            type Value<'a> = Sums;

            const COLUMNS: usize = 1 $(+ { stringify!($float); 1 })+ $(+ { stringify!($count); 1 })+;

            fn push(&mut self, value: Sums) {
                self.n.push(value.moments.n);
                $(self.$float.push(value.moments.$moment);)+
                $(self.$count.push(value.$count);)+
            }

            fn names(_: &'static str, names: &mut Vec<&'static str>) {
                names.push("n");
                $(names.push(stringify!($float));)+
                $(names.push(stringify!($count));)+
            }

            fn write(&self, _: &'static str, out: &mut Vec<u8>) {
                Column::write(&self.n, "n", out);
                $(Column::write(&self.$float, stringify!($float), out);)+
                $(Column::write(&self.$count, stringify!($count), out);)+
            }

            fn bytes(&self) -> usize {
                Self::COLUMNS * size_of::<u64>() * self.n.len()
            }
        }
    };
}

sums_columns! {
    floats: sum_p = p, sum_pp = pp, sum_w = w, sum_wp = wp, sum_wpwp = wpwp,;
    counts: n_stlb_walk, n_locked, n_blocked, n_hitm, n_hitm_rmt, n_fwd, n_peer, n_page_remote, n_page_known,
}
