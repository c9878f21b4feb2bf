//! Places for connections: bounded, and never all held by clients that ask for nothing.
//!
//! When every place is taken, the connection that has asked for nothing the longest gives way to the
//! new one. So a crowd of clients that connect and never finish a request cannot shut out a scraper.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The places.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Counts arrivals and requests; stands for time.
    now: u64,
    next: u64,
    by_id: BTreeMap<u64, Place>,
}

#[derive(Debug)]
struct Place {
    last_asked: u64,
    leave: Arc<Notify>,
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    id: u64,
    seats: Arc<Seats>,
    leave: Arc<Notify>,
}

impl Seats {
    /// This many places.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for a new connection, and whether another had to give way for it.
    pub(super) fn take(self: &Arc<Self>) -> (Seat, bool) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let idlest =
            taken.by_id.iter().min_by_key(|(_, place)| place.last_asked).map(|(id, _)| *id);
        let crowded = taken.by_id.len() >= self.most;
        if let Some(place) = idlest.filter(|_| crowded).and_then(|id| taken.by_id.remove(&id)) {
            place.leave.notify_one();
        }
        taken.now += 1;
        taken.next += 1;
        let (id, leave) = (taken.next, Arc::new(Notify::new()));
        let place = Place { last_asked: taken.now, leave: Arc::clone(&leave) };
        taken.by_id.insert(id, place);
        drop(taken);
        (Seat { id, seats: Arc::clone(self), leave }, crowded)
    }
}

impl Seat {
    /// The connection has asked for something.
    pub(super) fn asked(&self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.now += 1;
        let now = taken.now;
        if let Some(place) = taken.by_id.get_mut(&self.id) {
            place.last_asked = now;
        }
    }

    /// Resolves when the connection must give way.
    pub(super) async fn must_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.by_id.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it has been told to leave.
    fn told(seat: &Seat) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let soon = std::time::Duration::from_millis(20);
            tokio::time::timeout(soon, seat.must_leave()).await.is_ok()
        })
    }

    #[test]
    fn the_one_that_has_asked_for_nothing_the_longest_gives_way() {
        let seats = Seats::new(3);
        let (scraper, _) = seats.take();
        let (idle, _) = seats.take();
        let (other, crowded) = seats.take();
        assert!(!crowded);
        scraper.asked();
        let (new, crowded) = seats.take();
        assert!(crowded);
        assert_eq!([&scraper, &idle, &other, &new].map(told), [false, true, false, false]);
        drop(idle);
        assert_eq!(seats.taken.lock().unwrap().by_id.len(), 3);
        drop((scraper, other, new));
        assert!(seats.taken.lock().unwrap().by_id.is_empty());
    }
}
