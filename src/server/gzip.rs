//! gzip: making it, and knowing who wants it.

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use std::io::Write;

/// Compressed fast: a scrape shrinks to a quarter, and more effort buys little.
///
/// # Panics
/// Never: it writes to memory.
pub(super) fn compress(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).expect("writing to memory");
    encoder.finish().expect("writing to memory").into()
}

/// Whether any of the `Accept-Encoding` headers accepts gzip with a weight above zero.
pub(super) fn accepted<'a>(headers: impl Iterator<Item = &'a str>) -> bool {
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
            assert_eq!(accepted([header].into_iter()), want, "{header:?}");
        }
        assert!(!accepted(std::iter::empty()));
    }
}
