"""Known errors that the model accepts until they are repaired, each with its story.

A repair also removes the error from here: set it to False, check that the model finds it no more, remove it.
"""
