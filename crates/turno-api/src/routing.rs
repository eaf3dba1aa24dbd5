//! Routing keys of event types.

/// Returns the routing key of an event type: `TicketStatusChangedEvent` becomes `ticket.status.changed`.
///
/// A class name is split at its capital letters, without its namespace and without the suffix `Event`. A type
/// that is already in lower case, such as `ticket.created`, is its own routing key.
///
/// ```
/// use turno_api::outbox::routing_key;
///
/// assert_eq!(routing_key("TicketStatusChangedEvent"), "ticket.status.changed");
/// assert_eq!(routing_key("TicketFlow.Domain.Events.TicketCreatedEvent"), "ticket.created");
/// assert_eq!(routing_key("HTTPRequestSent"), "http.request.sent");
/// assert_eq!(routing_key("ticket.created"), "ticket.created");
/// ```
pub fn routing_key(kind: &str) -> String {
    let class = kind.rsplit(['.', ':', '+', '/']).next().unwrap_or(kind);
    if !class.starts_with(|first: char| first.is_ascii_uppercase()) {
        return kind.to_owned();
    }
    let class = match class.strip_suffix("Event") {
        None | Some("") => class,
        Some(stem) => stem,
    };
    let letters: Vec<char> = class.chars().collect();
    let mut key = String::with_capacity(class.len() + 8);
    for (place, letter) in letters.iter().enumerate() {
        let starts_word = letter.is_ascii_uppercase()
            && place > 0
            && (!letters[place - 1].is_ascii_uppercase()
                || letters
                    .get(place + 1)
                    .is_some_and(|next| next.is_ascii_lowercase()));
        if starts_word && !key.ends_with(['.', '_', '-']) {
            key.push('.');
        }
        key.push(letter.to_ascii_lowercase());
    }
    key
}
