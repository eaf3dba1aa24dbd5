//! Decides whether a history is linearizable: whether its operations can be put into one order that agrees with their times, and
//! that a model allows.
//!
//! The search is that of Wing and Gong, and remembers what it has tried, as Lowe proposed: the same set of operations with the same
//! state of the model is not searched again. Split a history by key before, because the search is exponential at worst.

use std::collections::HashSet;
use std::hash::Hash;

use super::Operation;

/// What one object does when operations happen one after the other.
pub trait Model {
    /// State of the object.
    type State: Clone + Eq + Hash;
    /// Calls of the object.
    type Call;
    /// Answers of the object.
    type Answer;

    /// State at the beginning.
    fn initial(&self) -> Self::State;

    /// All states that the object can have after an operation with this answer; none if it cannot give this answer.
    ///
    /// `now_us` is the earliest time at which the operation can have its effect in this order.
    fn after(
        &self,
        state: &Self::State,
        operation: &Operation<Self::Call, Self::Answer>,
        now_us: i64,
    ) -> Vec<Self::State>;
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none. `order` is the longest beginning of one; none of `next` can follow it. Both are indexes.
    Violated {
        /// Longest order that the model allows.
        order: Vec<usize>,
        /// Operations that would have to come next.
        next: Vec<usize>,
    },
    /// The search took more than the allowed number of steps.
    TooLong,
}

/// Searches for an order of the operations, which are sorted by their calls.
pub fn check<M: Model>(
    model: &M,
    operations: &[Operation<M::Call, M::Answer>],
    max_steps: usize,
) -> Verdict {
    debug_assert!(operations.is_sorted_by_key(|operation| operation.call_us));
    let mut search = Search {
        model,
        operations,
        done: Set::new(operations.len()),
        // Operations without a known outcome may be left out.
        left: operations.iter().filter(|one| one.answer.is_some()).count(),
        first: 0,
    };
    let mut seen = HashSet::new();
    let mut longest = Vec::new();
    let mut stuck = Vec::new();
    let mut path: Vec<Frame<M::State>> = vec![search.frame(None, &model.initial(), i64::MIN)];
    let mut steps = 0;
    while let Some(frame) = path.last_mut() {
        if search.left == 0 {
            return Verdict::Linearizable;
        }
        let Some((index, state, now_us)) = frame.choices.pop() else {
            let ended = path.pop().expect("the loop has just seen it");
            if let Some(index) = ended.index {
                search.undo(index);
            }
            continue;
        };
        steps += 1;
        if steps > max_steps {
            return Verdict::TooLong;
        }
        search.redo(index);
        if !seen.insert((search.done.clone(), state.clone())) {
            search.undo(index);
            continue;
        }
        let next = search.frame(Some(index), &state, now_us);
        if path.len() > longest.len() {
            longest = path.iter().filter_map(|frame| frame.index).collect();
            longest.push(index);
            stuck = search.candidates();
        }
        path.push(next);
    }
    if longest.is_empty() {
        stuck = search.candidates();
    }
    Verdict::Violated {
        order: longest,
        next: stuck,
    }
}

/// One chosen operation, and those that can follow it.
struct Frame<S> {
    index: Option<usize>,
    choices: Vec<(usize, S, i64)>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    operations: &'a [Operation<M::Call, M::Answer>],
    done: Set,
    /// Number of operations that still have to be ordered.
    left: usize,
    /// All operations before this one are done.
    first: usize,
}

