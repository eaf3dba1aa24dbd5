//! Pages of lists.

/// The default size of a page.
pub const DEFAULT_PAGE: u32 = 100;

/// Returns the cursor of the next page; `None` if this page is not full.
pub fn next<T, A>(page: &[T], limit: u32, cursor: impl Fn(&T) -> A) -> Option<A> {
    page.last()
        .filter(|_| page.len() >= limit as usize)
        .map(cursor)
}
