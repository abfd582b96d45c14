//! The schema: numbered migrations, applied once, in order, and remembered with a checksum.

/// Why the schema of a store cannot be brought up to date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Database and cluster names go into statements as they are.
    #[error("`{0}` cannot be a name here: use letters, digits and `_`, at most 64, not a digit first")]
    Name(String),
}

/// Checks that `name` can stand in a statement without quotes.
pub fn check_name(name: &str) -> Result<(), SchemaError> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let reserved = ["default", "system", "information_schema"].iter().any(|r| name.eq_ignore_ascii_case(r));
    if !plain || reserved || name.is_empty() || name.len() > 64 || name.as_bytes()[0].is_ascii_digit() {
        return Err(SchemaError::Name(name.to_owned()));
    }
    Ok(())
}
