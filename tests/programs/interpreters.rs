//! Shells and interpreters.

use crate::programs;

programs! {
    patience 60;

    bash_pipeline needs "true" prepare ""
        command "bash -c 'for i in {1..200}; do echo $((i * i % 97)) $i; done | sort -k1n,1 -k2n,2 | (read a; read b; echo $a $b; cat | tail -n 3; exit 3)'"

    bash_subshells needs "true" prepare ""
        command "bash $FIXTURES/subshells.sh"

    perl needs "perl -e 1" prepare ""
        command "perl $FIXTURES/words.pl"

    python needs "/usr/bin/python3 -c 'import json, zlib, sqlite3'" prepare ""
        command "/usr/bin/python3 $FIXTURES/plain.py"

    python_numpy needs "/usr/bin/python3 -c 'import numpy'" prepare ""
        command "/usr/bin/python3 $FIXTURES/algebra.py 120"

    lua needs "command -v lua5.4" prepare ""
        command "lua5.4 $FIXTURES/closures.lua"
}
