//! Everything that is loaded, as a function of the seed: the same seed gives the same rows and the same images.

pub(crate) mod picture;
mod random;
pub(crate) mod site;
mod words;

pub(crate) use random::Random;
