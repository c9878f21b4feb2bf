//! A connection that is seen when its client does not take what it is sent.
//!
//! Answers are made in microseconds; what makes a request last is a client that does not read. So a
//! request in flight is a connection whose last write the socket would not take.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many connections stand still because their clients do not read.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalled(Arc<AtomicUsize>);

impl Stalled {
    /// How many now.
    pub(super) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that counts itself while a write waits for the client.
pub(super) struct Watched<S> {
    inner: S,
    waits: bool,
    stalled: Stalled,
}

impl<S> Watched<S> {
    /// Watches a stream.
    pub(super) const fn new(inner: S, stalled: Stalled) -> Self {
        Self { inner, waits: false, stalled }
    }

    fn note<T>(&mut self, outcome: &Poll<T>) {
        let waits = outcome.is_pending();
        match (std::mem::replace(&mut self.waits, waits), waits) {
            (false, true) => drop(self.stalled.0.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.stalled.0.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        self.note(&Poll::Ready(()));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.note(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
