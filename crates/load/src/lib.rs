//! The HTTP load engine.
