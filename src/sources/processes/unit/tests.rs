use super::*;
use proptest::prelude::*;

const HEX: &str = "4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192";

fn named(path: &str, ids: bool) -> String {
    let rules = UnitRules { container_ids: ids, map: Vec::new() };
    unit(&format!("0::{}\n", path.replace("HEX", HEX)), &rules).name.to_string()
}

#[test]
fn names_do_not_change_with_a_restart() {
    let rows = [
        ("/system.slice/vllm.service", "vllm"),
        ("/system.slice/system-vllm.slice/vllm@2.service", "vllm@2"),
        ("/system.slice/vllm.service/workers", "vllm"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/ollama.service", "ollama"),
        ("/system.slice/run-u123.service", "run"),
        ("/system.slice/run-r0123abcd4567ef890123abcd4567ef89.service", "run"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/run-p123-i456.scope", "run"),
        ("/system.slice/run-parts.service", "run-parts"),
        ("/user.slice/user-1000.slice/session-3.scope", "user-1000"),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", "user-1000"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-1234.scope",
            "app",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/tmux-spawn-0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e.scope",
            "user-1000",
        ),
        ("/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", "machine"),
        ("/system.slice/llama\\x2dserver.service", "llama-server"),
        ("/system.slice/a\\x2fb.service", "a_b"),
        ("/system.slice/a\\xzz.service", "a_xzz"),
        ("/system.slice/snap.ollama.listener.service", "snap.ollama.listener"),
        ("/system.slice/job-0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e-main.service", "job-main"),
        ("/system.slice/docker.service", "docker"),
        ("/system.slice/vllm.service (deleted)", "vllm"),
        ("/init.scope", "init"),
        ("/", "root"),
        ("/../../system.slice/vllm.service", "vllm"),
        ("/lxc.payload.box1/system.slice/vllm.service", "lxc"),
        ("/lxc/box1", "lxc"),
        ("/slurm/uid_1000/job_1234567890/task", "task"),
        ("/batch/job_1234567890", "job"),
        ("/batch/1234567890", "batch"),
        ("/1234567890", "unknown"),
        ("/system.slice/other.service", "other_"),
    ];
    for (path, expected) in rows {
        assert_eq!(named(path, false), expected, "{path}");
    }
}

#[test]
fn containers_are_known_by_their_runtime_or_by_their_id() {
    let rows = [
        ("/system.slice/docker-HEX.scope", "docker", "docker-4f5a6b7c8d9e"),
        ("/system.slice/docker-HEX.scope/init.scope", "docker", "docker-4f5a6b7c8d9e"),
        ("/docker/HEX", "docker", "docker-4f5a6b7c8d9e"),
        ("/docker/HEX/system.slice/vllm.service", "docker", "docker-4f5a6b7c8d9e"),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-HEX.scope/container",
            "podman",
            "podman-4f5a6b7c8d9e",
        ),
        ("/libpod_parent/libpod-HEX", "podman", "podman-4f5a6b7c8d9e"),
        ("/machine.slice/libpod-conmon-HEX.scope", "podman", "podman-4f5a6b7c8d9e"),
        ("/system.slice/cri-containerd-HEX.scope", "containerd", "containerd-4f5a6b7c8d9e"),
        ("/system.slice/crio-HEX.scope", "crio", "crio-4f5a6b7c8d9e"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1c2d3e_4f5a_6b7c_8d9e_0f1a2b3c4d5e.slice/cri-containerd-HEX.scope",
            "kubepods",
            "pod-0b1c2d3e",
        ),
        (
            "/kubepods/besteffort/pod0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e/HEX",
            "kubepods",
            "pod-0b1c2d3e",
        ),
        (
            "/system.slice/containerd.service/kubepods-pod0b1c2d3e.slice:cri-containerd:HEX",
            "kubepods",
            "pod-0b1c2d3e",
        ),
        ("/kubepods", "kubepods", "kubepods"),
        // A service of that name is none of the runtime's.
        ("/system.slice/docker-registry.service", "docker-registry", "docker-registry"),
        ("/system.slice/libpod-1234.scope", "system", "system"),
    ];
    for (path, plain, detailed) in rows {
        assert_eq!(named(path, false), plain, "{path}");
        assert_eq!(named(path, true), detailed, "{path}");
    }
}

