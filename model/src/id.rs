//! Typed ids.

use crate::ContentHash;
use std::fmt;

/// A host, 16 bytes: the machine id, or a hash of an import's file and host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub [u8; 16]);

/// One boot of a host, 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub [u8; 16]);

/// Where batches come from: one run of a collector on one boot of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The host.
    pub host: HostId,
    /// Its boot.
    pub boot: BootId,
    /// The collector's run: random, never a counter.
    pub epoch: u64,
}

impl Source {
    /// Hash that stands for the source in the store and chooses its partition.
    pub fn id(&self) -> SourceId {
        SourceId(
            ContentHash::of("source")
                .bytes(&self.host.0)
                .bytes(&self.boot.0)
                .number(self.epoch)
                .finish(),
        )
    }

    /// The partition that owns this source, of `count` (fixed when the stream was made).
    pub fn partition(&self, count: u16) -> PartitionId {
        let share = u128::from(self.id().0) * u128::from(count);
        PartitionId(u16::try_from(share >> 64).unwrap_or(0))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.host.0[..4] {
            write!(out, "{byte:02x}")?;
        }
        write!(out, "-{:016x}", self.epoch)
    }
}

/// One share of the sources, owned by one aggregator and one sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

macro_rules! hash_ids {
    ($($(#[$meta:meta])* $id:ident)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $id(pub u64);

        impl fmt::Display for $id {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:016x}", self.0)
            }
        }
    )+};
}

hash_ids! {
    /// Hash of a [`Source`].
    SourceId
    /// An event as configured: name, PMU, attribute without ids, CPU model.
    EventId
    /// What a mapping is made of: kind, build id or content hash, path where nothing better is known.
    MappingId
    /// A function: mapping identity and start.
    FunctionId
    /// A place in code: mapping identity and address.
    LocationId
    /// A callchain: its locations, leaf first. 0: none.
    StackId
    /// A data symbol or mapping. 0: none.
    DataId
    /// What runs in a cgroup. 0: not known.
    WorkloadId
}

impl WorkloadId {
    /// Of namespace, pod, container, service and path.
    pub fn new(texts: [&str; 5]) -> Self {
        let hash = ContentHash::of("workload");
        let all = texts.iter();
        Self(
            all.fold(hash, |hash, text| hash.bytes(text.as_bytes()))
                .finish(),
        )
    }
}

impl MappingId {
    /// `kind` is the number of `v1::mapping_identity::Kind`; `path` only counts where `id` is empty or names a module.
    pub fn new(kind: u8, id: &[u8], path: &str) -> Self {
        Self(
            ContentHash::of("mapping")
                .number(u64::from(kind))
                .bytes(id)
                .bytes(path.as_bytes())
                .finish(),
        )
    }
}

impl FunctionId {
    /// The function that starts at ELF virtual address `start`.
    pub fn new(mapping: MappingId, start: u64) -> Self {
        Self(
            ContentHash::of("function")
                .number(mapping.0)
                .number(start)
                .finish(),
        )
    }

    /// A function of generated code: at its address there may be another one later, which is not it.
    pub fn generated(mapping: MappingId, start: u64, name: &str) -> Self {
        Self(
            ContentHash::of("generated")
                .number(mapping.0)
                .number(start)
                .bytes(name.as_bytes())
                .finish(),
        )
    }

    /// Stands for every function of a mapping whose starts are not known.
    pub fn unresolved(mapping: MappingId) -> Self {
        Self(ContentHash::of("unresolved").number(mapping.0).finish())
    }
}

impl LocationId {
    /// ELF virtual `address` in a mapping.
    pub fn new(mapping: MappingId, address: u64) -> Self {
        Self(
            ContentHash::of("location")
                .number(mapping.0)
                .number(address)
                .finish(),
        )
    }
}

impl LocationId {
    /// A byte at `offset` of the file of a mapping whose segments are not known.
    pub fn of_offset(mapping: MappingId, offset: u64) -> Self {
        Self(
            ContentHash::of("offset")
                .number(mapping.0)
                .number(offset)
                .finish(),
        )
    }
}

impl StackId {
    /// Leaf first; an empty chain is 0.
    pub fn new(locations: &[LocationId]) -> Self {
        if locations.is_empty() {
            return Self(0);
        }
        let hash = locations
            .iter()
            .fold(ContentHash::of("stack"), |hash, location| {
                hash.number(location.0)
            });
        Self(hash.finish())
    }
}

impl DataId {
    /// A variable, or a region named by its mapping.
    pub fn new(region: crate::Region, mapping: MappingId, name: &str) -> Self {
        Self(
            ContentHash::of("data")
                .number(u64::from(region.code()))
                .number(mapping.0)
                .bytes(name.as_bytes())
                .finish(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_all_used_and_in_range() {
        let mut seen = [0u32; 4];
        for epoch in 0..1_000 {
            let source = Source {
                host: HostId([7; 16]),
                boot: BootId([8; 16]),
                epoch,
            };
            seen[usize::from(source.partition(4).0)] += 1;
        }
        assert!(seen.iter().all(|n| *n > 150), "{seen:?}");
    }

    #[test]
    fn an_empty_chain_has_no_stack() {
        assert_eq!(StackId::new(&[]), StackId(0));
    }
}
