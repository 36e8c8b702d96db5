//! Manifests, plain and packed; the staged contents of a shard; frames.

use super::blocks::PORTION_BYTES;
use crate::{Target, promises::comes_back};
use mainstay_engine::fuzzing;
use mainstay_format::{Codec, FrameHead};

pub(super) static TARGETS: [Target; 3] = [
    Target::new("manifest", manifest, 20_000),
    Target::new("contents", contents, 20_000),
    Target::new("frame", frame, 10_000),
];

fn manifest(bytes: &[u8]) {
    let parse = |bytes: &[u8]| fuzzing::manifest(bytes, PORTION_BYTES).ok();
    let Some(manifest) = parse(bytes) else { return };
    manifest.compressed_bytes();
    manifest.shared_bytes(&manifest);
    manifest.items.iter().flat_map(|item| &item.extents).filter(|extent| manifest.is_compressed(extent)).count();
    contents(&fuzzing::contents_of(manifest.clone()));
    assert_eq!(parse(&fuzzing::stored_manifest(&manifest)), Some(manifest));
}

fn contents(bytes: &[u8]) {
    comes_back(bytes, |bytes| fuzzing::contents(bytes).map(|(written, _)| written));
}

fn frame(bytes: &[u8]) {
    let Ok(blocks) = fuzzing::frame(bytes) else { return };
    let codec = FrameHead::parse(bytes).map_or(Codec::Lz4, |head| head.codec);
    if let Some(stored) = fuzzing::stored_frame(codec, &blocks) {
        assert!(
            fuzzing::frame(&stored).is_ok_and(|same| same == blocks),
            "its blocks change when they are packed again"
        );
    }
}
