//! `memwide man`: manual pages from the same texts as `--help`.

use crate::failure::Failure;
use crate::output::{create, say};
use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;
use std::io::Write as _;
use std::path::Path;

/// What every page ends with.
const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
.TP
0
fine
.TP
1
failed
.TP
64
wrong usage or configuration
.TP
65
bad input: a file that cannot be read, or is not whole
";

/// Writes a page for the command and each of its subcommands into a folder.
pub(crate) fn run(command: Command, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = write(&command, folder)?;
    say(&format!(
        "{pages} pages in {}; read one with `man -l {}`",
        folder.display(),
        folder.join("memwide.1").display()
    ));
    Ok(())
}

fn write(command: &Command, folder: &Path) -> Result<usize, Failure> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    page.extend_from_slice(EXIT_STATUS.as_bytes());
    create(&folder.join(man.get_filename()))?.write_all(&page)?;
    let mut pages = 1;
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        pages += write(below, folder)?;
    }
    Ok(pages)
}
