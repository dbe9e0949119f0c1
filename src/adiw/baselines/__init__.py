"""Methods that ADIW is compared with. Each is constructed and called like ``adiw.ADIW``, in the same training loop.

``reweight(outputs, targets, index, inputs=None)`` returns a scalar loss, ready for backward. ``reweight.weights``
holds the last weight of every training sample. For all methods the loss is mean(weights * loss), so a weight of one
means no weighting.
"""

from __future__ import annotations

from adiw.baselines.diw import DIW
from adiw.baselines.given_weights import Fixed, Random, Uniform
from adiw.baselines.l2r import L2R
from adiw.baselines.mwnet import MWNet

__all__ = ["DIW", "L2R", "Fixed", "MWNet", "Random", "Uniform"]
