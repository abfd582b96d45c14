//! Vocabulary: ids, units, the access taxonomy, loss ledger, rollups and their merge laws.
