"""Stand-ins for the commands of Slurm and for ssh: they run what they are told on this machine, and note that they were told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """#!{python}
import json, os, subprocess, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, os.path.basename(__file__) + ".calls"), "a") as stream:
    stream.write(json.dumps(sys.argv[1:]) + "\\n")
"""
_SBATCH = """
jobs = os.path.join(folder, "jobs")
os.makedirs(jobs, exist_ok=True)
number = str(1000 + len(os.listdir(jobs)))
with open(os.path.join(jobs, number), "w") as stream:
    stream.write("RUNNING")
wrapped = next(a.partition("=")[2] for a in sys.argv if a.startswith("--wrap="))
run = f"({wrapped}) && echo -n COMPLETED > {jobs}/{number} || echo -n FAILED > {jobs}/{number}"
log = open(os.path.join(folder, f"job-{number}.log"), "w")
environment = {**os.environ, "SLURM_JOB_ID": number}
subprocess.Popen(["bash", "-c", run], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
print(number)
"""
_SACCT = """
jobs = os.path.join(folder, "jobs")
for number in sorted(os.listdir(jobs)) if os.path.isdir(jobs) else []:
    print(f"{number}|{open(os.path.join(jobs, number)).read()}|x")
"""
_SRUN = """
given = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
first = next(i for i, a in enumerate(sys.argv[1:], 1) if not a.startswith("--"))
num_ranks, per_node = int(given["ntasks"]), int(given["ntasks-per-node"])
ranks = []
for rank in range(num_ranks):
    own = {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": num_ranks, "SLURM_LOCALID": rank % per_node}
    own["SLURM_STEP_TASKS_PER_NODE"] = f"{per_node}(x{num_ranks // per_node})"
    ranks.append(subprocess.Popen(sys.argv[first:], env={**os.environ, **{k: str(v) for k, v in own.items()}}))
sys.exit(max(abs(rank.wait()) for rank in ranks))
"""
_SSH = """
sys.exit(subprocess.run(["bash", "-c", sys.argv[-1]]).returncode)
"""
_COMMANDS = {"sbatch": _SBATCH, "sacct": _SACCT, "srun": _SRUN, "ssh": _SSH, "sinfo": "", "sacctmgr": "", "sshare": ""}


def install(folder: Path) -> Path:
    """Writes every command into a folder that a test puts first on its PATH; `<command>.calls` there holds what each was told."""
    folder.mkdir()
    for name, body in _COMMANDS.items():
        (folder / name).write_text(_HEAD.format(python=sys.executable) + body, encoding="ascii")
        (folder / name).chmod(0o755)
    return folder
