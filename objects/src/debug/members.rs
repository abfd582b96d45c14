//! From an address to the variable that holds it, and the member of the variable.

use super::DebugError;
use super::content::Place;
use super::types::{Member, Shape, Source, Type, Types};
use std::fmt::Write as _;
use std::sync::Arc;

/// Types looked at for one address; deeper ones are damage.
const TYPES_MAX: usize = 512;

/// Longest path, in bytes.
const PATH_MAX: usize = 1 << 10;

/// Members looked at that start at or before a place: more at one place are damage.
const MEMBERS_MAX: usize = 256;

/// Members named where several share a place.
const SHARED_NAMED: usize = 4;

/// What of a variable lies at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataMember {
    /// Name of the variable as linked where there is one, else as written; not demangled. `None` if not known.
    pub variable: Option<Arc<str>>,
    /// Its first ELF virtual address; of thread-local ones the offset in the block of a thread.
    pub start: u64,
    /// The way to the innermost member, as it is written behind the variable: `.hits`, `[3].misses`, empty for a variable
    /// without members. Members that share a place, of a union or of bits, are named together: `.{word|half}`. Fields of Rust's
    /// tuples are `.0`, `.1`.
    pub path: Box<str>,
    /// Bytes from where that member starts.
    pub rest: u64,
}

/// Looks into a type, with some effort at most.
struct Walk<'w, 's> {
    types: &'w mut Types,
    source: &'w mut Source<'s>,
    left: usize,
    path: String,
}

/// The way from the start of a type to the byte `at`, and what is left of `at`; `None` if the type is not as long, or nobody
/// knows how long it is.
pub(super) fn path(
    types: &mut Types,
    source: &mut Source<'_>,
    place: Place,
    at: u64,
) -> Result<Option<(Box<str>, u64)>, DebugError> {
    let mut walk = Walk {
        types,
        source,
        left: TYPES_MAX,
        path: String::new(),
    };
    if walk.size(place)?.is_none_or(|size| at >= size) {
        return Ok(None);
    }
    let rest = walk.descend(place, at)?;
    Ok(Some((walk.path.into(), rest)))
}

