"""For all tests: what the machine, or whoever started them, must not decide."""

import os
import signal

os.environ["HF_HUB_OFFLINE"] = "1"  # none may reach the network: read when transformers is first imported
# Virtual machines may announce AMX and stop at its first instruction, which bfloat16 on the CPU would use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # read when torch first multiplies matrices
# A shell lets what it starts in the background ignore Ctrl-C, and the processes of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
