//! The only door to the operating system's and the processor's own facts: clocks, affinity, /proc, /sys, memory maps.
//!
//! What is `unsafe` about asking a machine is kept here, behind functions that are safe to call; nothing here knows
//! what an experiment is.
#![expect(unsafe_code, reason = "system calls and the time-stamp counter")]

pub mod acl;
pub mod affinity;
pub mod bpf;
pub mod calls;
pub mod children;
pub mod clock;
pub mod confine;
pub mod container_engine;
pub mod control_group;
pub mod cpio;
pub mod cpu_time;
pub mod cpu_users;
pub mod dirty_pages;
pub mod end_request;
pub mod ending;
pub mod ethtool;
pub mod file_system;
pub mod futex;
pub mod guest;
pub mod held_back;
pub mod kill_tree;
pub mod launch;
pub mod loaded_program;
pub mod local_socket;
pub mod log_tail;
pub mod machine;
pub mod memory;
pub mod mounts;
pub mod namespace;
pub mod netlink;
pub mod network;
pub mod numa;
pub mod paging;
pub mod perf;
pub mod point;
pub mod private_folder;
pub mod process;
pub mod process_tree;
pub mod pseudo;
pub mod ready;
pub mod registry;
pub mod removal;
pub mod run_queue;
pub mod sandbox;
pub mod secrets;
pub mod segv;
pub mod server_memory;
pub mod smaps;
pub mod stall_group;
pub mod subreaper;
pub mod supervised;
pub mod supervisor;
pub mod suspended;
pub mod tcp_sockets;
pub mod terminal;
pub mod thread_team;
pub mod topology;
pub mod tracee;
pub mod tsc_gaps;
pub mod user_folder;
pub mod wake;
pub mod wall;
