"""What the model lets pass though it should not: faults that are known and not mended yet, each with its story.

A fault that is mended goes from here with the mending: set it to False, see the model find it no more, remove it.
"""

# A job of another number of ranks that closes without a checkpoint: `ls` says that the last job died.
CLOSED_BY_OTHERS_IS_UNCLEAN = True

# A prune between a kill and the next start gives up what was staged on nodes whose memory it does not see.
PRUNE_SEES_ONE_NODE = True
