//! notes, as several processes.
