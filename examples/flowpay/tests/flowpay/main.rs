//! flowpay, as several processes.