#[test]
fn the_hierarchy_that_accounts_for_memory_is_the_one_that_is_read() {
    let rules = UnitRules::default();
    let read = |file: &str| {
        let unit = unit(file, &rules);
        (unit.name.to_string(), unit.path, unit.v1)
    };
    let some = |path: &str| Some(path.to_owned());
    let v2 = "0::/system.slice/vllm.service\n";
    assert_eq!(read(v2), ("vllm".into(), some("/system.slice/vllm.service"), false));
    let v1 = "12:cpu,cpuacct:/\n5:memory:/docker/x\n1:name=systemd:/system.slice/y.service\n";
    assert_eq!(read(v1), ("x".into(), some("/docker/x"), true));
    let hybrid = "5:memory:/\n1:name=systemd:/system.slice/y.service\n0::/system.slice/y.service\n";
    assert_eq!(read(hybrid), ("y".into(), some("/"), true));
    let unified_memory = "3:cpuset:/a\n0::/system.slice/y.service\n";
    assert_eq!(read(unified_memory), ("y".into(), some("/system.slice/y.service"), false));
    let colon = "0::/system.slice/a:b.service\n";
    assert_eq!(read(colon), ("a:b".into(), some("/system.slice/a:b.service"), false));
    for out_of_sight in ["0::/../x.service\n", "0::/x.service (deleted)\n"] {
        assert_eq!(read(out_of_sight), ("x".into(), None, false), "{out_of_sight}");
    }
    for nothing in ["", "\n", "garbage", "1:cpu", "1:cpu:/x"] {
        assert_eq!(read(nothing), ("unknown".into(), None, false), "{nothing}");
    }
}

#[test]
fn an_operator_renames_units_and_containers() {
    let map = |text: &str| UnitRules::parse_map(text).unwrap();
    let mut rules = UnitRules {
        container_ids: false,
        map: vec![map("vllm@*=models"), map("4f5a6b7c8d9e=chat"), map("pod-0b1c2d3e=search")],
    };
    let name = |path: &str, rules: &UnitRules| {
        unit(&format!("0::{}", path.replace("HEX", HEX)), rules).name.to_string()
    };
    let pod = "/kubepods/besteffort/pod0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e/x";
    for ids in [false, true] {
        rules.container_ids = ids;
        assert_eq!(name("/system.slice/vllm@2.service", &rules), "models");
        assert_eq!(name("/system.slice/vllm.service", &rules), "vllm");
        assert_eq!(name("/docker/HEX", &rules), "chat");
        assert_eq!(name(pod, &rules), "search");
    }
    rules.map.insert(0, map("*=everything"));
    assert_eq!(name("/system.slice/vllm.service", &rules), "everything");
}

#[test]
fn a_rename_that_makes_no_sense_says_why() {
    let rows = [
        ("a", "expected FROM=TO, found \"a\""),
        ("=b", "before the =, found \"\""),
        ("a b=c", "before the =, found \"a b\""),
        ("a*b=c", "before the =, found \"a*b\""),
        ("a=", "after the =, found \"\""),
        ("a=b=c", "after the =, found \"b=c\""),
        ("a=é", "after the =, found \"é\""),
        ("a=other", "stands for the units without a series"),
    ];
    for (text, expected) in rows {
        let error = UnitRules::parse_map(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let long = format!("a={}", "x".repeat(MAX_UNIT + 1));
    assert!(UnitRules::parse_map(&long).unwrap_err().contains("at most 64"));
    assert_eq!(UnitRules::parse_map(" a* = b ").unwrap(), ("a*".into(), "b".into()));
}

fn any_path() -> impl Strategy<Value = String> {
    let pieces = [
        "system.slice",
        "vllm.service",
        "docker",
        HEX,
        "run-u1.scope",
        "..",
        "pod12345678",
        "é€",
        "kubepods.slice",
        "\\x2d",
        "\\x",
        "\\xé",
        "-",
        "0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e",
        "lxc",
        "podé",
        "12345678é.service",
        "session-1.scope",
        " (deleted)",
        ":",
    ];
    let piece =
        prop_oneof![proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned), ".{0,80}"];
    proptest::collection::vec(piece, 0..6).prop_map(|parts| format!("/{}", parts.join("/")))
}

proptest! {
    #[test]
    fn names_are_bounded_and_plain(path in any_path(), ids in any::<bool>(), v1 in any::<bool>()) {
        let rules = UnitRules { container_ids: ids, map: vec![("x*".into(), "é/".repeat(40))] };
        let file = if v1 { format!("4:memory:{path}") } else { format!("0::{path}") };
        let unit = unit(&file, &rules);
        prop_assert!((1..=MAX_UNIT).contains(&unit.name.len()), "{:?}", unit.name);
        prop_assert!(unit.name.chars().all(is_plain), "{:?}", unit.name);
        prop_assert!(&*unit.name != "other");
        if let Some(path) = unit.path {
            prop_assert!(path.starts_with('/') && path.split('/').all(|part| part != ".."));
        }
    }

    #[test]
    fn no_file_panics(file in "[0-9:/a-z,=\n]{0,80}|.{0,80}") {
        let _ = unit(&file, &UnitRules::default());
    }
}
