//! Formats, and nothing but formats: a frame goes in, text comes out.

pub mod html;
mod looks;
pub mod plot;
pub mod prometheus;
pub mod sample;
pub mod series;
pub mod status;
pub mod terminal;
