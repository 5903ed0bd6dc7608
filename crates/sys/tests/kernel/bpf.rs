//! Maps and programs of eBPF.

use baremark_sys::bpf::{Map, Program};
use std::io;

#[test]
fn a_map_keeps_what_it_is_given_and_a_wrong_program_is_refused_with_the_reason() {
    let map = match Map::hash("test", 4, 8, 3) {
        Ok(map) => map,
        Err(why) => return println!("skipped: bpf(2): {why}"),
    };
    for number in 0_u32..3 {
        map.update(&number.to_ne_bytes(), &u64::from(number * 7).to_ne_bytes()).expect("room");
    }
    map.update(&9_u32.to_ne_bytes(), &[0; 8]).expect_err("it is full");
    let mut keys = map.keys().expect("keys");
    keys.sort();
    assert_eq!(keys.len(), 3);
    let mut value = [0; 8];
    assert!(map.lookup(&2_u32.to_ne_bytes(), &mut value).expect("lookup"));
    assert_eq!(u64::from_ne_bytes(value), 14);
    assert!(!map.lookup(&5_u32.to_ne_bytes(), &mut value).expect("lookup"));
    assert_eq!(map.lookup(&[0; 3], &mut value).expect_err("short").kind(), io::ErrorKind::InvalidInput);
    // `exit` alone: nothing was returned.
    let refused = Program::load("wrong", &[0x95]).expect_err("r0 was not set");
    assert!(refused.to_string().contains("R0 !read_ok"), "{refused}");
}

#[test]
fn a_tracepoint_that_is_not_there_is_named_by_the_kernel() {
    // r0 = 0; exit
    let program = match Program::load("nothing", &[0xb7, 0x95]) {
        Ok(program) => program,
        Err(why) => return println!("skipped: bpf(2): {why}"),
    };
    assert_eq!(program.attach("no_such_tracepoint").expect_err("none").kind(), io::ErrorKind::NotFound);
}
