"""For all tests: none may reach the network, and none may meet instructions that the machine only says it has."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is first imported
# Virtual machines may announce AMX and stop at its first instruction, which bfloat16 on the CPU would use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # read when torch first multiplies matrices