impl Walk<'_, '_> {
    fn get(&mut self, place: Place) -> Result<Option<Type>, DebugError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        self.types.get(self.source, place).map(Some)
    }

    /// Bytes of a type.
    fn size(&mut self, mut place: Place) -> Result<Option<u64>, DebugError> {
        let mut factor = 1_u64;
        while let Some(found) = self.get(place)? {
            if let Some(size) = found.size {
                return Ok(size.checked_mul(factor));
            }
            match found.shape {
                Shape::Alias(next) => place = next,
                Shape::Array {
                    element,
                    lengths,
                    stride,
                } => {
                    let of_all = |factor: u64, length: &Option<u64>| factor.checked_mul((*length)?);
                    let Some(times) = lengths.iter().try_fold(factor, of_all) else {
                        return Ok(None);
                    };
                    if let Some(stride) = stride {
                        return Ok(stride.checked_mul(times));
                    }
                    (factor, place) = (times, element);
                }
                Shape::Leaf | Shape::Record(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    fn descend(&mut self, mut place: Place, mut at: u64) -> Result<u64, DebugError> {
        while self.path.len() < PATH_MAX {
            let Some(found) = self.get(place)? else {
                return Ok(at);
            };
            match found.shape {
                Shape::Leaf => return Ok(at),
                Shape::Alias(next) => place = next,
                Shape::Array {
                    element,
                    lengths,
                    stride,
                } => {
                    let size = match stride {
                        Some(stride) => Some(stride),
                        None => self.size(element)?,
                    };
                    let Some(size) = size.filter(|size| *size > 0) else {
                        return Ok(at);
                    };
                    if !self.push_index(at / size, &lengths) {
                        return Ok(at);
                    }
                    (at, place) = (at % size, element);
                }
                Shape::Record(members) => {
                    let holding = self.holding(&members, at)?;
                    let Some(start) = holding.iter().map(|member| member.start).min() else {
                        return Ok(at);
                    };
                    self.push_names(&holding);
                    let next = match holding.as_slice() {
                        [one] if one.bits.is_none() => one.kind,
                        _ => None,
                    };
                    let is_together = holding.iter().all(|member| member.start == start);
                    at -= if is_together { start } else { 0 };
                    match next {
                        Some(next) => place = next,
                        None => return Ok(at),
                    }
                }
            }
        }
        Ok(at)
    }

    /// `[a][b]` of the number of an element; false if there is no such element.
    fn push_index(&mut self, mut number: u64, lengths: &[Option<u64>]) -> bool {
        let inner = lengths.get(1..).unwrap_or_default();
        let mut numbers = Vec::with_capacity(inner.len() + 1);
        for length in inner.iter().rev() {
            let Some(length) = length.filter(|length| *length > 0) else {
                return false;
            };
            numbers.push(number % length);
            number /= length;
        }
        let outer = lengths.first().copied().flatten();
        if outer.is_some_and(|length| number >= length) {
            return false;
        }
        numbers.push(number);
        for number in numbers.iter().rev() {
            // Writing to a string cannot fail.
            let _ = write!(self.path, "[{number}]");
        }
        true
    }

    fn push_names(&mut self, holding: &[Member]) {
        let mut names: Vec<&str> = Vec::new();
        for name in holding.iter().filter_map(|member| member.name.as_deref()) {
            let digits = name.strip_prefix("__").unwrap_or_default();
            let is_number =
                !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            names.push(if is_number { digits } else { name });
        }
        let more = names.len() > SHARED_NAMED;
        match names.as_slice() {
            [] => {}
            [one] if holding.len() == 1 => {
                self.path.push('.');
                self.path.push_str(one);
            }
            names => {
                self.path.push_str(".{");
                self.path
                    .push_str(&names.get(..SHARED_NAMED).unwrap_or(names).join("|"));
                self.path.push_str(if more { "|…}" } else { "}" });
            }
        }
    }

    /// The members that hold a byte. Bits are read and written with all others of their storage unit, so all of those hold it.
    fn holding(&mut self, members: &[Member], at: u64) -> Result<Vec<Member>, DebugError> {
        let behind = members.partition_point(|member| member.start <= at);
        let first = behind.saturating_sub(MEMBERS_MAX);
        let mut found = Vec::new();
        for member in members.get(first..behind).unwrap_or_default() {
            if member.bits.is_none() && self.holds(member, at)? {
                found.push(member.clone());
            }
        }
        if found.is_empty() {
            for member in members
                .iter()
                .filter(|member| member.bits.is_some())
                .take(MEMBERS_MAX)
            {
                if self.shares(member, at)? {
                    found.push(member.clone());
                }
            }
        }
        // Members of no name of their own tell nothing beside others if there is nothing to look into.
        if found.len() > 1 {
            let mut told = Vec::with_capacity(found.len());
            for member in found {
                if member.name.is_some() || self.has_members(&member)? {
                    told.push(member);
                }
            }
            found = told;
        }
        Ok(found)
    }

    fn holds(&mut self, member: &Member, at: u64) -> Result<bool, DebugError> {
        let Some(kind) = member.kind else {
            return Ok(member.start == at);
        };
        // Arrays at the end of a record have as many elements as there is room for.
        let size = self.size(kind)?;
        Ok(size.is_none_or(|size| at - member.start < size.max(1)) && size != Some(0))
    }

    /// Whether the storage unit of some bits holds a byte.
    fn shares(&mut self, member: &Member, at: u64) -> Result<bool, DebugError> {
        let (Some(bits), Some(kind)) = (member.bits, member.kind) else {
            return Ok(false);
        };
        let size = self.size(kind)?.filter(|size| *size > 0).unwrap_or(1);
        let start = bits.first / 8 / size * size;
        let end = (bits.first.saturating_add(bits.count).saturating_add(7) / 8)
            .max(start.saturating_add(size));
        Ok(start <= at && at < end)
    }

    fn has_members(&mut self, member: &Member) -> Result<bool, DebugError> {
        let mut place = member.kind;
        while let Some(at) = place {
            let Some(found) = self.get(at)? else {
                return Ok(false);
            };
            place = match found.shape {
                Shape::Alias(next) => Some(next),
                Shape::Record(members) => return Ok(!members.is_empty()),
                Shape::Leaf | Shape::Array { .. } => None,
            };
        }
        Ok(false)
    }
}
