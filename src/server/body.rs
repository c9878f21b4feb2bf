//! Bodies: gzip, and one that keeps its place among the requests in flight until it is sent.

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// Sent in pieces of this size: what a client has not read stays here, in a buffer shared by all who
/// get the same frame, and not in one of its own.
const PIECE: usize = 4 * 1024;

/// A body that holds a permit until it is sent or dropped, so that a slow reader counts as a request
/// in flight for as long as it is one.
pub(super) struct Guarded {
    rest: Bytes,
    permit: Option<OwnedSemaphorePermit>,
}

impl Guarded {
    /// A body without a permit yet.
    pub(super) const fn new(content: Bytes) -> Self {
        Self { rest: content, permit: None }
    }

    /// Keeps the permit from now on.
    pub(super) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }

    /// Drops the content, for an answer to HEAD.
    pub(super) fn empty(&mut self) {
        self.rest.clear();
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// Compressed fast: a scrape shrinks to a quarter, and more effort buys little.
///
/// # Panics
/// Never: it writes to memory.
pub(super) fn gzip(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).expect("writing to memory");
    encoder.finish().expect("writing to memory").into()
}

/// Whether any of the `Accept-Encoding` headers accepts gzip with a weight above zero.
pub(super) fn accepts_gzip<'a>(headers: impl Iterator<Item = &'a str>) -> bool {
    let mut by_star = None;
    for item in headers.flat_map(|header| header.split(',')) {
        let mut parts = item.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight =
            parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
        if coding.eq_ignore_ascii_case("gzip") {
            return weight > 0.0;
        }
        if coding == "*" {
            by_star = Some(weight > 0.0);
        }
    }
    by_star.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_only_when_it_is_accepted() {
        for (header, want) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("*", true),
            ("*, gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip([header].into_iter()), want, "{header:?}");
        }
        assert!(!accepts_gzip(std::iter::empty()));
    }
}
