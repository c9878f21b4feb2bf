use super::*;
use proptest::prelude::*;

fn mask() -> Mask {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    Mask::new(
        &own(&["spark-7f3a.lab.example.com", "spark-7f3a", "vm"]),
        &own(&["alice", "bo", "/srv/people/alice", "ubuntu", "1000"]),
    )
}

/// What must not be in a recording, each with a text that a file may hold.
const PLANTED: &[(&str, &str)] = &[
    ("spark-7f3a", "VARIANT=\"image of spark-7f3a\""),
    ("spark-7f3a", "VARIANT=SPARK-7F3A_root"),
    ("lab.example", "HOME_URL=\"http://spark-7f3a.lab.example.com/x\""),
    ("alice", "built by alice"),
    ("alice", "x=alicesbox"),
    ("bo", "for bo, with love"),
    ("people", "TemporaryFilePath: \"/srv/people/alice/tmp\""),
    ("carol", "TemporaryFilePath: \"/home/carol/tmp\""),
    ("dave", "/Users/dave and more"),
    ("carol", "NVRM version: x (carol@build-7)"),
    ("build-7", "NVRM version: x (carol@build-7)"),
    ("hunter2", "URL=\"https://carol:hunter2@intranet/x\""),
    ("intranet", "URL=\"https://carol:hunter2@intranet/x\""),
    ("192.168.7.31", "SUPPORT_URL=\"http://192.168.7.31:8080/\""),
    ("203.0.113.9", "ip=203.0.113.9."),
    ("2001:db8", "[2001:db8::17]:443"),
    ("fe80", "fe80::a8bb:ccff:fedd:eeff%eth0"),
    ("aa:bb:cc", "mac aa:bb:cc:dd:ee:0f,"),
    ("AA-BB-CC", "mac=AA-BB-CC-DD-EE-0F"),
    ("1420724012345", "Spark 1420724012345"),
    ("MP2A9X71", "Serial Number: MP2A9X71"),
    ("MP2A9X71", "serial=MP2A9X71"),
    ("MJ0123456789", "board MJ0123456789"),
    ("1122334455", "enx001122334455"),
    ("0b7c2f1e-9a3d", "RegistryDwords: \"uuid=0b7c2f1e-9a3d-4c55-8f00-a1b2c3d4e5f6\""),
    ("0b7c2f1e-9a3d", "ExcludedGpus: GPU-0b7c2f1e-9a3d-4c55-8f00-a1b2c3d4e5f6,x"),
    ("hunter2", "password=hunter2"),
    ("hunter2", "RegistryDwords: \"db_password = 'hunter2';\""),
    ("hunter2", "PASSPHRASE: hunter2"),
    ("12345", "pin_token=12345"),
    ("hunter2", "run --password hunter2 now"),
    ("zzz", "Authorization: Bearer zzz"),
    ("abcdefgh", "hf_abcdefghijklmnopqrstuvwxyz"),
    ("9f86d081884c7d65", "x 9f86d081884c7d659a2feaa0c55ad015"),
    ("QmFzZTY0IHNl", "x QmFzZTY0IHNlY3JldCB0aGF0IGlzIGxvbmc3MQ=="),
    ("ab12", "API_KEY=\"ab12\""),
];

#[test]
fn nothing_planted_survives_in_any_file_of_free_text() {
    for path in [
        "/etc/os-release",
        "/sys/class/dmi/id/product_name",
        "/proc/driver/nvidia/params",
        "/proc/driver/nvidia/version",
        "/sys/class/hwmon/hwmon0/name",
        "/sys/class/thermal/thermal_zone0/device/path",
    ] {
        for (secret, text) in PLANTED {
            let mut mask = mask();
            let masked = mask.file(path, &format!("{text}\n"));
            let told = masked.to_lowercase().contains(&secret.to_lowercase());
            assert!(!told, "{path}: {text:?} became {masked:?}");
            assert!(mask.counts().count() > 0, "{text:?} was not counted");
            assert!(masked.ends_with('\n') && masked.lines().count() == 1);
            assert_eq!(mask.file(path, &masked), masked, "masking again changes nothing");
        }
    }
}

#[test]
fn nothing_planted_survives_in_what_the_gpu_says_or_in_remarks() {
    for (secret, text) in PLANTED {
        let masked = [mask().gpu("0.name", text), mask().line(text)];
        for masked in masked {
            assert!(!masked.to_lowercase().contains(&secret.to_lowercase()), "{masked:?}");
        }
    }
}

#[test]
fn addresses_and_secrets_are_found_even_where_only_the_kernel_writes() {
    let mut mask = mask();
    for text in ["x 192.168.7.31\n", "token=hunter2\n", "aa:bb:cc:dd:ee:0f\n"] {
        assert_ne!(mask.file("/proc/vmstat", text), text);
    }
    // A user may be called like a zone.
    let mut mask = Mask::new(&["DMA32".to_owned()], &["Normal".to_owned()]);
    let text = "Node 0, zone   Normal  28000  14764 123456789012\n";
    assert_eq!(mask.file("/proc/buddyinfo", text), text);
}

