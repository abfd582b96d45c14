//! Open with everything; where the machine refuses, do without as little as possible, and say without what.

use std::io;

use memwide_perf_abi::{Attr, AttrFlags, read_format, sample};

/// Something an attr asks for that older kernels, other PMUs or missing rights refuse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shed {
    /// What is missing then, for a person.
    pub(crate) what: &'static str,
    /// How it can be had.
    pub(crate) remedy: &'static str,
    asks: fn(&Attr) -> bool,
    drop: fn(&mut Attr),
}

macro_rules! flag {
    ($what:literal, $remedy:literal, $get:ident, $with:ident) => {
        Shed {
            what: $what,
            remedy: $remedy,
            asks: |attr| attr.flags.$get(),
            drop: |attr| attr.flags = AttrFlags::$with(attr.flags, false),
        }
    };
}

macro_rules! field {
    ($what:literal, $remedy:literal, $bit:ident) => {
        Shed {
            what: $what,
            remedy: $remedy,
            asks: |attr| attr.samples(sample::$bit),
            drop: |attr| attr.sample_type &= !sample::$bit,
        }
    };
}

/// In the order in which they are given up.
pub(crate) const SHEDS: &[Shed] = &[
    Shed {
        what: "exact counts of lost samples",
        remedy: "Linux 6.0 or newer",
        asks: |attr| attr.read_format & read_format::LOST != 0,
        drop: |attr| attr.read_format &= !read_format::LOST,
    },
    flag!(
        "build ids in mappings",
        "Linux 5.12 or newer",
        build_id,
        with_build_id
    ),
    flag!("cgroup names", "Linux 5.7 or newer", cgroup, with_cgroup),
    flag!(
        "BPF programs",
        "Linux 5.1 or newer",
        bpf_event,
        with_bpf_event
    ),
    flag!(
        "symbols of generated kernel code",
        "Linux 5.1 or newer",
        ksymbol,
        with_ksymbol
    ),
    Shed {
        what: "instruction and retire latency",
        remedy: "Linux 5.12 or newer",
        asks: |attr| attr.samples(sample::WEIGHT_STRUCT),
        drop: |attr| {
            attr.sample_type = attr.sample_type & !sample::WEIGHT_STRUCT | sample::WEIGHT;
        },
    },
    field!(
        "the cgroups of samples",
        "Linux 5.7 or newer with CONFIG_CGROUP_PERF",
        CGROUP
    ),
    field!("page sizes", "Linux 5.11 or newer", DATA_PAGE_SIZE),
    field!(
        "physical addresses, and with them the pages' nodes",
        "CAP_PERFMON or CAP_SYS_ADMIN",
        PHYS_ADDR
    ),
    Shed {
        what: "the best precision",
        remedy: "",
        asks: |attr| attr.flags.precise_ip() == 3,
        drop: |attr| attr.flags = attr.flags.with_precise_ip(2),
    },
    Shed {
        what: "zero skid",
        remedy: "",
        asks: |attr| attr.flags.precise_ip() >= 2,
        drop: |attr| attr.flags = attr.flags.with_precise_ip(1),
    },
];

/// Calls `open` with `attr`, then with ever less, until it works.
///
/// First each thing alone is left out, so that one refusal costs one thing; then more and more of them together, and what
/// turns out not to have been the reason comes back. Other errors than "I do not take this attr" end it at once.
pub(crate) fn open_with_less<T>(
    attr: &Attr,
    mut open: impl FnMut(&Attr) -> io::Result<T>,
) -> io::Result<(T, Attr, Vec<Shed>)> {
    let refused = match open(attr) {
        Ok(opened) => return Ok((opened, attr.clone(), Vec::new())),
        Err(error) if may_be_the_attr(&error) => error,
        Err(error) => return Err(error),
    };
    let asked: Vec<Shed> = SHEDS
        .iter()
        .copied()
        .filter(|shed| (shed.asks)(attr))
        .collect();
    for shed in &asked {
        let mut less = attr.clone();
        (shed.drop)(&mut less);
        if let Ok(opened) = open(&less) {
            return Ok((opened, less, vec![*shed]));
        }
    }
    let mut dropped = Vec::new();
    let mut less = attr.clone();
    for shed in SHEDS.iter().filter(|shed| (shed.asks)(attr)) {
        (shed.drop)(&mut less);
        dropped.push(*shed);
        if dropped.len() > 1
            && let Ok(opened) = open(&less)
        {
            return Ok(take_back(attr, (opened, less, dropped), open));
        }
    }
    Err(refused)
}

/// What was dropped on the way to what was refused is asked for again, one thing at a time.
fn take_back<T>(
    attr: &Attr,
    mut best: (T, Attr, Vec<Shed>),
    mut open: impl FnMut(&Attr) -> io::Result<T>,
) -> (T, Attr, Vec<Shed>) {
    let mut at = 0;
    while at < best.2.len() && best.2.len() > 1 {
        let mut fewer = best.2.clone();
        fewer.remove(at);
        let mut more = attr.clone();
        for shed in &fewer {
            (shed.drop)(&mut more);
        }
        match open(&more) {
            Ok(opened) => best = (opened, more, fewer),
            Err(_) => at += 1,
        }
    }
    best
}

fn may_be_the_attr(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported // E2BIG, as the wrapper words it
        || matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::E2BIG | libc::EACCES | libc::EPERM | libc::EOPNOTSUPP)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr() -> Attr {
        Attr {
            sample_type: sample::IDENTIFIER | sample::PHYS_ADDR | sample::DATA_PAGE_SIZE,
            read_format: read_format::LOST,
            flags: AttrFlags::default().with_precise_ip(3),
            ..Attr::default()
        }
    }

    #[track_caller]
    fn check(refuses: fn(&Attr) -> bool, expected: &[&str]) {
        let ((), left, sheds) = open_with_less(&attr(), |attr| {
            if refuses(attr) {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            } else {
                Ok(())
            }
        })
        .unwrap();
        assert!(!refuses(&left));
        let whats: Vec<_> = sheds.iter().map(|shed| shed.what).collect();
        assert_eq!(whats, expected);
    }

    #[test]
    fn nothing_is_dropped_without_need() {
        check(|_| false, &[]);
    }

    #[test]
    fn one_refusal_costs_one_thing() {
        check(|attr| attr.samples(sample::DATA_PAGE_SIZE), &["page sizes"]);
        check(|attr| attr.flags.precise_ip() == 3, &["the best precision"]);
        check(
            |attr| attr.samples(sample::PHYS_ADDR),
            &["physical addresses, and with them the pages' nodes"],
        );
    }

    #[test]
    fn several_refusals_are_found_together() {
        check(
            |attr| attr.read_format != 0 || attr.samples(sample::DATA_PAGE_SIZE),
            &["exact counts of lost samples", "page sizes"],
        );
        check(
            |attr| attr.samples(sample::DATA_PAGE_SIZE) || attr.flags.precise_ip() > 1,
            &["page sizes", "zero skid"],
        );
    }

    #[test]
    fn errors_about_the_machine_end_it_at_once() {
        let mut tries = 0;
        let failed = open_with_less(&attr(), |_| {
            tries += 1;
            Err::<(), _>(io::Error::from_raw_os_error(libc::EMFILE))
        });
        assert_eq!(
            (failed.unwrap_err().raw_os_error(), tries),
            (Some(libc::EMFILE), 1)
        );
    }
}
