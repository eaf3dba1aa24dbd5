//! Inbox: presentations that are sent to a web service once.

fn main() {}
