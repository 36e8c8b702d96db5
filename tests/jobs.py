"""Jobs that a test only has to see the end of."""

from job import Job

LIMIT_S = 60


def run(ranks, command, scratch, **more):
    """Runs a job to its end: its exit status and what it printed."""
    with Job(ranks, command, scratch, LIMIT_S, **more) as job:
        for _ in job.lines():
            pass
        return job.wait(), "\n".join(job.output)
