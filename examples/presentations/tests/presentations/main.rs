//! presentations, as several processes.
