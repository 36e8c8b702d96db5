"""How long tests wait for what must come: a machine at work on other things may take long."""

LIMIT_S = 300  # after that it hangs
