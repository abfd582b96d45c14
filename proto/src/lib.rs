//! Every message that crosses a process, with units; subjects, limits; conversions to the model.
