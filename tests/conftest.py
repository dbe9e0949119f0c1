"""Settings for all tests, so that they do not depend on the machine or on the shell that starts them."""

import gc
import os
import signal

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may use the network; transformers reads this at its first import
# Some virtual machines report AMX and crash at its first instruction, which bfloat16 on the CPU uses.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # read when torch first multiplies matrices
# A shell makes its background processes ignore Ctrl-C, and the processes of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Garbage collections skip what has been imported so far, which would take half a second each time."""
    gc.freeze()
