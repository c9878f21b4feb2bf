//! Says the same thing only so often.

use std::time::Duration;
use tokio::task::JoinHandle;

/// One cause of log lines that clients can bring about as often as they like.
pub(super) struct Quiet {
    period: Duration,
    resting: Option<JoinHandle<()>>,
    kept_back: u64,
}

impl Quiet {
    pub(super) const fn new(period: Duration) -> Self {
        Self { period, resting: None, kept_back: 0 }
    }

    /// Whether it may be said now: then with how many times it was kept back since it was last said.
    /// Must be called on the runtime.
    pub(super) fn may_say(&mut self) -> Option<u64> {
        if self.resting.as_ref().is_some_and(|resting| !resting.is_finished()) {
            self.kept_back += 1;
            return None;
        }
        self.resting = Some(tokio::spawn(tokio::time::sleep(self.period)));
        Some(std::mem::take(&mut self.kept_back))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(resting) = &self.resting {
            resting.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_a_period_with_the_number_kept_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut quiet = Quiet::new(Duration::from_millis(300));
            assert_eq!(quiet.may_say(), Some(0));
            assert_eq!((quiet.may_say(), quiet.may_say()), (None, None));
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert_eq!(quiet.may_say(), Some(2));
            assert_eq!(quiet.may_say(), None);
        });
    }
}
