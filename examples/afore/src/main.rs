//! Request de-duplication: certification requests that are answered once.

fn main() {}
