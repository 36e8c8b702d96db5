"""The result of a restore of a revision, on the same number of ranks or on another."""

from dataclasses import replace

REFUSED = {"REGION_MISSING", "REGION_CHANGED", "RANK_COUNT"}


def restored(attempt, mine):
    """The content of the regions of each rank, `mine`, after a restore of `attempt`: a list of {name: Text}. None if
    the restore is refused; it then ends with one of REFUSED."""
    same = len(attempt.shards) == len(mine)
    moved = same and any(has_moved(shard.regions, regions) for shard, regions in zip(attempt.shards, mine))
    back = []
    for rank, regions in enumerate(mine):
        got = {}
        for name, text in regions.items():
            saved = (
                from_boxes(attempt, text) if text.box and (moved or not same) else from_shard(attempt, rank, text, same)
            )
            if saved is None:
                return None
            got[name] = replace(saved, same=text.same)
        back.append(got)
    return back if nothing_is_left_out(attempt, mine, same) else None


def has_moved(saved, regions):
    return any(
        text.box and name in saved and saved[name].box and saved[name].box != text.box for name, text in regions.items()
    )


def from_shard(attempt, rank, text, same):
    shards = attempt.shards
    if same:
        saved = shards[rank].regions.get(text.name)
    elif is_same(shards, text) and alike(shards, text.name):
        saved = shards[0].regions[text.name]
    else:
        return None
    return saved if saved and saved.bytes == text.bytes and bool(saved.box) == bool(text.box) else None


def is_same(shards, text):
    """Whether all ranks saved it, and it is the same on all: by a declaration of the saving program or of this one, or
    as one element."""
    saved = [shard.regions.get(text.name) for shard in shards]
    return all(saved) and (text.same or any(one.same or one.bytes == 1 for one in saved))


def alike(shards, name):
    return len({(shard.regions[name].bytes, shard.regions[name].crc) for shard in shards}) == 1


def from_boxes(attempt, text):
    """All boxes of an array have one tag, and together they are the array."""
    saved = [shard.regions[text.name] for shard in attempt.shards if text.name in shard.regions]
    if not saved or any(one.box[:2] != text.box[:2] for one in saved):
        return None
    return replace(text, tag=saved[0].tag)


def nothing_is_left_out(attempt, mine, same):
    """Whether all saved regions are protected."""
    if same:
        return all(set(shard.regions) == set(regions) for shard, regions in zip(attempt.shards, mine))
    saved, protected = set().union(*(shard.regions for shard in attempt.shards)), set().union(*mine)
    return saved == protected
