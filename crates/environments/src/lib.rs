//! baremark-environments
