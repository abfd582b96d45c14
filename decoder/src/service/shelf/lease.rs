//! Who ships the table of a mapping: one decoder at a time, until it has done so or was not heard of for a while.
//!
//! A lease saves work and is not what makes tables right: where two decoders believe to hold one (their clocks differ, or the
//! one slept), both ship the same table, and each commits it whole, by its checksum.

use super::blobs::Blobs;
use memwide_model::MappingId;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// The right to ship a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::service) struct Lease {
    mapping: MappingId,
    owner: String,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::service) enum Claim {
    Mine(Lease),
    /// Somebody else ships it.
    Taken,
}

/// As a lease stands in its object: `owner expiry`, the expiry in milliseconds since 1970.
struct Written {
    owner: String,
    until_ms: u64,
}

impl Written {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (owner, until_ms) = text.split_once(' ')?;
        Some(Self {
            owner: owner.to_owned(),
            until_ms: until_ms.parse().ok()?,
        })
    }
}

/// The lease of an owner for `life` from `now_ms` on, as it stands in its object.
fn written(owner: &str, life: Duration, now_ms: u64) -> String {
    let until_ms = now_ms.saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
    format!("{owner} {until_ms}")
}

fn name(mapping: MappingId) -> String {
    format!("{mapping}.lease")
}

/// While an expired lease changes hands.
fn takeover(mapping: MappingId) -> String {
    format!("{mapping}.takeover")
}

/// Claims in the name of `owner` for `life` from `now_ms` on.
pub(super) fn claim(
    blobs: &dyn Blobs,
    mapping: MappingId,
    owner: &str,
    life: Duration,
    now_ms: u64,
) -> io::Result<Claim> {
    let lease = Lease {
        mapping,
        owner: owner.to_owned(),
    };
    let text = written(owner, life, now_ms);
    if blobs.create(&name(mapping), text.as_bytes())? {
        return Ok(Claim::Mine(lease));
    }
    if !is_over(blobs, &name(mapping), now_ms)? {
        return Ok(Claim::Taken);
    }
    // Of those who see that it is over, one takes it.
    if !blobs.create(&takeover(mapping), text.as_bytes())? {
        if is_over(blobs, &takeover(mapping), now_ms)? {
            blobs.remove(&takeover(mapping))?; // whoever took it died in between: the next try gets it
        }
        return Ok(Claim::Taken);
    }
    let still_over = is_over(blobs, &name(mapping), now_ms);
    if matches!(still_over, Ok(true)) {
        blobs.write(&name(mapping), text.as_bytes())?;
    }
    blobs.remove(&takeover(mapping))?;
    Ok(if still_over? {
        Claim::Mine(lease)
    } else {
        Claim::Taken
    })
}

/// Whether a lease has ended. One that cannot be read has.
fn is_over(blobs: &dyn Blobs, name: &str, now_ms: u64) -> io::Result<bool> {
    match blobs.read(name) {
        Ok(bytes) => Ok(Written::parse(&bytes).is_none_or(|lease| lease.until_ms <= now_ms)),
        // Released meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn is_held(blobs: &dyn Blobs, lease: &Lease) -> bool {
    let written = blobs.read(&name(lease.mapping)).ok();
    let written = written.as_deref().and_then(Written::parse);
    written.is_some_and(|written| written.owner == lease.owner)
}

/// Holds on for another `life`; false if somebody else has it.
pub(super) fn renew(
    blobs: &dyn Blobs,
    lease: &Lease,
    life: Duration,
    now_ms: u64,
) -> io::Result<bool> {
    if !is_held(blobs, lease) {
        return Ok(false);
    }
    let text = written(&lease.owner, life, now_ms);
    blobs.write(&name(lease.mapping), text.as_bytes())?;
    Ok(true)
}

/// Lets others have it.
pub(super) fn release(blobs: &dyn Blobs, lease: &Lease) -> io::Result<()> {
    if is_held(blobs, lease) {
        blobs.remove(&name(lease.mapping))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::blobs::Folder;
    use super::*;

    const LIFE: Duration = Duration::from_secs(10);

    fn claims(blobs: &Folder, owner: &str, now_ms: u64) -> Option<Lease> {
        match claim(blobs, MappingId(7), owner, LIFE, now_ms).unwrap() {
            Claim::Mine(lease) => Some(lease),
            Claim::Taken => None,
        }
    }

    #[test]
    fn a_lease_has_one_holder_until_it_is_over_or_let_go() {
        let root = tempfile::tempdir().unwrap();
        let blobs = Folder::open(root.path()).unwrap();
        let first = claims(&blobs, "one", 1_000).unwrap();
        assert!(claims(&blobs, "two", 5_000).is_none());
        assert!(renew(&blobs, &first, LIFE, 9_000).unwrap());
        assert!(claims(&blobs, "two", 18_000).is_none(), "renewed");
        let second = claims(&blobs, "two", 19_000).unwrap();
        assert!(!renew(&blobs, &first, LIFE, 19_001).unwrap(), "it was lost");
        release(&blobs, &first).unwrap();
        assert!(
            claims(&blobs, "three", 20_000).is_none(),
            "not the first's any more"
        );
        release(&blobs, &second).unwrap();
        assert!(claims(&blobs, "three", 20_000).is_some());
    }

    #[test]
    fn of_many_who_find_it_over_one_takes_it() {
        let root = tempfile::tempdir().unwrap();
        let blobs = Folder::open(root.path()).unwrap();
        claims(&blobs, "dead", 0).unwrap();
        let got: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|n| {
                    let blobs = &blobs;
                    scope.spawn(move || {
                        usize::from(claims(blobs, &format!("d{n}"), 20_000).is_some())
                    })
                })
                .collect();
            tries.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(got, 1);
    }

    #[test]
    fn who_died_while_taking_over_and_a_damaged_lease_are_in_nobodys_way() {
        let root = tempfile::tempdir().unwrap();
        let blobs = Folder::open(root.path()).unwrap();
        blobs.write(&name(MappingId(7)), b"no lease").unwrap();
        blobs.write(&takeover(MappingId(7)), b"dead 5000").unwrap();
        assert!(claims(&blobs, "two", 4_000).is_none());
        assert!(claims(&blobs, "two", 6_000).is_none(), "only cleared");
        assert!(claims(&blobs, "two", 6_001).is_some());
    }
}
