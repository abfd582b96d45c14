//! CPUs that come and go while samples are taken.

/// The CPUs that were online when events were opened, against those that are.
#[derive(Debug)]
pub(super) struct Cpus {
    open: Vec<u32>,
    /// What was online the last time, where that differed: several may be on their way.
    seen: Option<Vec<u32>>,
    /// Others are online now, and stay: everything should be opened anew.
    pub(super) have_changed: bool,
}

impl Cpus {
    pub(super) fn new(open: Vec<u32>) -> Self {
        Self {
            open,
            seen: None,
            have_changed: false,
        }
    }

    pub(super) fn look(&mut self, online: &[u32]) {
        if online == self.open {
            self.seen = None;
        } else if self.seen.as_deref() == Some(online) {
            self.have_changed = true;
        } else {
            self.seen = Some(online.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_stays() {
        let mut cpus = Cpus::new(vec![0, 1]);
        let looks: [&[u32]; 6] = [
            &[0, 1],
            &[0],
            &[0, 1],
            &[0, 1, 2],
            &[0, 1, 2, 3],
            &[0, 1, 2, 3],
        ];
        let changed = looks.map(|online| {
            cpus.look(online);
            cpus.have_changed
        });
        assert_eq!(changed, [false, false, false, false, false, true]);
    }
}
