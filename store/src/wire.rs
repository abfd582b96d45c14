//! ClickHouse's HTTP interface in pieces, for who else speaks it to clients: requests taken apart, errors and answers in the form
//! they understand.

pub use crate::engine::body::Packer;
pub use crate::engine::error_text::{code, complete, exception, status};
pub use crate::engine::http::{content_type, reader_may_set};
pub use crate::engine::request::{Asked, boundary, form_fields};
pub use crate::native::revised;
pub use crate::sql::split_format;
