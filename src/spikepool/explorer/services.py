"""What the requests of one server share: its limits and its worker processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikepool.explorer.jobs import JobRunner
from spikepool.explorer.security import Settings
from spikepool.explorer.simulate import simulate_task

FIGURE_SECONDS = 30.0


@dataclass
class Services:
    """Settings and job runners; figures have a runner of their own, so that they need not wait for simulations."""

    settings: Settings
    jobs: JobRunner
    figures: JobRunner

    @classmethod
    def start(cls, settings: Settings) -> Services:
        """Runners within the limits of `settings`."""
        jobs = JobRunner(
            running=settings.max_running,
            waiting=settings.max_waiting,
            seconds=settings.job_seconds,
            memory_bytes=settings.job_memory_bytes,
            idle_seconds=settings.idle_seconds,
            kept=settings.kept_results,
        )
        # a request thread waits for each figure: leave most threads to theory
        figures = JobRunner(
            running=2,
            waiting=max(1, settings.threads // 4),
            seconds=FIGURE_SECONDS,
            memory_bytes=settings.job_memory_bytes,
            idle_seconds=3 * FIGURE_SECONDS,
            kept=1,
        )
        return cls(settings, jobs, figures)

    def simulation(self, job_id: object, query: str) -> dict[str, Any] | None:
        """The finished simulation of this id, if it simulated exactly this state."""
        job = self.jobs.find(job_id)
        if job is None or job.task is not simulate_task or job.result is None or job.result["query"] != query:
            return None
        return job.result

    def close(self) -> None:
        """Kill every worker."""
        self.jobs.close()
        self.figures.close()
