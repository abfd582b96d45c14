//! Objects in a bucket. None is ever changed, so an empty one beside it says when it was used last.

use super::blobs::{Blobs, Entry};
use crate::bucket::Bucket;
use std::collections::HashMap;
use std::io;

/// End of the names of empty objects that say when another was used last.
const USED: &str = ".used";

impl Blobs for Bucket {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let (mut all, mut used) = (Vec::new(), HashMap::new());
        // What lies further below belongs to others.
        let own = Self::list(self, "")?.into_iter();
        for object in own.filter(|object| !object.name.contains('/')) {
            match object.name.strip_suffix(USED) {
                Some(of) => drop(used.insert(of.to_owned(), object.written)),
                None => all.push(Entry {
                    name: object.name,
                    bytes: object.bytes,
                    used: object.written,
                }),
            }
        }
        for entry in &mut all {
            if let Some(at) = used.get(&entry.name) {
                entry.used = entry.used.max(*at);
            }
        }
        Ok(all)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        Self::read(self, name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        Self::write(self, name, bytes.to_vec())
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        Self::create(self, name, bytes.to_vec())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Self::remove(self, &[name.to_owned(), format!("{name}{USED}")])
    }

    fn touch(&self, name: &str) -> io::Result<()> {
        Self::write(self, &format!("{name}{USED}"), Vec::new())
    }
}

#[cfg(test)]
#[path = "in_bucket_tests.rs"]
mod tests;
