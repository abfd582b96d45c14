//! Numbers of symbols by their place: two looks into arrays, as this is asked for every sample.

use memwide_decoder::ObjectIx;
use memwide_objects::SymbolRef;

/// Numbers by object, symbol and event.
#[derive(Debug)]
pub(super) struct SymbolNumbers {
    events: usize,
    /// By object: by symbol and event the number and 1; 0 where there is none yet.
    objects: Vec<Vec<u32>>,
}

impl SymbolNumbers {
    /// For a file with so many events.
    pub(super) fn new(events: usize) -> Self {
        Self {
            events,
            objects: Vec::new(),
        }
    }

    /// The number of a symbol seen with an event.
    #[inline]
    pub(super) fn get(&self, object: ObjectIx, symbol: SymbolRef, event: usize) -> Option<u64> {
        let at = symbol.index() * self.events + event;
        let number = *self.objects.get(object.index())?.get(at)?;
        number.checked_sub(1).map(u64::from)
    }

    /// Sets it.
    pub(super) fn set(&mut self, object: ObjectIx, symbol: SymbolRef, event: usize, number: u64) {
        let Some(entry) = number
            .checked_add(1)
            .and_then(|next| u32::try_from(next).ok())
        else {
            return; // asked for anew each time
        };
        if self.objects.len() <= object.index() {
            self.objects.resize_with(object.index() + 1, Vec::new);
        }
        let Some(symbols) = self.objects.get_mut(object.index()) else {
            return;
        };
        let at = symbol.index() * self.events + event;
        if symbols.len() <= at {
            symbols.resize((at + 1).next_power_of_two(), 0);
        }
        if let Some(place) = symbols.get_mut(at) {
            *place = entry;
        }
    }
}
