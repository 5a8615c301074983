"""Settings of the executor: `--gang-*` on the command line, `gang-*` in a profile.

Snakemake makes the options from the annotations as they are at run time: no postponed ones, and Optional spelt out.
"""

# ruff: noqa: UP045

from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """What a profile says of a cluster."""

    driver: Optional[str] = field(
        default=None, metadata={"help": "module:Class that turns jobs into gangs.", "required": True}
    )
    place: Optional[Path] = field(
        default=None,
        metadata={"help": "File that tells the driver what is particular to this cluster.", "required": True},
    )
    pod: Optional[Path] = field(
        default=None,
        metadata={"help": "Pod template, YAML: resources, volumes, security context, tolerations of the ranks' pods."},
    )
    namespace: str = field(default="default", metadata={"help": "Namespace of the gangs' objects."})
    kubeconfig: Optional[Path] = field(
        default=None, metadata={"help": "Kubeconfig; by default the service account in a pod, else ~/.kube/config."}
    )
    context: Optional[str] = field(
        default=None, metadata={"help": "Context of the kubeconfig; by default its current one."}
    )
    schedule_bound_s: int = field(
        default=300, metadata={"help": "Seconds until all pods of a gang must have a node, or none may run."}
    )
    start_bound_s: int = field(
        default=900, metadata={"help": "Seconds until all containers must have started; pulling images is in it."}
    )
    delete_bound_s: int = field(
        default=120, metadata={"help": "Seconds until everything that was deleted must be gone."}
    )
    node_bound_s: int = field(default=60, metadata={"help": "Seconds that a node may look lost."})
    api_bound_s: int = field(
        default=600, metadata={"help": "Seconds that the API server may be out of reach before a job is given up."}
    )
