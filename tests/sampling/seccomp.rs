//! A seccomp filter that refuses system calls to the calling thread and its children.

/// Makes each of `calls` fail with EACCES from now on.
pub fn refuse(calls: &[libc::c_long]) {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, ret) = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut filter = vec![op(load, 0, 0, 0)];
    for call in calls {
        filter.push(op(equal | libc::BPF_K, 0, 1, *call as u32));
        filter.push(op(ret | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EACCES as u32));
    }
    filter.push(op(ret | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` refers to a filter that lives during the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}
