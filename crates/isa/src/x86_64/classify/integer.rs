//! Which instructions do integer operations, and how many: ordered data, the first row that names a mnemonic holds.
//!
//! Add, subtract, multiply, divide, shift, compare, logic: 1 per lane; sums of products, differences or horizontal adds: each of their
//! multiplies, subtractions and adds. Bitwise logic without an element size counts in 64-bit words. Address arithmetic, `lea`,
//! moves, conversions, shuffles (byte shifts of a whole register too) and jumps: 0.

use iced_x86::Mnemonic::{self, *};

use super::arithmetic::Lanes;
use Lanes::{One, Vector};

/// int_ops = lanes × per_lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntegerWork {
    pub lanes: Lanes,
    pub per_lane: u32,
}

/// Rows of (work of one lane, the mnemonics that do it).
#[rustfmt::skip]
pub(super) const INTEGER: &[(IntegerWork, &[Mnemonic])] = &[
    // add eax, 1  →  1
    (row(One, 1), &[
        Add, Sub, Adc, Sbb, Inc, Dec, Neg, Cmp, Test, And, Or, Xor, Not, Mul, Imul, Mulx, Div, Idiv, Adcx,
        Adox, Xadd, Cmpxchg, Cmpxchg8b, Cmpxchg16b, Aadd, Aand, Aor, Axor, Cmpbexadd, Cmpbxadd, Cmplexadd,
        Cmplxadd, Cmpnbexadd, Cmpnbxadd, Cmpnlexadd, Cmpnlxadd, Cmpnoxadd, Cmpnpxadd, Cmpnsxadd, Cmpnzxadd,
        Cmpoxadd, Cmppxadd, Cmpsxadd, Cmpzxadd,
    ]),
    // shl eax, 1; popcnt eax, ebx; bt eax, 1  →  1
    (row(One, 1), &[
        Shl, Sal, Shr, Sar, Rol, Ror, Rcl, Rcr, Shld, Shrd, Shlx, Shrx, Sarx, Rorx, Bt, Btc, Btr, Bts, Bsf,
        Bsr, Lzcnt, Tzcnt, Tzcnti, Popcnt, Andn, Bextr, Blsi, Blsr, Blsmsk, Bzhi, Pdep, Pext, Crc32, Blcfill,
        Blci, Blcic, Blcmsk, Blcs, Blsfill, Blsic, T1mskc, Tzmsk,
    ]),
    // cmpsb; scasb  →  1 an iteration
    (row(One, 1), &[
        Cmpsb, Cmpsw, Cmpsd, Cmpsq, Scasb, Scasw, Scasd, Scasq,
    ]),
    // kandw k1, k2, k3  →  1
    (row(One, 1), &[
        Kaddb, Kaddd, Kaddq, Kaddw, Kand, Kandb, Kandd, Kandn, Kandnb, Kandnd, Kandnq, Kandnr, Kandnw, Kandq,
        Kandw, Knot, Knotb, Knotd, Knotq, Knotw, Kor, Korb, Kord, Korq, Kortest, Kortestb, Kortestd, Kortestq,
        Kortestw, Korw, Kshiftlb, Kshiftld, Kshiftlq, Kshiftlw, Kshiftrb, Kshiftrd, Kshiftrq, Kshiftrw, Ktestb,
        Ktestd, Ktestq, Ktestw, Kxnor, Kxnorb, Kxnord, Kxnorq, Kxnorw, Kxor, Kxorb, Kxord, Kxorq, Kxorw,
    ]),
    // vpaddb zmm1, zmm2, zmm3  →  64
    (row(Vector(1), 1), &[
        Paddb, Vpaddb, Paddsb, Vpaddsb, Paddusb, Vpaddusb, Psubb, Vpsubb, Psubsb, Vpsubsb, Psubusb, Vpsubusb,
        Pavgb, Vpavgb, Pavgusb, Pabsb, Vpabsb, Psignb, Vpsignb, Pmaxsb, Vpmaxsb, Pmaxub, Vpmaxub, Pminsb,
        Vpminsb, Pminub, Vpminub, Pcmpeqb, Vpcmpeqb, Pcmpgtb, Vpcmpgtb, Gf2p8mulb, Vgf2p8mulb, Gf2p8affineqb,
        Vgf2p8affineqb, Gf2p8affineinvqb, Vgf2p8affineinvqb, Vpcmpb, Vpcmpub, Vptestmb, Vptestnmb, Vpopcntb,
        Vpmultishiftqb, Vpshufbitqmb, Vpcomb, Vpcomub, Vprotb, Vpshab, Vpshlb,
    ]),
    // vpaddw zmm1, zmm2, zmm3  →  32
    (row(Vector(2), 1), &[
        Paddw, Vpaddw, Paddsw, Vpaddsw, Paddusw, Vpaddusw, Psubw, Vpsubw, Psubsw, Vpsubsw, Psubusw, Vpsubusw,
        Pavgw, Vpavgw, Pabsw, Vpabsw, Psignw, Vpsignw, Pmaxsw, Vpmaxsw, Pmaxuw, Vpmaxuw, Pminsw, Vpminsw,
        Pminuw, Vpminuw, Pcmpeqw, Vpcmpeqw, Pcmpgtw, Vpcmpgtw, Pmullw, Vpmullw, Pmulhw, Vpmulhw, Pmulhuw,
        Vpmulhuw, Pmulhrsw, Vpmulhrsw, Pmulhrw, Psllw, Vpsllw, Psraw, Vpsraw, Psrlw, Vpsrlw, Phaddw, Vphaddw,
        Phaddsw, Vphaddsw, Phsubw, Vphsubw, Phsubsw, Vphsubsw, Vpcmpw, Vpcmpuw, Vptestmw, Vptestnmw, Vpopcntw,
        Vpsllvw, Vpsravw, Vpsrlvw, Vpshldw, Vpshrdw, Vpshldvw, Vpshrdvw, Vpcomw, Vpcomuw, Vprotw, Vpshaw,
        Vpshlw, Vphaddbw, Vphaddubw, Vphsubbw, Paddsiw, Psubsiw, Pmulhriw, Pmagw,
    ]),
    // vpaddd zmm1, zmm2, zmm3  →  16
    (row(Vector(4), 1), &[
        Paddd, Vpaddd, Psubd, Vpsubd, Pabsd, Vpabsd, Psignd, Vpsignd, Pmaxsd, Vpmaxsd, Pmaxud, Vpmaxud, Pminsd,
        Vpminsd, Pminud, Vpminud, Pcmpeqd, Vpcmpeqd, Pcmpgtd, Vpcmpgtd, Pmulld, Vpmulld, Pslld, Vpslld, Psrad,
        Vpsrad, Psrld, Vpsrld, Phaddd, Vphaddd, Phsubd, Vphsubd, Vpcmpd, Vpcmpud, Vpcmpltd, Vptestmd,
        Vptestnmd, Vpopcntd, Vplzcntd, Vpconflictd, Vp2intersectd, Vpsllvd, Vpsravd, Vpsrlvd, Vprold, Vprolvd,
        Vprord, Vprorvd, Vpshldd, Vpshrdd, Vpshldvd, Vpshrdvd, Vpandd, Vpandnd, Vpord, Vpxord, Vpternlogd,
        Vpcomd, Vpcomud, Vprotd, Vpshad, Vpshld, Vphaddwd, Vphadduwd, Vphsubwd, Vpmulhd, Vpmulhud, Vpadcd,
        Vpaddsetcd, Vpaddsetsd, Vpsbbd, Vpsbbrd, Vpsubrd, Vpsubrsetbd, Vpsubsetbd,
    ]),
    // vpaddq zmm1, zmm2, zmm3  →  8
    (row(Vector(8), 1), &[
        Paddq, Vpaddq, Psubq, Vpsubq, Pcmpeqq, Vpcmpeqq, Pcmpgtq, Vpcmpgtq, Pmuldq, Vpmuldq, Pmuludq, Vpmuludq,
        Psllq, Vpsllq, Psrlq, Vpsrlq, Vpabsq, Vpmaxsq, Vpmaxuq, Vpminsq, Vpminuq, Vpcmpq, Vpcmpuq, Vptestmq,
        Vptestnmq, Vpopcntq, Vplzcntq, Vpconflictq, Vp2intersectq, Vpmullq, Vpsraq, Vpsllvq, Vpsravq, Vpsrlvq,
        Vprolq, Vprolvq, Vprorq, Vprorvq, Vpshldq, Vpshrdq, Vpshldvq, Vpshrdvq, Vpandq, Vpandnq, Vporq, Vpxorq,
        Vpternlogq, Vpcomq, Vpcomuq, Vprotq, Vpshaq, Vpshlq, Vphadddq, Vphaddudq, Vphsubdq,
    ]),
    // pxor xmm1, xmm2  →  2 words of 64 bits
    (row(Vector(8), 1), &[
        Pand, Vpand, Pandn, Vpandn, Por, Vpor, Pxor, Vpxor, Ptest, Vptest, Vpcmov,
    ]),
    // vpmaddwd zmm1, zmm2, zmm3  →  16 × (2 mul, 1 add)
    (row(Vector(4), 3), &[
        Pmaddwd, Vpmaddwd,
    ]),
    // vpmaddubsw zmm1, zmm2, zmm3  →  32 × (2 mul, 1 add)
    (row(Vector(2), 3), &[
        Pmaddubsw, Vpmaddubsw,
    ]),
    // vpdpwssd zmm1, zmm2, zmm3  →  16 × (2 mul, 2 add)
    (row(Vector(4), 4), &[
        Vpdpwssd, Vpdpwssds, Vpdpwsud, Vpdpwsuds, Vpdpwusd, Vpdpwusds, Vpdpwuud, Vpdpwuuds, Vpmadcswd,
        Vpmadcsswd,
    ]),
    // vpdpbusd zmm1, zmm2, zmm3  →  16 × (4 mul, 4 add)
    (row(Vector(4), 8), &[
        Vpdpbssd, Vpdpbssds, Vpdpbsud, Vpdpbsuds, Vpdpbusd, Vpdpbusds, Vpdpbuud, Vpdpbuuds,
    ]),
    // vp4dpwssd zmm1, zmm2+3, m128  →  16 × 4 × (2 mul, 2 add)
    (row(Vector(4), 16), &[
        Vp4dpwssd, Vp4dpwssds,
    ]),
    // vpmadd52luq zmm1, zmm2, zmm3  →  8 × (mul, add)
    (row(Vector(8), 2), &[
        Vpmadd52luq, Vpmadd52huq, Vpmacsdqh, Vpmacsdql, Vpmacssdqh, Vpmacssdql,
    ]),
    // vpmacsdd xmm1, xmm2, xmm3, xmm4  →  4 × (mul, add)
    (row(Vector(4), 2), &[
        Vpmacsdd, Vpmacssdd, Vpmacswd, Vpmacsswd, Vpmadd231d, Vpmadd233d,
    ]),
    // vpmacsww xmm1, xmm2, xmm3, xmm4  →  8 × (mul, add)
    (row(Vector(2), 2), &[
        Vpmacsww, Vpmacssww,
    ]),
    // vphaddbd xmm1, xmm2  →  4 × 3 adds
    (row(Vector(4), 3), &[
        Vphaddbd, Vphaddubd,
    ]),
    // vphaddwq xmm1, xmm2  →  2 × 3 adds
    (row(Vector(8), 3), &[
        Vphaddwq, Vphadduwq,
    ]),
    // vphaddbq xmm1, xmm2  →  2 × 7 adds
    (row(Vector(8), 7), &[
        Vphaddbq, Vphaddubq,
    ]),
    // psadbw xmm1, xmm2  →  2 × (8 differences, 7 adds)
    (row(Vector(8), 15), &[
        Psadbw, Vpsadbw,
    ]),
    // mpsadbw xmm1, xmm2, imm8  →  8 × (4 differences, 3 adds)
    (row(Vector(2), 7), &[
        Mpsadbw, Vmpsadbw, Vdbpsadbw,
    ]),
    // pdistib mm0, m64  →  8 × (difference, add)
    (row(Vector(1), 2), &[
        Pdistib,
    ]),
    // pmachriw mm0, m64  →  4 × (mul, add)
    (row(Vector(2), 2), &[
        Pmachriw,
    ]),
    // paveb mm0, mm1  →  8
    (row(Vector(1), 1), &[
        Paveb,
    ]),
    // phminposuw xmm1, xmm2  →  7 compares
    (row(One, 7), &[
        Phminposuw, Vphminposuw,
    ]),
    // pcmpistri xmm1, xmm2, imm8  →  16 compares
    (row(Vector(1), 1), &[
        Pcmpestri, Vpcmpestri, Pcmpestri64, Vpcmpestri64, Pcmpestrm, Vpcmpestrm, Pcmpestrm64, Vpcmpestrm64,
        Pcmpistri, Vpcmpistri, Pcmpistrm, Vpcmpistrm,
    ]),
    // vaesenc zmm1, zmm2, zmm3  →  1 per 128 bits
    (row(Vector(16), 1), &[
        Aesdec, Vaesdec, Aesdeclast, Vaesdeclast, Aesenc, Vaesenc, Aesenclast, Vaesenclast, Aesimc, Vaesimc,
        Aeskeygenassist, Vaeskeygenassist, Pclmulqdq, Vpclmulqdq, Sha1msg1, Sha1msg2, Sha1nexte, Sha1rnds4,
        Sha256msg1, Sha256msg2, Sha256rnds2, Vsm3msg1, Vsm3msg2, Vsm3rnds2, Vsm4key4, Vsm4rnds4, Vsha512msg1,
        Vsha512msg2, Vsha512rnds2,
    ]),
    // tdpbssd tmm1, tmm2, tmm3  →  16 × 16 × 64 multiply-adds of full tiles
    (row(One, 32768), &[
        Tdpbssd, Tdpbsud, Tdpbusd, Tdpbuud,
    ]),
];

const fn row(lanes: Lanes, per_lane: u32) -> IntegerWork {
    IntegerWork { lanes, per_lane }
}
