//! The shelf in a bucket.

use super::super::blobs::one_of_several_succeeds;
use super::super::tests::{found, place};
use super::super::{Placed, Shelf};
use crate::bucket::tests::bucket;
use memwide_model::MappingId;
use std::time::Duration;

#[test]
fn one_of_those_who_make_an_object_at_once_succeeds() {
    one_of_several_succeeds(&bucket("at-once"));
}

#[test]
fn tables_are_kept_and_found_by_another_decoder() {
    // What lies further below, such as an archive, is none of the shelf's.
    let archived = "2026-11-30/web-1/one.mwa";
    bucket("tables").write(archived, vec![0; 2 << 20]).unwrap();
    let one = Shelf::with(Box::new(bucket("tables")), 1 << 20, Duration::ZERO).unwrap();
    assert_eq!(place(&one, 7, 1, b"dynamic"), Placed::New);
    assert_eq!(place(&one, 7, 1, b"dynamic"), Placed::Known);
    let two = Shelf::with(Box::new(bucket("tables")), 1 << 20, Duration::ZERO).unwrap();
    assert_eq!(two.find(MappingId(7)).unwrap(), Some(found(1, b"dynamic")));
    assert_eq!(place(&two, 7, 3, b"debug"), Placed::New);
    assert!(one.look().unwrap().0);
    assert_eq!(one.find(MappingId(7)).unwrap(), Some(found(3, b"debug")));
    assert_eq!(bucket("tables").read(archived).unwrap().len(), 2 << 20);
}
