//! afore, as several processes.