#[test]
fn identities_are_numbered_the_same_for_the_same_one() {
    let mut mask = mask();
    let real = "GPU-0b7c2f1e-9a3d-4c55-8f00-a1b2c3d4e5f6";
    let first = mask.gpu("0.uuid", real);
    assert_eq!(first, "GPU-00000000-0000-0000-0000-000000000001");
    let second = mask.gpu("1.uuid", "GPU-1b7c2f1e-9a3d-4c55-8f00-a1b2c3d4e5f6");
    assert_eq!(second, "GPU-00000000-0000-0000-0000-000000000002");
    let file = mask.file("/proc/driver/nvidia/params", &format!("ExcludedGpus: \"{real}\"\n"));
    assert_eq!(file, format!("ExcludedGpus: \"{first}\"\n"));
    let boot = mask.file(BOOT_ID, "93806268-e6a7-496c-8a62-68e9b3861c18\n");
    assert_eq!(boot, "00000000-0000-0000-0000-000000000003\n");
    assert_eq!(mask.file(BOOT_ID, "not a uuid\n"), "00000000-0000-0000-0000-000000000004\n");
    assert_eq!(mask.gpu("0.uuid", "!999"), "!999");
    assert_eq!(mask.gpu("0.uuid", "~900 !4"), "~900 !4", "a delay before a refusal");
}

#[test]
fn what_says_nothing_about_anybody_stays() {
    for (path, text) in [
        (
            "/etc/os-release",
            "ID=ubuntu\nVERSION_ID=\"24.04\"\nHOME_URL=\"https://www.ubuntu.com/\"\n",
        ),
        ("/sys/class/dmi/id/bios_version", "5.36_0ACUM018\n"),
        ("/sys/class/dmi/id/bios_version", "rel-1.16.3-0-ga6ed6b701f0a-prebuilt.qemu.org\n"),
        ("/sys/class/dmi/id/bios_version", "1.7.3.2\n"),
        ("/proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2\n"),
        (
            "/proc/driver/nvidia/params",
            "DynamicPowerManagementKey: 3\nMask: 18446744073709551615\n",
        ),
        ("/proc/swaps", "Filename\tType\tSize\n/dev/nvme0n1p3 partition\t16777212\t0\t-2\n"),
        ("/proc/swaps", "/swap.img                               file\t\t16777212\t54000\t\t-2\n"),
        ("/sys/class/thermal/thermal_zone0/device/path", "\\_SB_.TSOC\n"),
    ] {
        let mut mask = mask();
        assert_eq!(mask.file(path, text), text);
        assert_eq!(mask.counts().count(), 0);
    }
    for (key, value) in [
        ("driver", "580.173.02"),
        ("nvml", "13.580.173.02"),
        ("0.bus", "0000000F:01:00.0"),
        ("0.vbios", "9A.0B.0F.00.1D"),
        ("0.processes.compute", "98311:93420781568,98590:NA"),
        ("0.energy_mj", "19844120377"),
    ] {
        assert_eq!(mask().gpu(key, value), value);
    }
}

#[test]
fn swap_files_that_somebody_has_named_lose_their_names() {
    let mut mask = mask();
    let masked = mask.file("/proc/swaps", "/mnt/my\\040secret/swap file\t\t16777212\t0\t-2\n");
    assert_eq!(masked, "/swap file\t\t16777212\t0\t-2\n");
    assert_eq!(mask.counts().collect::<Vec<_>>(), [("paths", 1)]);
}

#[test]
fn a_name_in_a_line_is_what_finds_it_again() {
    let mut mask = Mask::new(&[], &["memory".to_owned()]);
    let text = "EnableSystemMemoryPools: 529\n";
    assert_eq!(mask.file("/proc/driver/nvidia/params", text), text);
    assert_eq!(mask.file("/sys/class/dmi/id/board_name", "Memory\n"), "user\n");
}

#[test]
fn off_means_off() {
    let mut mask = Mask::off();
    for (_, text) in PLANTED {
        assert_eq!(mask.file("/etc/os-release", text), *text);
        assert_eq!(mask.gpu("0.name", text), *text);
    }
    assert_eq!(mask.counts().count(), 0);
}

/// A line of `/proc/stat` holds a number for each of many thousands of interrupts.
#[test]
fn a_long_line_is_no_work() {
    let text = format!("intr {}\n", "0 ".repeat(100_000));
    assert_eq!(mask().file("/proc/stat", &text), text);
}

proptest! {
    #[test]
    fn no_text_panics_and_lines_stay_lines(text in "(?s).{0,80}", odd in "[a-f0-9:.@=/ \\-\\n\"keyé]{0,80}") {
        let lines = |text: &str| text.matches('\n').count();
        for text in [text, odd] {
            for path in ["/etc/os-release", "/proc/swaps", "/proc/stat", "/proc/driver/nvidia/params"] {
                prop_assert_eq!(lines(&mask().file(path, &text)), lines(&text));
            }
            prop_assert_eq!(lines(&mask().line(&text)), 0);
        }
    }
}
