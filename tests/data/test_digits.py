import pytest
import torch

from adiw.data import load
from tests.missing_packages import hide


def test_shapes_scale_and_split():
    data = load("digits")
    assert (len(data.train), len(data.test)) == (1297, 500)
    assert data.train.x.dtype == torch.float32
    assert (data.train.x.min().item(), data.train.x.max().item()) == (0.0, 1.0)
    assert data.num_classes == 10
    assert data.mean == data.std == ()


def test_split_is_stratified_disjoint_and_always_the_same():
    data, again = load("digits"), load("digits")
    assert torch.equal(data.test.x, again.test.x)
    assert data.test.y.bincount().min() >= 48  # 174 to 183 of 1797 images in each class
    assert data.test.y.bincount().max() <= 51
    both = torch.cat([data.train.x, data.test.x])
    assert len(both.unique(dim=0)) == len(both)  # no image twice, so none in both splits


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    hide(monkeypatch, "scikit-learn")
    with pytest.raises(ImportError, match=r'scikit-learn.*pip install "adiw\[cli\]"'):
        load("digits")
