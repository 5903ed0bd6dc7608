//! baremark-stats
