//! Mnemonics with a memory behaviour or filler class that the operands alone do not determine.

use iced_x86::Mnemonic::{self, *};

/// Stores past the caches (write-combining direct stores too).
pub(super) const NON_TEMPORAL_STORES: &[Mnemonic] = &[
    Movntps,
    Movntpd,
    Movntdq,
    Movntq,
    Movnti,
    Movntss,
    Movntsd,
    Vmovntps,
    Vmovntpd,
    Vmovntdq,
    Maskmovq,
    Maskmovdqu,
    Vmaskmovdqu,
    Vmovnrapd,
    Vmovnraps,
    Vmovnrngoapd,
    Vmovnrngoaps,
    Movdiri,
    Movdir64b,
];

/// Hints that bring lines into a cache.
pub(super) const PREFETCHES: &[Mnemonic] = &[
    Prefetch,
    Prefetchit0,
    Prefetchit1,
    Prefetchnta,
    Prefetcht0,
    Prefetcht1,
    Prefetcht2,
    Prefetchw,
    Prefetchwt1,
    Vprefetch0,
    Vprefetch1,
    Vprefetch2,
    Vprefetche0,
    Vprefetche1,
    Vprefetche2,
    Vprefetchenta,
    Vprefetchnta,
    Vgatherpf0dpd,
    Vgatherpf0dps,
    Vgatherpf0hintdpd,
    Vgatherpf0hintdps,
    Vgatherpf0qpd,
    Vgatherpf0qps,
    Vgatherpf1dpd,
    Vgatherpf1dps,
    Vgatherpf1qpd,
    Vgatherpf1qps,
    Vscatterpf0dpd,
    Vscatterpf0dps,
    Vscatterpf0hintdpd,
    Vscatterpf0hintdps,
    Vscatterpf0qpd,
    Vscatterpf0qps,
    Vscatterpf1dpd,
    Vscatterpf1dps,
    Vscatterpf1qpd,
    Vscatterpf1qps,
];

/// Name an address but read and write no data there.
pub(super) const NO_DATA: &[Mnemonic] = &[
    Lea,
    Nop,
    Reservednop,
    Clflush,
    Clflushopt,
    Clwb,
    Cldemote,
    Clevict0,
    Clevict1,
    Invlpg,
    Umonitor,
    Endbr32,
    Endbr64,
];

/// AVX and AVX2 moves masked by the second operand's sign bits: (mnemonic, element bytes).
pub(super) const SIGN_MASKED: &[(Mnemonic, u8)] =
    &[(Vmaskmovps, 4), (Vmaskmovpd, 8), (Vpmaskmovd, 4), (Vpmaskmovq, 8), (Maskmovdqu, 1), (Vmaskmovdqu, 1)];

/// The memory operand is not divided into the lanes that the mask acts on: it is read whole.
pub(super) const READS_WHOLE_OPERAND: &[Mnemonic] = &[
    Vbroadcastf32x2,
    Vbroadcastf32x4,
    Vbroadcastf32x8,
    Vbroadcastf64x2,
    Vbroadcastf64x4,
    Vbroadcasti32x2,
    Vbroadcasti32x4,
    Vbroadcasti32x8,
    Vbroadcasti64x2,
    Vbroadcasti64x4,
    Vbroadcastsd,
    Vbroadcastss,
    Vpbroadcastb,
    Vpbroadcastw,
    Vpbroadcastd,
    Vpbroadcastq,
    Vinsertf32x4,
    Vinsertf32x8,
    Vinsertf64x2,
    Vinsertf64x4,
    Vinserti32x4,
    Vinserti32x8,
    Vinserti64x2,
    Vinserti64x4,
    Vmovddup,
];

/// Shifts by one count for all lanes: a memory operand in third place is that count.
pub(super) const SHIFTS_BY_COUNT: &[Mnemonic] =
    &[Vpsllw, Vpslld, Vpsllq, Vpsraw, Vpsrad, Vpsraq, Vpsrlw, Vpsrld, Vpsrlq];

/// Bitwise logic on floating-point data.
pub(super) const FP_LOGIC: &[Mnemonic] = &[
    Andps, Andpd, Andnps, Andnpd, Orps, Orpd, Xorps, Xorpd, Vandps, Vandpd, Vandnps, Vandnpd, Vorps, Vorpd, Vxorps,
    Vxorpd, Fabs, Fchs,
];

/// Register moves of the general-purpose file, and x87 moves that name no operand.
pub(super) const REGISTER_MOVES: &[Mnemonic] = &[
    Mov, Movzx, Movsx, Movsxd, Movbe, Lea, Xchg, Bswap, Cbw, Cwde, Cdqe, Cwd, Cdq, Cqo, Lahf, Sahf, Cmova, Cmovae,
    Cmovb, Cmovbe, Cmove, Cmovg, Cmovge, Cmovl, Cmovle, Cmovne, Cmovno, Cmovnp, Cmovns, Cmovo, Cmovp, Cmovs, Seta,
    Setae, Setb, Setbe, Sete, Setg, Setge, Setl, Setle, Setne, Setno, Setnp, Setns, Seto, Setp, Sets, Fld1, Fldl2e,
    Fldl2t, Fldlg2, Fldln2, Fldpi, Fldz,
];
