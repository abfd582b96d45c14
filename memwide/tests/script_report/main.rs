//! `memwide script` and `memwide report` on files made here, whose truth is known.

mod bad_input;
mod files;
mod report;
mod run;
mod script;
