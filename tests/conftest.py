"""For all tests: none may reach the network."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is first imported
