//! Floating-point instructions that do no FLOPs: compare, min/max, convert, round, and those that split or scale the fields
//! of a number (`getexp`, `getmant`, `scalef`, `fixupimm`, `fpclass`, `range`, `reduce`). They count as `fp_instruction`.
//!
//! Moves, loads, shuffles, blends, broadcasts and logic of floating-point data (`fabs`, `fchs`, `andps` too) do not.

use iced_x86::Mnemonic::{self, *};

/// Rows of (packed, the mnemonics).
#[rustfmt::skip]
pub(super) const CONVERSION: &[(bool, &[Mnemonic])] = &[
    // compare one lane
    (false, &[
        Cmpss, Vcmpss, Vcmpsd, Vcmpsh, Comiss, Comisd, Vcomiss, Vcomisd, Vcomish, Ucomiss, Ucomisd, Vucomiss,
        Vucomisd, Vucomish, Vfpclassss, Vfpclasssd, Vfpclasssh,
    ]),
    // compare lanes
    (true, &[
        Cmpps, Cmppd, Vcmpps, Vcmppd, Vcmpph, Vfpclassps, Vfpclasspd, Vfpclassph, Pfcmpeq, Pfcmpge, Pfcmpgt,
        Vtestps, Vtestpd,
    ]),
    // min, max, range of one lane
    (false, &[
        Maxsd, Maxss, Minsd, Minss, Vmaxsd, Vmaxsh, Vmaxss, Vminsd, Vminsh, Vminss, Vrangess, Vrangesd,
    ]),
    // min, max, range of lanes
    (true, &[
        Maxpd, Maxps, Minpd, Minps, Vmaxpd, Vmaxph, Vmaxps, Vminpd, Vminph, Vminps, Pfmax, Pfmin, Vrangeps,
        Vrangepd, Vgmaxabsps, Vgmaxpd, Vgmaxps, Vgminpd, Vgminps,
    ]),
    // convert one lane
    (false, &[
        Cvtsd2si, Cvtsd2ss, Cvtsi2sd, Cvtsi2ss, Cvtss2sd, Cvtss2si, Cvttsd2si, Cvttss2si, Vcvtsd2sh, Vcvtsd2si,
        Vcvtsd2ss, Vcvtsd2usi, Vcvtsh2sd, Vcvtsh2si, Vcvtsh2ss, Vcvtsh2usi, Vcvtsi2sd, Vcvtsi2sh, Vcvtsi2ss,
        Vcvtss2sd, Vcvtss2sh, Vcvtss2si, Vcvtss2usi, Vcvttsd2si, Vcvttsd2usi, Vcvttsh2si, Vcvttsh2usi,
        Vcvttss2si, Vcvttss2usi, Vcvtusi2sd, Vcvtusi2sh, Vcvtusi2ss,
    ]),
    // convert lanes
    (true, &[
        Cvtdq2pd, Cvtdq2ps, Cvtpd2dq, Cvtpd2pi, Cvtpd2ps, Cvtpi2pd, Cvtpi2ps, Cvtps2dq, Cvtps2pd, Cvtps2pi,
        Cvttpd2dq, Cvttpd2pi, Cvttps2dq, Cvttps2pi, Vcvtdq2pd, Vcvtdq2ph, Vcvtdq2ps, Vcvtfxpntdq2ps,
        Vcvtfxpntpd2dq, Vcvtfxpntpd2udq, Vcvtfxpntps2dq, Vcvtfxpntps2udq, Vcvtfxpntudq2ps, Vcvtne2ps2bf16,
        Vcvtneebf162ps, Vcvtneeph2ps, Vcvtneobf162ps, Vcvtneoph2ps, Vcvtneps2bf16, Vcvtpd2dq, Vcvtpd2ph,
        Vcvtpd2ps, Vcvtpd2qq, Vcvtpd2udq, Vcvtpd2uqq, Vcvtph2dq, Vcvtph2pd, Vcvtph2ps, Vcvtph2psx, Vcvtph2qq,
        Vcvtph2udq, Vcvtph2uqq, Vcvtph2uw, Vcvtph2w, Vcvtps2dq, Vcvtps2pd, Vcvtps2ph, Vcvtps2phx, Vcvtps2qq,
        Vcvtps2udq, Vcvtps2uqq, Vcvtqq2pd, Vcvtqq2ph, Vcvtqq2ps, Vcvttpd2dq, Vcvttpd2qq, Vcvttpd2udq,
        Vcvttpd2uqq, Vcvttph2dq, Vcvttph2qq, Vcvttph2udq, Vcvttph2uqq, Vcvttph2uw, Vcvttph2w, Vcvttps2dq,
        Vcvttps2qq, Vcvttps2udq, Vcvttps2uqq, Vcvtudq2pd, Vcvtudq2ph, Vcvtudq2ps, Vcvtuqq2pd, Vcvtuqq2ph,
        Vcvtuqq2ps, Vcvtuw2ph, Vcvtw2ph, Vbcstnebf162ps, Vbcstnesh2ps, Pf2id, Pf2iw, Pi2fd, Pi2fw,
    ]),
    // round, or the fraction, exponent or mantissa of one lane
    (false, &[
        Roundsd, Roundss, Vroundsd, Vroundss, Vrndscalesd, Vrndscalesh, Vrndscaless, Vreducesd, Vreducesh,
        Vreducess, Vscalefsd, Vscalefsh, Vscalefss, Vgetexpsd, Vgetexpsh, Vgetexpss, Vgetmantsd, Vgetmantsh,
        Vgetmantss, Vfixupimmsd, Vfixupimmss, Vfrczss, Vfrczsd,
    ]),
    // the same of lanes
    (true, &[
        Roundpd, Roundps, Vroundpd, Vroundps, Vrndscalepd, Vrndscaleph, Vrndscaleps, Vrndfxpntpd, Vrndfxpntps,
        Vreducepd, Vreduceph, Vreduceps, Vscalefpd, Vscalefph, Vscalefps, Vscaleps, Vgetexppd, Vgetexpph,
        Vgetexpps, Vgetmantpd, Vgetmantph, Vgetmantps, Vfixupimmpd, Vfixupimmps, Vfixupnanpd, Vfixupnanps,
        Vfrczps, Vfrczpd,
    ]),
    // x87: compare, round, scale, split, to and from integers and decimals
    (false, &[
        Fcom, Fcomi, Fcomip, Fcomp, Fcompp, Ficom, Ficomp, Fucom, Fucomi, Fucomip, Fucomp, Fucompp, Ftst, Fxam,
        Frndint, Frint2, Frichop, Frinear, Fscale, Fxtract, Fild, Fist, Fistp, Fisttp, Fbld, Fbstp,
    ]),
];
