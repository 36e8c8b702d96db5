"""What the model lets pass though it should not: faults that are known and not mended yet, each with its story.

A fault that is mended goes from here with the mending: set it to False, see the model find it no more, remove it.
"""
