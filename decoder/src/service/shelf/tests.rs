use super::*;

fn shelf(root: &Path, bytes_max: u64) -> Shelf {
    let folder = Folder::open(root).unwrap();
    Shelf::with(Box::new(folder), bytes_max, Duration::ZERO).unwrap()
}

pub(super) fn found(rank: u8, table: &[u8]) -> Found {
    Found {
        rank,
        identity: v1::MappingIdentity {
            kind: 1,
            id: vec![5; 20],
            path: "/bin/prog".to_owned(),
        },
        table: table.to_vec(),
    }
}

pub(super) fn place(shelf: &Shelf, mapping: u64, rank: u8, table: &[u8]) -> Placed {
    let nothing = HashSet::new();
    shelf
        .place(MappingId(mapping), &found(rank, table), &nothing)
        .unwrap()
}

#[test]
fn a_table_outlives_the_process_and_a_better_one_replaces_it() {
    let root = tempfile::tempdir().unwrap();
    let one = shelf(root.path(), 1 << 20);
    assert_eq!(place(&one, 7, 1, b"dynamic"), Placed::New);
    assert_eq!(place(&one, 7, 1, b"dynamic"), Placed::Known);
    let two = shelf(root.path(), 1 << 20);
    assert_eq!(two.find(MappingId(7)).unwrap(), Some(found(1, b"dynamic")));
    assert_eq!(place(&two, 7, 3, b"debug"), Placed::New);
    assert_eq!(place(&two, 7, 2, b"worse"), Placed::NotBetter);
    assert_eq!(one.rank(MappingId(7)), Some(1), "until it looks");
    assert!(one.look().unwrap().0);
    assert!(!one.look().unwrap().0);
    assert_eq!(one.find(MappingId(7)).unwrap(), Some(found(3, b"debug")));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn damage_anywhere_is_noticed_and_the_table_is_as_if_it_had_never_been_there() {
    let root = tempfile::tempdir().unwrap();
    let whole = seal(&found(2, b"").identity, b"table");
    for at in 0..whole.len() {
        let shelf = shelf(root.path(), 1 << 20);
        assert_eq!(place(&shelf, 7, 2, b"table"), Placed::New);
        let path = root.path().join(name_of(MappingId(7), 2, &whole));
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(shelf.find(MappingId(7)).unwrap(), None, "byte {at}");
        assert!(!path.exists());
        // Cut instead.
        assert_eq!(place(&shelf, 7, 2, b"table"), Placed::New);
        std::fs::write(&path, &whole[..at]).unwrap();
        assert_eq!(shelf.find(MappingId(7)).unwrap(), None, "cut at {at}");
    }
}

#[test]
fn room_is_made_by_what_was_not_used_for_longest_and_never_by_what_is_in_use() {
    let root = tempfile::tempdir().unwrap();
    let one = seal(&found(2, b"").identity, &[0; 1_000]).len() as u64;
    let shelf = shelf(root.path(), 2 * one + one / 2);
    for mapping in 0..2 {
        assert_eq!(place(&shelf, mapping, 2, &[0; 1_000]), Placed::New);
        std::thread::sleep(Duration::from_millis(20));
    }
    shelf.find(MappingId(0)).unwrap(); // used now: the other one is older
    let in_use = HashSet::from([MappingId(0)]);
    let third = found(2, &[1; 1_000]);
    assert_eq!(
        shelf.place(MappingId(2), &third, &in_use).unwrap(),
        Placed::New
    );
    assert!(shelf.find(MappingId(1)).unwrap().is_none());
    assert!(shelf.find(MappingId(0)).unwrap().is_some());
    let all = HashSet::from([MappingId(0), MappingId(2)]);
    assert_eq!(
        shelf.place(MappingId(3), &third, &all).unwrap(),
        Placed::NoRoom
    );
    assert!(shelf.look().unwrap().1 <= 2 * one + one / 2);
}

#[test]
fn what_another_decoder_used_a_moment_ago_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let other = shelf(root.path(), 1 << 20);
    place(&other, 1, 2, &[0; 1_000]);
    let small = Shelf::open(root.path(), 1_500).unwrap();
    let placed = small.place(MappingId(2), &found(2, &[0; 1_000]), &HashSet::new());
    assert_eq!(placed.unwrap(), Placed::NoRoom);
    assert!(other.find(MappingId(1)).unwrap().is_some());
}

#[test]
fn an_upload_that_broke_off_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let one = shelf(root.path(), 1 << 20);
    let whole: Vec<u8> = (0..=255).collect();
    let of = (0xabc, 256);
    one.put_piece(MappingId(7), of, 0, &whole[..100]).unwrap();
    one.put_piece(MappingId(7), of, 100, &whole[100..150])
        .unwrap();
    one.put_piece(MappingId(7), of, 200, &whole[200..256])
        .unwrap();
    one.put_piece(MappingId(8), of, 0, b"of another").unwrap();
    let half = shelf(root.path(), 1 << 20)
        .half(MappingId(7))
        .unwrap()
        .unwrap();
    assert_eq!((half.checksum, half.total), of);
    assert_eq!(half.bytes, whole[..150], "up to the hole");
    assert_eq!(place(&one, 7, 2, &whole), Placed::New);
    assert!(one.half(MappingId(7)).unwrap().is_none(), "done with");
    assert!(one.half(MappingId(8)).unwrap().is_some());
}

#[test]
fn what_names_were_told_of_is_remembered_by_table() {
    let root = tempfile::tempdir().unwrap();
    let shelf = shelf(root.path(), 1 << 20);
    assert!(!shelf.told(MappingId(7), false).unwrap());
    place(&shelf, 7, 1, b"dynamic");
    assert!(!shelf.told(MappingId(7), false).unwrap());
    assert!(shelf.told(MappingId(7), true).unwrap());
    assert!(shelf.told(MappingId(7), false).unwrap());
    place(&shelf, 7, 2, b"better");
    assert!(!shelf.told(MappingId(7), false).unwrap());
}
