//! Places by trees of links as sysfs has them.

use std::os::unix::fs::symlink;

use super::*;

/// A `/sys` with devices at these paths below `devices`, and adapters on some of them.
fn sys(devices: &[(&str, i32)], hcas: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, numa) in devices {
        let folder = root.path().join("devices").join(path);
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("numa_node"), format!("{numa}\n")).expect("written");
        let links = root.path().join("bus/pci/devices");
        fs::create_dir_all(&links).expect("made");
        let name = path.rsplit('/').next().expect("a name");
        symlink(format!("../../../devices/{path}"), links.join(name)).expect("linked");
    }
    for (device, path) in hcas {
        let folder = root.path().join("devices").join(path).join("infiniband").join(device);
        fs::create_dir_all(&folder).expect("made");
        symlink("../..", folder.join("device")).expect("linked");
        let class = root.path().join("class/infiniband");
        fs::create_dir_all(&class).expect("made");
        symlink(&folder, class.join(device)).expect("linked");
    }
    root
}

const GPU_0: &str = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:1b:00.0";
const GPU_1: &str = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:08.0/0000:43:00.0";
const GPU_2: &str = "pci0000:95/0000:95:01.0/0000:96:00.0/0000:97:00.0/0000:9d:00.0";
const HCA_0: &str = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/0000:18:00.0";
const HCA_1: &str = "pci0000:48/0000:48:01.0/0000:49:00.0";
const HCA_2: &str = "pci0000:d5/0000:d5:01.0/0000:d6:00.0";

fn node() -> tempfile::TempDir {
    let devices = [(GPU_0, 0), (GPU_1, 0), (GPU_2, 1), (HCA_0, 0), (HCA_1, 0), (HCA_2, 1)];
    sys(&devices, &[("mlx5_0", HCA_0), ("mlx5_1", HCA_1), ("mlx5_2", HCA_2)])
}

#[test]
fn a_gpu_has_its_way_its_numa_node_and_its_nearest_adapters() {
    let root = node();
    let gpus = ["00000000:1b:00.0", "00000000:9D:00.0", "00000000:77:00.0"];
    let places = places(root.path(), gpus);
    assert_eq!(places.gpus.len(), 2, "one is not there");
    assert_eq!(places.gpus[gpus[0]].path, GPU_0.split('/').collect::<Vec<_>>());
    assert_eq!(places.gpus[gpus[1]].numa_node, Some(1));
    assert_eq!(places.nearest(gpus[0]), Some((Distance::Switch, vec!["mlx5_0"])));
    assert_eq!(places.nearest(gpus[1]), Some((Distance::NumaNode, vec!["mlx5_2"])));
    assert_eq!(places.nearest(gpus[2]), None);
    let mut infos = [GpuInfo { pci_bus_id: gpus[0].into(), ..GpuInfo::default() }, GpuInfo::default()];
    places.note(&mut infos);
    assert_eq!(
        (infos[0].numa_node, infos[0].nearest_hcas.as_slice()),
        (Some(0), ["mlx5_0".to_owned()].as_slice())
    );
    assert_eq!((infos[1].numa_node, infos[1].nearest_hcas.len()), (None, 0));
}

#[test]
fn distances_are_those_of_nvidia_smi() {
    let place =
        |path: &str, numa| Place { path: path.split('/').map(str::to_owned).collect(), numa_node: numa };
    let gpu = place(GPU_0, Some(0));
    assert_eq!(distance(&gpu, &place(GPU_1, Some(0))), Distance::Switch);
    assert_eq!(
        distance(
            &gpu,
            &place(
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:0c.0/0000:20:00.0/0000:21:00.0/0000:22:00.0",
                Some(0)
            )
        ),
        Distance::Switches
    );
    assert_eq!(distance(&gpu, &place("pci0000:15/0000:15:03.0/0000:30:00.0", Some(0))), Distance::HostBridge);
    assert_eq!(distance(&gpu, &place(HCA_1, Some(0))), Distance::NumaNode);
    assert_eq!(distance(&gpu, &place(GPU_2, Some(1))), Distance::System);
    // Without a word on NUMA nothing is said to be near.
    assert_eq!(distance(&place(GPU_0, None), &place(HCA_1, None)), Distance::System);
}

#[test]
fn a_node_without_sysfs_or_adapters_has_no_places() {
    assert_eq!(places(Path::new("/nowhere"), ["00000000:1b:00.0"]), Places::default());
    let root = sys(&[(GPU_0, -1)], &[]);
    let places = places(root.path(), ["00000000:1b:00.0"]);
    assert_eq!((places.gpus["00000000:1b:00.0"].numa_node, places.nearest("00000000:1b:00.0")), (None, None));
}
