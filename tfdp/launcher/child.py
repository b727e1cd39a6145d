"""One worker of `tfdp.launch`. Its argument is the folder of the job.

The folder has ``job.json`` and the arguments, which `tfdp.launcher.api` has written; it gets this
worker's result or failure.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from tfdp.cluster import heartbeat
from tfdp.cluster.tf_config import read_tf_config
from tfdp.errors import PreemptedError, TfdpError
from tfdp.launcher.functions import find_function
from tfdp.launcher.values import load_value, save_value

FAILED = 1


def main(arguments: list[str]) -> int:
    """Runs the function; returns the exit code.

    ``sys.path`` becomes that of the caller, so that the same modules are found.
    """
    folder, index = Path(arguments[0]), _index()
    heartbeat.current()
    try:
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        sys.path[:] = job["path"]
        function = find_function(job["function"])
        result = function(*load_value(folder / "arguments"))
        save_value(result, folder / f"result-{index}", what="the result")
        return 0
    except PreemptedError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        text = traceback.format_exc()
        print(text, file=sys.stderr)
        failure = {"type": type(error).__name__, "message": str(error), "traceback": text}
        (folder / f"failure-{index}.json").write_text(json.dumps(failure), encoding="utf-8")
        return error.exit_code if isinstance(error, TfdpError) else FAILED


def _index() -> int:
    cluster = read_tf_config(os.environ)
    assert cluster is not None, "tfdp.launch sets TF_CONFIG"
    return cluster.index
