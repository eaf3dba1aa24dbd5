//! Steps of the store's clock. A step forward ends leases early.

/// The store's clock was set forward, at an unknown moment of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// Beginning of the period.
    pub from_us: i64,
    /// End of the period.
    pub until_us: i64,
    /// How far it was set forward.
    pub forward_us: i64,
}

/// The store's clock during a run, by its steps forward. A clock that is set back makes leases longer, which breaks no promise.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    steps: Vec<ClockStep>,
}

impl Clock {
    /// A clock with these steps.
    pub fn new(steps: Vec<ClockStep>) -> Self {
        Clock { steps }
    }

    /// The earliest time at which a lease can expire that began at `now_us`.
    pub fn earliest_expiry_us(&self, now_us: i64, ttl_us: i64) -> i64 {
        let mut expiry_us = now_us.saturating_add(ttl_us);
        for step in &self.steps {
            if step.until_us >= now_us && step.from_us <= expiry_us {
                let earliest_us = step.from_us.max(now_us);
                expiry_us = expiry_us.saturating_sub(step.forward_us).max(earliest_us);
            }
        }
        expiry_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_during_the_lease_ends_it_earlier() {
        let step = ClockStep {
            from_us: 100,
            until_us: 120,
            forward_us: 50,
        };
        let clock = Clock::new(vec![step]);
        for (now_us, expiry_us) in [
            (0, 80),
            (30, 100),
            (60, 100),
            (90, 120),
            (110, 140),
            (121, 201),
        ] {
            let found = clock.earliest_expiry_us(now_us, 80);
            assert_eq!(found, expiry_us, "from {now_us}");
        }
        assert_eq!(Clock::default().earliest_expiry_us(90, 80), 170);
    }
}
