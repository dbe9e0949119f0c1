"""Methods that ADIW is compared with. Each is made and called as ``adiw.ADIW`` is, so one training step serves all.

``reweight(outputs, targets, index, inputs=None)`` returns a scalar loss, ready for backward. ``reweight.weights``
holds the last weight of every training sample. All methods use one unit: the loss is mean(weights * loss), so that
ones mean no weighting.
"""

from __future__ import annotations

from adiw.baselines.diw import DIW
from adiw.baselines.fixed import Fixed
from adiw.baselines.l2r import L2R
from adiw.baselines.mwnet import MWNet
from adiw.baselines.random import Random
from adiw.baselines.uniform import Uniform

__all__ = ["DIW", "L2R", "Fixed", "MWNet", "Random", "Uniform"]
