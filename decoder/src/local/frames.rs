//! The frames of one sample: its callchain as recorded, unwound or taken from branches, each with what its address means.

use super::chains::{ChainIx, Met};
use super::unwind::{ChainBy, ChainEnd, Copied};
use super::{ObjectSource, SampleDecoder, Wanted};
use crate::classified::Deriver;
use crate::context::Mode;
use crate::machine::Place;
use memwide_perf_abi::{SampleView, Words, branch_sample};

/// What is known of a sample's callchain; the frames of its callers are with the decoder.
#[derive(Debug, Default)]
pub(super) struct SampleChain {
    /// The innermost frame.
    pub(super) leaf: Option<(u64, Place)>,
    /// The number of the chain, if there are not too many.
    pub(super) number: Option<ChainIx>,
    /// The same where the callers' frames are kept by it.
    pub(super) kept: Option<ChainIx>,
    pub(super) by: ChainBy,
    pub(super) end: ChainEnd,
}

impl<S: ObjectSource> SampleDecoder<S> {
    /// Of a sample without a chain.
    pub(super) fn no_chain(&mut self) -> SampleChain {
        self.frames.clear();
        self.frame_lines.clear();
        SampleChain::default()
    }

    /// Of a sample with one: by mode and process, and with the place of its own address, if that was asked for.
    pub(super) fn chain(
        &mut self,
        event: &memwide_perf_abi::file::Event,
        view: &SampleView<'_>,
        (mode, pid, code): (Mode, u32, Option<Place>),
        chain: Words<'_>,
    ) -> SampleChain {
        self.frames.clear();
        self.frame_lines.clear();
        let (recorded, by, end) = self.user_frames(event, view, pid, chain);
        let mut found = SampleChain {
            by,
            end,
            ..SampleChain::default()
        };
        let (at, leaf_mode, ip) = match (crate::chain::innermost(recorded), self.made.first()) {
            (Some(leaf), _) => leaf,
            (None, Some(made)) => (recorded.len(), Mode::User, *made),
            (None, None) => return found,
        };
        let place = match code.filter(|_| view.ip() == Some(ip) && mode == leaf_mode) {
            Some(place) => place,
            None => self.code(leaf_mode, pid, ip),
        };
        let met = if self.wanted.has(Wanted::CHAINS) {
            let stamp = |mode| self.machine.stamp(mode, pid);
            let stamps = [stamp(Mode::User), stamp(Mode::Kernel)];
            self.chains.meet(recorded, &self.made, at, stamps)
        } else {
            Met::Unknown
        };
        if let Met::First(chain) | Met::Before(chain) = met {
            found.number = Some(chain);
        }
        if let Met::Before(chain) = met {
            match self.chains.kept(chain) {
                Some(Ok(_)) => found.kept = Some(chain),
                Some(Err(_)) => return found,
                None => {}
            }
        }
        let with_lines = self.wanted.has(Wanted::INLINES);
        if with_lines {
            self.add_lines(&place, false);
        }
        // The context is told by the frames.
        let is_first = !matches!(met, Met::Before(_));
        let is_whole = found.kept.is_some()
            || !(is_first || self.wanted.has(Wanted::DERIVED))
            || self.walk(recorded, pid);
        if let Met::First(chain) = met {
            let entry = Deriver::entry_of(&self.machine, &self.frames);
            let callers = is_whole.then_some(self.frames.as_slice());
            // With inlined functions the frames alone do not tell all.
            if !with_lines || !is_whole {
                self.chains.keep(chain, callers, entry);
            }
        }
        if is_whole {
            found.leaf = Some((ip, place));
        } else {
            self.frames.clear();
            self.frame_lines.clear();
        }
        found
    }

    /// Makes the user frames that are not recorded as such; the answer is what of the chain goes before them, how they were
    /// made and why there are no more.
    fn user_frames<'a>(
        &mut self,
        event: &memwide_perf_abi::file::Event,
        view: &SampleView<'a>,
        pid: u32,
        chain: Words<'a>,
    ) -> (Words<'a>, ChainBy, ChainEnd) {
        self.made.clear();
        let attr = &event.attr;
        let copied = view.regs_user().zip(view.stack_user());
        if let Some((regs, stack)) = copied.filter(|(_, stack)| !stack.data.is_empty()) {
            let from = (&mut self.machine, &mut self.source, &self.tables);
            let end = self.unwinding.unwind(
                from,
                (pid, self.sequence),
                Copied { regs, stack },
                crate::chain::FRAMES_MAX,
                &mut self.made,
            );
            return (chain, ChainBy::Dwarf, end);
        }
        let has_calls = attr.branch_sample_type & branch_sample::CALL_STACK != 0;
        let calls = view.branch_stack().filter(|_| has_calls);
        let Some(calls) = calls.filter(|calls| !calls.is_empty()) else {
            return (chain, ChainBy::Kernel, ChainEnd::Unknown);
        };
        // Like perf: only where the kernel says that user code follows.
        let Some(user) = chain.iter().position(|word| word == crate::chain::USER) else {
            return (chain, ChainBy::Kernel, ChainEnd::Unknown);
        };
        self.made.extend(calls.iter().take(1).map(|call| call.to));
        self.made.extend(calls.iter().map(|call| call.from));
        (chain.first(user), ChainBy::Lbr, ChainEnd::Unknown)
    }

    /// Finds out the frames behind the innermost one; false for a chain with a marker that nobody knows.
    fn walk(&mut self, chain: Words<'_>, pid: u32) -> bool {
        let mut frames = std::mem::take(&mut self.frames);
        let with_lines = self.wanted.has(Wanted::INLINES);
        let mut mode_before = None;
        let whole = crate::chain::walk(chain, |mode, ip| {
            // The first frame of each mode was interrupted there, the others wait for a call to return.
            let Some(before) = mode_before.replace(mode) else {
                return; // the innermost
            };
            let place = self.code(mode, pid, ip);
            frames.push((ip, place));
            if with_lines {
                self.add_lines(&place, before == mode);
            }
        });
        let made = std::mem::take(&mut self.made);
        // Without a recorded frame the first one made is the innermost.
        let from = usize::from(mode_before.is_none());
        for ip in made.iter().skip(from).filter(|_| whole) {
            let place = self.code(Mode::User, pid, *ip);
            frames.push((*ip, place));
            if with_lines {
                // These are the addresses of calls, not where they return to.
                self.add_lines(&place, false);
            }
        }
        (self.frames, self.made) = (frames, made);
        whole
    }

    fn add_lines(&mut self, place: &Place, returns: bool) {
        let (machine, source) = (&self.machine, &mut self.source);
        let lines = self.lines.chain(machine, source, place, returns);
        self.frame_lines.push(lines);
    }
}
