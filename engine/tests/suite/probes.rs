//! Ranks find out which of them see the same files, under odd conditions.

use crate::support::between::{Between, Watched};
use mainstay_engine::{
    Config, ErrorKind, Session,
    device::{Access, Device, Disk, File, Naming},
    group::{Group, ThreadGroup},
};
use std::{
    fs, io,
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Duration,
};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

/// A disk with probes that cannot be opened, or that are gone when they are to be removed.
#[derive(Debug)]
struct Odd {
    open: Option<io::ErrorKind>,
    remove: Option<io::ErrorKind>,
}

impl Between for Odd {
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        match self.open {
            Some(kind) if name.starts_with("probe-") => Err(kind.into()),
            _ => disk.open(name, access, None),
        }
    }
    fn remove(&self, disk: &Disk, name: &str) -> io::Result<()> {
        disk.name(Naming::Remove(name))?;
        match self.remove {
            Some(kind) if name.starts_with("probe-") => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

/// A group that, like MPI, does not notice a rank that has gone.
struct Deaf(std::mem::ManuallyDrop<ThreadGroup>);

impl Group for Deaf {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn ranks_here(&self) -> usize {
        self.0.ranks_here()
    }
    fn all_max(&self, values: &mut [u64]) -> mainstay_engine::Result<()> {
        self.0.all_max(values)
    }
    fn all_gather(&self, mine: &[u8]) -> mainstay_engine::Result<Vec<Vec<u8>>> {
        self.0.all_gather(mine)
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> mainstay_engine::Result<()> {
        self.0.broadcast(root, bytes)
    }
}

/// Opens a space on two ranks, with `odd` as the odd one. Returns each rank's error. Fails if one hangs.
fn open_with(odd: usize, open: Option<io::ErrorKind>, remove: Option<io::ErrorKind>) -> Vec<Option<ErrorKind>> {
    let folder = TempDir::new().unwrap();
    let (told, hear) = mpsc::channel();
    for (rank, group) in ThreadGroup::new(2).into_iter().enumerate() {
        let (told, disk) = (told.clone(), Disk::make(folder.path()).unwrap());
        let is_odd = rank == odd;
        let odd = Odd { open: open.filter(|_| is_odd), remove: remove.filter(|_| is_odd) };
        let device = Watched::new(disk, odd);
        thread::spawn(move || {
            let group = Box::new(Deaf(std::mem::ManuallyDrop::new(group)));
            let opened = Session::open_on(group, Arc::new(device), small());
            let _ = told.send((rank, opened.err().map(|error| error.kind())));
        });
    }
    let mut all = vec![None; 2];
    for _ in 0..2 {
        let (rank, error) = hear.recv_timeout(Duration::from_secs(10)).expect("a rank waits for ever");
        all[rank] = error;
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("probe-")), "{left:?}");
    all
}

/// A job that began meanwhile had removed the probe, and all ranks but one waited forever.
#[test]
fn a_probe_that_is_gone_is_in_nobodys_way() {
    assert_eq!(open_with(0, None, Some(io::ErrorKind::NotFound)), [None, None]);
}

#[test]
fn a_probe_that_stays_is_told_to_all() {
    assert_eq!(open_with(0, None, Some(io::ErrorKind::PermissionDenied)), [Some(ErrorKind::Io); 2]);
}

/// A rank without a free descriptor took itself for a rank on another node, and two ranks wrote to one portion.
#[test]
fn a_probe_that_cannot_be_opened_is_not_out_of_sight() {
    assert_eq!(open_with(1, Some(io::ErrorKind::Other), None), [Some(ErrorKind::Io); 2]);
}

/// Several nodes on one machine, with folders of their own in memory, and with alternating ranks. Each node has one
/// pool, for its ranks alone, and leaves nothing else there.
#[test]
fn ranks_of_a_node_share_a_pool_wherever_they_stand() {
    let folder = TempDir::new().unwrap();
    let nodes = [0, 1].map(|_| tempfile::tempdir_in("/dev/shm").unwrap());
    let opened = Barrier::new(5);
    let files = |node: &TempDir| {
        let names = fs::read_dir(node.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // The suffix after the id: none for a pool, the rank for a record.
        let mut ends: Vec<_> =
            names.map(|name| name.get("mainstay-pool-".len() + 32..).unwrap_or(&name).to_owned()).collect();
        ends.sort();
        ends
    };
    thread::scope(|scope| {
        for (rank, group) in ThreadGroup::new(4).into_iter().enumerate() {
            let (folder, node, opened) = (&folder, &nodes[rank % 2], &opened);
            scope.spawn(move || {
                let config = Config { pool_directory: node.path().into(), ..small() };
                let session = Session::open(Box::new(group), folder.path(), config);
                opened.wait();
                opened.wait();
                session.unwrap().close().unwrap();
            });
        }
        opened.wait();
        let found = nodes.each_ref().map(files);
        opened.wait();
        assert_eq!(found, [["", ".0", ".2"], ["", ".1", ".3"]]);
    });
    assert_eq!(nodes.each_ref().map(files), [const { Vec::<String>::new() }; 2]);
}
