//! From the name of an event to what counts it: perf's generic names, raw events, and whatever can be recorded.

use memwide_model::Tier;
use memwide_perf_abi::Attr;

use crate::config::EventConfig;
use crate::events::machine::Machine;
use crate::events::{Absent, exclude, resolve};

/// What counts an event.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) attr: Attr,
    pub(super) tier: Tier,
}

/// The names of a list: commas between slashes belong to a name, those between braces to a group.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let (mut slashes, mut braces) = (0, 0_i32);
    let parts = list.split(|letter| {
        slashes += usize::from(letter == '/');
        braces += i32::from(letter == '{') - i32::from(letter == '}');
        // A breakpoint has one slash only.
        let is_between = slashes % 2 == 0 || list.starts_with("mem:");
        letter == ',' && is_between && braces <= 0
    });
    parts.filter(|name| !name.is_empty()).collect()
}

/// What is counted together: `{a,b}:u` are two names, any other is one. Modifiers behind the braces are those of each; what
/// perf says there of sampling (`S`) or of groups that do not fit (`W`) means nothing here.
pub(super) fn members(name: &str) -> Vec<String> {
    let group = name
        .strip_prefix('{')
        .and_then(|rest| rest.rsplit_once('}'));
    let Some((inner, modifiers)) = group else {
        return vec![name.to_owned()];
    };
    let modifiers = modifiers.strip_prefix(':').unwrap_or(modifiers);
    let modifiers: String = modifiers
        .chars()
        .filter(|one| !"SWD".contains(*one))
        .collect();
    let each = split(inner).into_iter();
    each.map(|name| match (modifiers.as_str(), name.contains('/')) {
        ("", _) => name.to_owned(),
        (modifiers, true) => format!("{name}{modifiers}"),
        (modifiers, false) if name.contains(':') => format!("{name}{modifiers}"),
        (modifiers, false) => format!("{name}:{modifiers}"),
    })
    .collect()
}

/// Finds the event on this machine.
pub(super) fn find(name: &str, machine: &Machine) -> Result<Named, Absent> {
    let mut spec = resolve(&EventConfig::named(name), 0, machine)?;
    // Events of a PMU may have modifiers behind their second slash.
    if let Some((_, modifiers)) = name.rsplit_once('/')
        && !name.starts_with("mem:")
    {
        exclude(&mut spec.attr, modifiers);
    }
    Ok(Named {
        attr: spec.attr,
        tier: if spec.tier == Tier::Precise {
            Tier::Event
        } else {
            spec.tier
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_perfs() {
        let rows = [
            ("page-faults", 1, 2),
            ("faults", 1, 2),
            ("major-faults", 1, 6),
            ("cycles", 0, 0),
            ("cache-misses", 0, 3),
            ("L1-dcache-loads", 3, 0),
            ("L1-dcache-load-misses", 3, 0x1_0000),
            ("LLC-load-misses", 3, 0x1_0002),
            ("dTLB-store-misses", 3, 0x1_0103),
            ("node-loads", 3, 6),
            ("node-prefetch-misses", 3, 0x1_0206),
            ("r1cd", 4, 0x1cd),
        ];
        for (name, kind, config) in rows {
            let attr = find(name, &Machine::default()).unwrap().attr;
            assert_eq!((attr.kind, attr.config), (kind, config), "{name}");
        }
    }

    #[test]
    fn modifiers_say_which_modes_count() {
        let flags = |name: &str| find(name, &Machine::default()).unwrap().attr.flags;
        let user = flags("minor-faults:u");
        assert!(user.exclude_kernel() && user.exclude_hv() && !user.exclude_user());
        let kernel = flags("L1-dcache-loads:k");
        assert!(kernel.exclude_user() && !kernel.exclude_kernel());
        assert!(!flags("cycles").exclude_kernel());
        let wrong = find("cycles:x", &Machine::default()).unwrap_err();
        assert!(wrong.reason.contains("`x`"), "{}", wrong.reason);
    }

    #[test]
    fn lists_are_split_at_commas_between_names() {
        let rows: [(&str, &[&str]); 5] = [
            ("a,{b,c}:u,d", &["a", "{b,c}:u", "d"]),
            ("a,b", &["a", "b"]),
            (
                "cpu/mem-loads,ldlat=30/P,a",
                &["cpu/mem-loads,ldlat=30/P", "a"],
            ),
            ("mem:0x10/4:w,a", &["mem:0x10/4:w", "a"]),
            ("", &[]),
        ];
        for (list, names) in rows {
            assert_eq!(split(list), names, "{list}");
        }
    }

    #[test]
    fn groups_have_members_with_the_modifiers_of_all() {
        let rows: [(&str, &[&str]); 4] = [
            ("faults", &["faults"]),
            ("{a,b}", &["a", "b"]),
            ("{a,cpu/x,y=1/,b:k}:uS", &["a:u", "cpu/x,y=1/u", "b:ku"]),
            ("{}", &[]),
        ];
        for (name, expected) in rows {
            assert_eq!(members(name), expected, "{name}");
        }
    }
}
