//! JetStream names. Outside names: changing one is a migration.

/// The stream that holds every partition.
pub const STREAM: &str = "MEMWIDE";

/// Subjects the stream takes.
pub const SUBJECTS: [&str; 2] = ["mw.d.*", "mw.c.*"];

/// Stream of blocks the store refused for good.
pub const DEAD_LETTER_STREAM: &str = "MEMWIDE_DEAD";

/// Key-value bucket of block records, one key a partition.
pub const BLOCK_BUCKET: &str = "mw_blocks";

/// Key in [`BLOCK_BUCKET`] that says who decodes days of the store again.
pub const REDECODE_KEY: &str = "redecode";

/// Subject of a partition's row blocks.
pub fn data(partition: u16) -> String {
    format!("mw.d.{partition}")
}

/// Subject of a partition's cursor.
pub fn cursor(partition: u16) -> String {
    format!("mw.c.{partition}")
}

/// Subject of a partition's dead letters.
pub fn dead_letter(partition: u16) -> String {
    format!("mw.x.{partition}")
}

/// Key of a partition's block record in [`BLOCK_BUCKET`].
pub fn block_key(partition: u16) -> String {
    format!("p.{partition}")
}

/// Token of one insert: the same block always gets the same one.
pub fn insert_token(partition: u16, first: u64, last: u64, table: &str, day: u32) -> String {
    format!("{STREAM}/{partition}/{first}-{last}/{table}/{day}")
}
