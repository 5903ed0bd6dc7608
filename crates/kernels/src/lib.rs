//! baremark-kernels
