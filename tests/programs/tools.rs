//! Compilers, compressors, a database, cryptography.

use crate::programs;

programs! {
    patience 90;

    gcc needs "command -v gcc" prepare "awk -f $FIXTURES/functions.awk -v n=60 >many.c"
        command "gcc -O2 -c ../many.c -o many.o"

    gzip needs "command -v gzip" prepare "awk -f $FIXTURES/lines.awk -v n=60000 >lines"
        command "bash -c 'gzip -9 -n -c ../lines >lines.gz && gzip -dc lines.gz | cksum'"

    xz needs "command -v xz" prepare "awk -f $FIXTURES/lines.awk -v n=60000 >lines"
        command "bash -c 'xz -T2 --block-size=1MiB -c ../lines >lines.xz && xz -T2 -dc lines.xz | cksum'"

    zstd needs "command -v zstd" prepare "awk -f $FIXTURES/lines.awk -v n=200000 >lines"
        command "bash -c 'zstd -q -T2 -9 -c ../lines >lines.zst && zstd -dc lines.zst | cksum'"

    sqlite needs "command -v sqlite3" prepare ""
        command "sqlite3 data.db '.read '$FIXTURES/orders.sql"

    openssl needs "command -v openssl" prepare "awk -f $FIXTURES/lines.awk -v n=60000 >lines; openssl genrsa -out key 2048"
        command "bash $FIXTURES/ciphers.sh ../lines ../key"

    sort needs "true" prepare "awk -f $FIXTURES/lines.awk -v n=100000 >lines"
        command "sort --parallel=2 -S 4M -k2,2n -k1,1 ../lines"
}
