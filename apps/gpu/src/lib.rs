//! Rendering and machine learning side by side on one machine: the members of the study `gpu`, as programs of their own.
//!
//! `render` draws fixed frames of a CAD-like scene off-screen by Vulkan, `train` trains a small convolutional network on digits that it draws
//! itself, by Vulkan or in plain Rust, and `mix` runs several of the one and one of the other, together or one after the other, and prints
//! their times as JSON. Baremark runs `mix` as an external program, so that it has no dependency on a GPU itself. Every member checks its
//! work: frames against rays cast in plain Rust, a network by digits that it was not trained with. Members are processes of one user on one
//! GPU, which its driver shares by time; nothing about the device is changed, and there are no virtual machines.

pub mod arguments;
pub mod digits;
pub mod member;
pub mod mix;
pub mod net;
pub mod net_vulkan;
pub mod render;
pub mod scene;
pub mod train;
pub mod usage;
pub mod view;
pub mod vulkan;
