//! Programs started by another one: time limits, priorities, an empty environment, a session of its own.
//!
//! `timeout` sends its signal to the program and to its group: a trap may run twice (hence `uniq`).

use crate::programs;

programs! {
    patience 60;

    timeout_not_reached needs "true" prepare ""
        command "timeout 50 bash -c 'echo in time; exit 7'"

    timeout_reached needs "true" prepare ""
        command "timeout 1 bash -c 'echo begin; sleep 100; echo never'"

    timeout_caught needs "true" prepare ""
        command "bash -c 'timeout --preserve-status 3 bash -c \"trap \\\"echo caught; exit 5\\\" TERM; sleep 100 & wait\" | uniq; exit ${PIPESTATUS[0]}'"

    nice needs "true" prepare ""
        command "nice -n 5 bash -c 'nice; seq 1000 | cksum'"

    empty_environment needs "true" prepare ""
        command "env -i /bin/sh -c '/usr/bin/env | /usr/bin/grep -v -e ^_= -e ^PWD=; echo $#' a b"

    own_session needs "command -v setsid" prepare ""
        command "setsid -w bash -c 'test $(ps -o sid= -p $$) -eq $$ && echo leader; exit 4'"

    killed_by_a_signal needs "true" prepare ""
        command "bash -c 'kill -USR1 $$'"

    // Process ids in it are others than those that the tracer sees.
    pid_namespace needs "unshare --fork --pid --mount-proc true" prepare ""
        command "unshare --fork --pid --mount-proc sh -c 'echo $$; set -- /proc/[0-9]*; echo $#; (sh -c \"echo in; exit 4\"; echo $?); seq 100 | md5sum; exit 6'"

    static_binary needs "command -v gcc" prepare "gcc -O2 -static -pthread $FIXTURES/crew.c -o crew"
        command "../crew 4 20000"

    started_by_many needs "true" prepare ""
        command "bash -c 'seq 30 | nice xargs -n 3 -P 2 sh -c \"echo \\$((\\$0 + \\$1 + \\$2))\" | sort -n'"
}
