//! Logs that are cut off, or have records of an unknown kind.

use rprof::device::Log;

#[test]
fn damaged_logs_say_so_and_keep_what_came_before() {
    let whole = {
        let mut bytes = b"RPROFGP\x01".to_vec();
        let mut put = |kind: u32, content: &[u8]| {
            bytes.extend(kind.to_ne_bytes());
            bytes.extend((content.len() as u32).to_ne_bytes());
            bytes.extend(content);
        };
        put(2, &[&7u32.to_ne_bytes()[..], b"kernel"].concat());
        put(
            6,
            &[
                &1u64.to_ne_bytes()[..],
                &2u64.to_ne_bytes(),
                &4u32.to_ne_bytes(),
                &0u32.to_ne_bytes(),
                &0u32.to_ne_bytes(),
            ]
            .concat(),
        );
        bytes
    };
    assert_eq!(Log::parse(&whole).records.len(), 2);
    for cut in 9..whole.len() {
        let log = Log::parse(&whole[..cut]);
        assert!(log.records.len() < 2);
        assert!(log.damage.is_some() || log.records.len() == 1, "cut at {cut}: {log:?}");
    }
    assert!(Log::parse(b"").damage.is_some());
    assert!(Log::parse(b"no log at all").damage.is_some());
    let mut strange = whole.clone();
    strange.extend([99, 0, 0, 0, 0, 0, 0, 0]);
    let log = Log::parse(&strange);
    assert_eq!(log.records.len(), 2);
    assert!(log.damage.unwrap().to_string().contains("kind 99"));
}