impl<M: Model> Search<'_, M> {
    fn redo(&mut self, index: usize) {
        self.done.insert(index);
        self.left -= usize::from(self.operations[index].answer.is_some());
        while self.first < self.operations.len() && self.done.contains(self.first) {
            self.first += 1;
        }
    }

    fn undo(&mut self, index: usize) {
        self.done.remove(index);
        self.left += usize::from(self.operations[index].answer.is_some());
        self.first = self.first.min(index);
    }

    /// Operations of which each can come next: none of the others had returned before its call.
    fn candidates(&self) -> Vec<usize> {
        let mut candidates = Vec::new();
        let mut earliest_return = i64::MAX;
        for (index, operation) in self.operations.iter().enumerate().skip(self.first) {
            if operation.call_us > earliest_return {
                break;
            }
            if !self.done.contains(index) {
                candidates.push(index);
                earliest_return = earliest_return.min(operation.return_us);
            }
        }
        candidates.retain(|index| self.operations[*index].call_us <= earliest_return);
        candidates
    }

    fn frame(&self, index: Option<usize>, state: &M::State, now_us: i64) -> Frame<M::State> {
        let mut choices = Vec::new();
        for next in self.candidates() {
            let operation = &self.operations[next];
            let now_us = now_us.max(operation.call_us);
            for state in self.model.after(state, operation, now_us) {
                choices.push((next, state, now_us));
            }
        }
        // The last one is tried first: what returned earliest, and what has an unknown outcome at the very end.
        choices.sort_by_key(|(next, ..)| std::cmp::Reverse(self.operations[*next].return_us));
        Frame { index, choices }
    }
}

/// A set of indexes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Set(Vec<u64>);

impl Set {
    fn new(len: usize) -> Self {
        Set(vec![0; len.div_ceil(64)])
    }

    fn contains(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }
}

/// Histories of a register with known verdicts, most of them from the literature.
#[cfg(test)]
mod tests {
    use super::*;

    /// A register that holds a number, first 0.
    struct Register;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Ask {
        Write(u8),
        Read,
        /// Writes the second number if the register holds the first one.
        Swap(u8, u8),
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Answered {
        Written,
        Value(u8),
        Swapped(bool),
    }

    impl Model for Register {
        type State = u8;
        type Call = Ask;
        type Answer = Answered;

        fn initial(&self) -> u8 {
            0
        }

        fn after(&self, state: &u8, operation: &Operation<Ask, Answered>, _now_us: i64) -> Vec<u8> {
            match (operation.call, operation.answer) {
                (Ask::Write(value), None | Some(Answered::Written)) => vec![value],
                (Ask::Read, None) => vec![*state],
                (Ask::Read, Some(Answered::Value(value))) if value == *state => vec![*state],
                (Ask::Swap(from, to), None | Some(Answered::Swapped(true))) if from == *state => {
                    vec![to]
                }
                (Ask::Swap(from, _), None | Some(Answered::Swapped(false))) if from != *state => {
                    vec![*state]
                }
                _ => vec![],
            }
        }
    }

    fn judge(history: &[(i64, i64, Ask, Option<Answered>)]) -> Verdict {
        let mut operations: Vec<_> = history
            .iter()
            .map(|(call_us, return_us, call, answer)| Operation {
                process: String::new(),
                call_us: *call_us,
                return_us: if answer.is_some() {
                    *return_us
                } else {
                    i64::MAX
                },
                call: *call,
                answer: *answer,
            })
            .collect();
        operations.sort_by_key(|operation| operation.call_us);
        check(&Register, &operations, 100_000)
    }

    #[track_caller]
    fn accepts(history: &[(i64, i64, Ask, Option<Answered>)]) {
        assert_eq!(judge(history), Verdict::Linearizable);
    }

    #[track_caller]
    fn rejects(history: &[(i64, i64, Ask, Option<Answered>)]) {
        let verdict = judge(history);
        assert!(matches!(verdict, Verdict::Violated { .. }), "{verdict:?}");
    }

    use Answered::*;
    use Ask::*;

    #[test]
    fn nothing_is_linearizable() {
        accepts(&[]);
    }

    #[test]
    fn one_after_the_other() {
        accepts(&[
            (1, 2, Write(5), Some(Written)),
            (3, 4, Read, Some(Value(5))),
        ]);
        rejects(&[
            (1, 2, Write(5), Some(Written)),
            (3, 4, Read, Some(Value(0))),
        ]);
    }

