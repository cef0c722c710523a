//! Messages laid out as the kernel's nldev does, and damaged ones. No adapter is needed.

use super::*;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((16 + body.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([2, 0]); // NLM_F_MULTI
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// One queue pair; `port` and `pid` may be missing, as they are for a device's and for the kernel's own.
fn entry(port: Option<u32>, pid: Option<u32>) -> Vec<u8> {
    let mut inner = Vec::new();
    inner.extend(port.map(|port| attribute(ATTR_PORT_INDEX, &port.to_ne_bytes())).unwrap_or_default());
    inner.extend(attribute(21, &77_u32.to_ne_bytes())); // number of the queue pair
    inner.extend(attribute(26, &[2])); // RC
    inner.extend(match pid {
        Some(pid) => attribute(ATTR_RES_PID, &pid.to_ne_bytes()),
        None => attribute(29, b"ib_core\0"),
    });
    attribute(ATTR_RES_QP_ENTRY | 0x8000, &inner)
}

fn table(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut body = attribute(ATTR_DEV_INDEX, &3_u32.to_ne_bytes());
    body.extend(attribute(ATTR_DEV_NAME, b"mlx5_1\0"));
    body.extend(attribute(ATTR_RES_QP | 0x8000, &entries.concat()));
    body
}

#[test]
fn ports_by_process_with_the_busiest_first() {
    let entries = [
        entry(Some(1), None),
        entry(Some(2), Some(40)),
        entry(Some(1), Some(41)),
        entry(Some(1), Some(40)),
        entry(Some(1), Some(40)),
        entry(None, Some(40)),
        entry(Some(1), Some(0)),
    ];
    let mut data = message(CMD_RES_QP_GET, &table(&entries));
    data.extend(message(CMD_RES_QP_GET, &table(&[entry(Some(1), Some(41))])));
    let mut counts = Counts::default();
    let more = read_messages(&data, CMD_RES_QP_GET, &mut |body| {
        assert_eq!(device(body), Some((3, "mlx5_1".to_owned())));
        queue_pairs(body, &mut |port, pid| counts.add("mlx5_1", port, pid));
    });
    assert!(!more.unwrap(), "no end yet");
    let ports = counts.ports();
    assert_eq!(ports[&40], ["mlx5_1/1", "mlx5_1/2"]);
    assert_eq!(ports[&41], ["mlx5_1/1"]);
    assert_eq!(ports.len(), 2, "the kernel's own have no process");
}

#[test]
fn ends_and_errors() {
    let read = |data: &[u8]| read_messages(data, CMD_GET, &mut |_| {});
    assert!(read(&message(NLMSG_DONE, &[0; 4])).unwrap());
    let refused = read(&message(NLMSG_ERROR, &(-1_i32).to_ne_bytes())).unwrap_err();
    assert_eq!(reason(&refused), "no_permission");
    assert!(read(&message(NLMSG_ERROR, &0_i32.to_ne_bytes())).unwrap());
    assert_eq!(reason(&io::Error::from_raw_os_error(nix::libc::EOPNOTSUPP)), "not_supported");
    assert_eq!(reason(&read(&[1, 2, 3]).unwrap_err()), "not_understood");
    let mut long = message(CMD_GET, &[]);
    long[0] = 200;
    assert_eq!(reason(&read(&long).unwrap_err()), "not_understood");
}

#[test]
fn damaged_attributes_end_the_reading_and_nothing_else() {
    let whole = table(&[entry(Some(1), Some(40)), entry(Some(2), Some(41))]);
    for length in 0..whole.len() {
        queue_pairs(&whole[..length], &mut |port, pid| assert!(port <= 2 && pid <= 41));
        let _ = device(&whole[..length]);
    }
    queue_pairs(&attribute(ATTR_RES_QP, &[0; 8]), &mut |_, _| panic!("nothing is there"));
}

#[test]
fn requests_are_as_the_kernel_wants_them() {
    let all = request(CMD_GET, None);
    assert_eq!((u32_at(&all, 0), u16_at(&all, 4), u16_at(&all, 6)), (Some(16), Some(0x1401), Some(0x301)));
    let one = request(CMD_RES_QP_GET, Some(3));
    assert_eq!((one.len(), u16_at(&one, 4)), (24, Some(0x140a)));
    let attributes: Vec<_> = Attributes(&one[16..]).collect();
    assert_eq!(attributes, [(ATTR_DEV_INDEX, &3_u32.to_ne_bytes()[..])]);
}

/// Whatever this machine has: an answer or a reason, and soon.
#[test]
fn this_machine_answers_or_says_why_not() {
    match ports_of_processes() {
        Ok(ports) => assert!(ports.values().flatten().all(|port| port.contains('/'))),
        Err(why) => {
            let known = ["no_adapters", "not_supported", "no_permission", "no_answer"];
            assert!(known.contains(&why), "{why}");
        }
    }
}
