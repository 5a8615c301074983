"""Snakemake executor for gangs: one job is a group of pods on Kubernetes that start together or not at all.

Neither Snakemake nor a storage provider is needed in the pods: a driver, which a profile names, says what a job's pods run, and
writes the job's outputs from what they leave.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

from snakemake_executor_plugin_gang.api import Api, RefusedError, connect
from snakemake_executor_plugin_gang.driver import GangJob, load
from snakemake_executor_plugin_gang.gang import Bounds, Gangs
from snakemake_executor_plugin_gang.settings import ExecutorSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

    from snakemake_executor_plugin_gang.driver import Driver


__all__ = ["Executor", "ExecutorSettings", "common_settings"]

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=False,
    pass_default_resources_args=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


class _Task:
    """A job that a thread of this process drives."""

    def __init__(self, driver: Driver, job: GangJob) -> None:
        self.stop = threading.Event()
        self.error: str | None = None
        self._driver, self._job = driver, job
        self._thread = threading.Thread(target=self._run, name=f"gang {job.rule}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._driver.run(self._job, self.stop)
        except BaseException as error:  # noqa: BLE001 - a thread has nobody above it: whatever it is fails the job, with its text
            self.error = f"{type(error).__name__}: {error}" if not str(error) else str(error)
            if self._job.log is not None:
                self._job.log.parent.mkdir(parents=True, exist_ok=True)
                self._job.log.write_text(f"{self.error}\n", encoding="utf-8")


class Executor(RemoteExecutor):
    """Hands each job to the driver in a thread of its own, and reports how it ended."""

    def __post_init__(self) -> None:
        """Connects; nothing is made in the cluster before the first job."""
        settings = self.workflow.executor_settings
        try:
            api = Api(
                lambda: connect(settings.kubeconfig, settings.context),
                settings.namespace,
                settings.api_bound_s,
                self._tell,
            )
            bounds = Bounds(
                settings.schedule_bound_s, settings.start_bound_s, settings.delete_bound_s, settings.node_bound_s
            )
            gangs = Gangs(api, read_template(settings.pod), bounds, self._tell)
            self._driver = load(settings.driver)(gangs, settings.place, self._tell)
        except (RefusedError, ValueError, OSError) as error:
            raise WorkflowError(str(error)) from error

    def run_job(self, job: JobExecutorInterface) -> None:
        """Begins a job."""
        logs = [Path(str(path)) for path in job.log]
        given = GangJob(job.rule.name, dict(job.wildcards_dict), tuple(map(str, job.output)), logs[0] if logs else None)
        for path in given.outputs:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.report_job_submission(
            SubmittedJobInfo(job, external_jobid=f"{job.name}-{job.jobid}", aux={"task": _Task(self._driver, given)})
        )

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Reports jobs whose thread has ended; yields the others."""
        for info in active_jobs:
            task: _Task = info.aux["task"]
            if not task.ended:
                yield info
            elif task.error is None:
                self.report_job_success(info)
            else:
                self.report_job_error(info, msg=f"{task.error}\n")

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Stops every job and waits until its gang is removed, so that Ctrl-C leaves nothing behind."""
        tasks: list[_Task] = [info.aux["task"] for info in active_jobs]
        for task in tasks:
            task.stop.set()
        for task in tasks:
            task.join(self.workflow.executor_settings.delete_bound_s + 30)

    def shutdown(self) -> None:
        """Ends the driver once nothing runs any more."""
        super().shutdown()
        self._driver.close()

    def _tell(self, text: str) -> None:
        self.logger.info(text)


def read_template(path: Path | None) -> dict[str, Any]:
    """The pod template of a place; empty where none is named.

    Raises:
        ValueError: The file is no mapping.
    """
    if path is None:
        return {}
    value = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, dict) or not set(value) <= {"metadata", "spec"}:
        msg = f"{path}: expected a pod template, a mapping with `metadata` and `spec`"
        raise ValueError(msg)
    return value
