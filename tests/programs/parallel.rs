//! Threads and BLAS.

use crate::programs;

programs! {
    patience 60;

    pthreads needs "command -v gcc" prepare "gcc -O2 -pthread $FIXTURES/crew.c -o crew"
        command "../crew 8 50000"

    tcmalloc needs "LD_PRELOAD=libtcmalloc_minimal.so.4 true 2>&1 | grep . && exit 1 || exit 0" prepare "gcc -O2 -pthread $FIXTURES/crew.c -o crew"
        command "env LD_PRELOAD=libtcmalloc_minimal.so.4 ../crew 8 20000"

    openmp needs "echo 'int main(){}' | gcc -fopenmp -x c - -o /dev/null"
        prepare "gcc -O2 -march=native -fopenmp $FIXTURES/openmp.c -o openmp -lm"
        command "../openmp"

    openblas needs "echo 'int main(){}' | gcc -x c - -lopenblas -o /dev/null"
        prepare "gcc -O2 $FIXTURES/product.c -o product -lopenblas"
        command "../product 300"
}
