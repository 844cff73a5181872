//! What `loader.rs` takes from the C library, as an empty library to link against.
//!
//! Linking against the build host's own libc would record its symbol versions, and the program would then run on no older one.
//! `build.rs` builds this twice, once with the soname of the C library and once with that of its dynamic linking part.

#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

macro_rules! functions {
    ($($name:ident)*) => { $(
        /// Never called.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> ! {
            loop {}
        }
    )* };
}

functions! {
    dlopen dlsym dlerror read write open close mmap munmap clock_gettime nanosleep exit _exit prctl getpid getenv __cxa_atexit sched_yield
    memset memcpy memmove memcmp strlen
}
