//! baremark-lab