    #[test]
    fn a_read_during_a_write_sees_either_value() {
        for value in [0, 5] {
            accepts(&[
                (1, 9, Write(5), Some(Written)),
                (3, 4, Read, Some(Value(value))),
            ]);
        }
        rejects(&[
            (1, 9, Write(5), Some(Written)),
            (3, 4, Read, Some(Value(6))),
        ]);
    }

    #[test]
    fn two_reads_during_a_write_do_not_go_back() {
        let write = (1, 9, Write(5), Some(Written));
        accepts(&[
            write,
            (2, 3, Read, Some(Value(0))),
            (4, 5, Read, Some(Value(5))),
        ]);
        rejects(&[
            write,
            (2, 3, Read, Some(Value(5))),
            (4, 5, Read, Some(Value(0))),
        ]);
        // They overlap, so their order is open.
        accepts(&[
            write,
            (2, 5, Read, Some(Value(5))),
            (3, 6, Read, Some(Value(0))),
        ]);
    }

    #[test]
    fn a_read_of_a_value_that_a_finished_write_replaced() {
        rejects(&[
            (1, 2, Write(1), Some(Written)),
            (3, 4, Write(2), Some(Written)),
            (5, 6, Read, Some(Value(1))),
        ]);
    }

    #[test]
    fn an_unknown_write_may_happen_late_or_never() {
        let unknown = (1, 0, Write(5), None);
        accepts(&[
            unknown,
            (3, 4, Read, Some(Value(0))),
            (5, 6, Read, Some(Value(5))),
        ]);
        accepts(&[
            unknown,
            (3, 4, Read, Some(Value(0))),
            (5, 6, Read, Some(Value(0))),
        ]);
        rejects(&[
            unknown,
            (3, 4, Read, Some(Value(5))),
            (5, 6, Read, Some(Value(0))),
        ]);
    }

    #[test]
    fn an_unknown_write_does_not_happen_before_its_call() {
        rejects(&[(1, 2, Read, Some(Value(5))), (3, 0, Write(5), None)]);
    }

    #[test]
    fn only_one_of_two_swaps_succeeds() {
        let first = (1, 9, Swap(0, 1), Some(Swapped(true)));
        accepts(&[first, (2, 8, Swap(0, 2), Some(Swapped(false)))]);
        rejects(&[first, (2, 8, Swap(0, 2), Some(Swapped(true)))]);
    }

    /// The order of the calls is not the order of the effects, at any depth.
    #[test]
    fn a_long_chain_in_reverse() {
        let mut history: Vec<_> = (0..12_u8)
            .map(|n| (i64::from(n), 100, Swap(11 - n, 12 - n), Some(Swapped(true))))
            .collect();
        accepts(&history);
        history.push((101, 102, Read, Some(Value(11))));
        rejects(&history);
    }

    #[test]
    fn the_longest_beginning_is_named() {
        let verdict = judge(&[
            (1, 2, Write(1), Some(Written)),
            (3, 4, Read, Some(Value(1))),
            (5, 6, Read, Some(Value(7))),
        ]);
        let (order, next) = (vec![0, 1], vec![2]);
        assert_eq!(verdict, Verdict::Violated { order, next });
    }

    #[test]
    fn a_search_that_takes_too_long_is_not_a_verdict() {
        let mut history: Vec<_> = (0..16_u8)
            .map(|n| (0, 100, Write(n), Some(Written)))
            .collect();
        history.push((101, 102, Read, Some(Value(99))));
        let mut operations: Vec<_> = history
            .into_iter()
            .map(|(call_us, return_us, call, answer)| Operation {
                process: String::new(),
                call_us,
                return_us,
                call,
                answer,
            })
            .collect();
        operations.sort_by_key(|operation| operation.call_us);
        assert_eq!(check(&Register, &operations, 1000), Verdict::TooLong);
    }
}
