//! Schema, migrations, typed reads and writes; the embedded engine behind ClickHouse's HTTP interface.
