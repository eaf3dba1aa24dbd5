//! ticketflow, as several processes.
