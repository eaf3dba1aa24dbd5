//! Adopting an existing table: notes that are transcribed and analysed once.

fn main() {}
