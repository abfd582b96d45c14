//! Why names and lines are missing.

use super::{LocalSession, ObjectSource, SampleDecoder};
use crate::edge::{DAMAGED, OTHER_DEBUG, Refusal, Refusals, remedy_of};
use crate::symbols::{TableState, What};

impl<S: ObjectSource> LocalSession<S> {
    /// The mapped things whose lines were wanted and are not to be had, each with the reason, in order of their names.
    pub fn without_lines(&self) -> Vec<(&str, &str)> {
        let objects = self.decoder.machine.objects();
        let refusals = self.decoder.lines.refusals();
        let mut named: Vec<_> = refusals
            .filter_map(|(mapping, why)| {
                let mut all = objects.iter();
                let (_, object) = all.find(|(_, object)| object.mapping == mapping)?;
                Some((object.dso(), why))
            })
            .collect();
        named.sort_unstable();
        named
    }

    /// Files with symbols or debug information that were there and were refused, in whole or in part, each with reason and
    /// remedy; and how many more there are.
    pub fn refusals(&self) -> (Vec<Refusal>, u64) {
        let SampleDecoder {
            machine,
            lines,
            source,
            nameless,
            ..
        } = &self.decoder;
        let noted = source.refusals();
        let mut all = noted.map_or(Vec::new(), |noted| noted.kept().to_vec());
        for place in nameless {
            let object = machine.objects().get(*place);
            let (Some(object), TableState::Unavailable(why)) =
                (object, machine.objects().state(*place))
            else {
                continue;
            };
            let path = &*object.identity.path;
            let is_told = |told: &Refusal| told.file.ends_with(path);
            if has_own_names(object.what) && !all.iter().any(is_told) {
                // The file is named already.
                let short = why.strip_prefix(&format!("cannot read {path}: "));
                let short = short.map_or_else(|| why.replacen(path, "it", 1), str::to_owned);
                all.push(Refusal {
                    file: path.into(),
                    why: short.into(),
                    remedy: remedy_of(object.what, why),
                });
            }
        }
        let mut more = noted.map_or(0, Refusals::more);
        for (mapping, info, damage) in lines.read() {
            let object = machine.objects().iter().find(|(_, o)| o.mapping == mapping);
            let dso = object.map_or("[unknown]", |(_, object)| object.dso());
            let refusal = |why: &str, remedy| Refusal {
                file: dso.into(),
                why: why.into(),
                remedy,
            };
            let is_told = all
                .iter()
                .any(|told: &Refusal| told.remedy == DAMAGED && told.file.ends_with(dso));
            let damage = damage.filter(|_| !is_told);
            all.extend(damage.map(|why| refusal(why, DAMAGED)));
            let (split, others) = info.split_refusals();
            all.extend(
                split
                    .iter()
                    .map(|why| refusal(&format!("split file {why}"), OTHER_DEBUG)),
            );
            more += others as u64;
        }
        (all, more)
    }
}

/// Code of it comes from something that names it; of the kernel the source tells.
fn has_own_names(what: What) -> bool {
    matches!(what, What::File | What::Shared | What::Jit | What::Vdso)
}
