"""What a restore of a revision brings, on the same ranks or on others."""

from dataclasses import replace

REFUSED = {"REGION_MISSING", "REGION_CHANGED", "RANK_COUNT"}


def restored(attempt, mine):
    """What the regions of each rank, `mine`, hold when `attempt` has come back: a list of {name: Text}. None if it
    cannot: then the restore ends with one of REFUSED."""
    same = len(attempt.shards) == len(mine)
    moved = same and any(has_moved(shard.regions, regions) for shard, regions in zip(attempt.shards, mine))
    back = []
    for rank, regions in enumerate(mine):
        got = {}
        for name, text in regions.items():
            saved = from_boxes(attempt, text) if text.box and (moved or not same) else from_shard(attempt, rank, text, same)
            if saved is None:
                return None
            got[name] = replace(saved, same=text.same)
        back.append(got)
    return back if nothing_is_left_out(attempt, mine, same) else None


def has_moved(saved, regions):
    return any(text.box and name in saved and saved[name].box and saved[name].box != text.box for name, text in regions.items())


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
    """Whether all ranks had it, and the program that saved it or this one says that it is the same on all, or it is one element."""
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
    """Whether all that was saved is protected."""
    if same:
        return all(set(shard.regions) == set(regions) for shard, regions in zip(attempt.shards, mine))
    saved, protected = set().union(*(shard.regions for shard in attempt.shards)), set().union(*mine)
    return saved == protected
