//! Codes the store's tables have names for.
//!
//! The engine takes an `Enum8` column of a block whatever names it declares, and stores codes that the table has no name
//! for; every query of the column fails from then on. So blocks are compared with the tables before they go in.

use std::collections::{BTreeMap, BTreeSet};

use memwide_store::native::BlockView;
use memwide_store::{Request, Store, StoreError};
use serde::Deserialize;

/// Names and codes of each enum column of each table.
#[derive(Debug, Clone, Default)]
pub(super) struct Vocabulary(BTreeMap<(String, String), BTreeSet<String>>);

#[derive(Deserialize)]
struct Column {
    table: String,
    name: String,
    r#type: String,
}

/// `Enum8('a' = 1, 'b' = 2)` → `'a' = 1`, `'b' = 2`.
fn codes(kind: &str) -> Option<impl Iterator<Item = &str>> {
    Some(kind.strip_prefix("Enum8(")?.strip_suffix(')')?.split(", "))
}

impl Vocabulary {
    /// Asks the store.
    pub(super) async fn load(store: &Store) -> Result<Self, StoreError> {
        let sql = "SELECT table, name, type FROM system.columns \
                   WHERE database = {database:String} AND type LIKE 'Enum8(%'";
        let request = Request::new(sql, "JSONEachRow").param("database", store.database());
        let columns: Vec<Column> = store.rows(request).await?;
        Ok(Self::of(columns.iter().map(|column| {
            (&*column.table, &*column.name, &*column.r#type)
        })))
    }

    fn of<'a>(columns: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        let known = columns.filter_map(|(table, name, kind)| {
            Some((
                (table.to_owned(), name.to_owned()),
                codes(kind)?.map(str::to_owned).collect(),
            ))
        });
        Self(known.collect())
    }

    /// What a block declares or holds and the table does not know.
    pub(super) fn unknown(&self, table: &str, block: &BlockView<'_>) -> Option<String> {
        block.columns.iter().find_map(|column| {
            let known = self.0.get(&(table.to_owned(), column.name.to_owned()))?;
            let mut declared = [false; 256];
            for code in codes(column.kind)? {
                if !known.contains(code) {
                    return Some(format!(
                        "column {} of {table} has no code {code}: update the schema first",
                        column.name
                    ));
                }
                let number = code.rsplit_once(" = ")?.1.parse::<u8>().ok()?;
                declared[usize::from(number)] = true;
            }
            let stray = column
                .data
                .iter()
                .find(|code| !declared[usize::from(**code)])?;
            Some(format!(
                "column {} of {table} holds code {stray}, which has no name",
                column.name
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_store::native::ColumnView;

    #[test]
    fn a_code_the_table_has_no_name_for_is_named() {
        let table =
            Vocabulary::of([("samples", "level", "Enum8('L1' = 2, 'RAM' = 10)")].into_iter());
        let of = |kind, data| {
            let columns = vec![ColumnView {
                name: "level",
                kind,
                data,
            }];
            table.unknown("samples", &BlockView { rows: 0, columns })
        };
        let unknown = |kind| of(kind, &[]);
        assert_eq!(of("Enum8('RAM' = 10, 'L1' = 2)", &[2, 10, 10]), None);
        let stray = of("Enum8('RAM' = 10)", &[10, 2]);
        let expected = "column level of samples holds code 2, which has no name";
        assert_eq!(stray.as_deref(), Some(expected));
        assert_eq!(unknown("Enum8('RAM' = 10)"), None);
        assert_eq!(unknown("UInt8"), None);
        let expected = "column level of samples has no code 'XXL' = 99: update the schema first";
        assert_eq!(
            unknown("Enum8('L1' = 2, 'XXL' = 99)").as_deref(),
            Some(expected)
        );
        assert!(unknown("Enum8('L1' = 10)").is_some());
    }
}
