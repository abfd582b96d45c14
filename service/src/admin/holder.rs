//! Finds the process that listens on a port, for an error a person can act on.

use std::fs;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// `memwide (process 4711)`, or `another process` where it cannot be seen.
pub(super) fn of_port(port: u16) -> String {
    let unknown = || "another process".to_owned();
    let Some(inode) = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| listening_inode(&table, port))
    else {
        return unknown();
    };
    let wanted = format!("socket:[{inode}]");
    let Ok(processes) = fs::read_dir("/proc") else {
        return unknown();
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            continue; // another user's, or gone
        };
        let holds = files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|target| target.as_os_str() == wanted.as_str());
        if holds {
            let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return format!("{} (process {pid})", comm.trim());
        }
    }
    unknown()
}

/// Inode of the socket that listens on `port`, from the text of `/proc/net/tcp`.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
        let mut columns = line.split_whitespace();
        let local = columns.nth(1)?;
        let state = columns.nth(1)?;
        let (_, local_port) = local.rsplit_once(':')?;
        let found = u16::from_str_radix(local_port, 16).ok()? == port && state == LISTEN;
        found.then(|| columns.nth(5)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:1B9F 0100007F:1B9E 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0
";

    #[test]
    fn only_a_listening_socket_holds_a_port() {
        assert_eq!(listening_inode(TABLE, 7070), Some(4711));
        assert_eq!(listening_inode(TABLE, 7071), None);
        assert_eq!(listening_inode("", 7070), None);
    }
}
