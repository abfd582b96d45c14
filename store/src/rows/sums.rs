//! The sums that every rollup of accesses carries.

use memwide_model::Moments;

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
