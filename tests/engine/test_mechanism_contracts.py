"""Every mechanism that releases keeps the contract."""

from engine.mechanisms.auto import Auto, Metric
from engine.mechanisms.contract import Importance
from engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from engine.mechanisms.laplace_noise import Laplace
from engine.mechanisms.published import Allocation, ClassicGaussian, ExactMvg, Imgm, Mvg
from tests.contracts.mechanism import PROBLEMS, MechanismContract

NOT_AUGMENTED = tuple(name for name in PROBLEMS if name != "covariance")
BOXES = ("second moment, box", "second moment, positive box, replace-one", "rows", "one row", "one column", "one entry")
MOMENTS = ("second moment, box", "second moment, positive box, replace-one", "second moment, ball", "one entry")


class TestGaussian(MechanismContract):
    mechanism = Gaussian()


class TestShapedGaussian(MechanismContract):
    mechanism = ShapedGaussian(Importance("absolute-error"))


class TestClassicGaussian(MechanismContract):
    mechanism = ClassicGaussian()


class TestImgm(MechanismContract):
    mechanism = Imgm()


class TestImgmWithAShape(MechanismContract):
    mechanism = Imgm((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0))
    applies = MOMENTS[:3]


class TestMvgTheorem2(MechanismContract):
    mechanism = Mvg(2, "published", Allocation("uniform"))
    applies = NOT_AUGMENTED


class TestMvgTheorem3(MechanismContract):
    mechanism = Mvg(3, "square-root", Allocation("uniform"))
    applies = MOMENTS


class TestMvgBinary(MechanismContract):
    mechanism = Mvg(2, "square-root", Allocation("binary", (1.0, 0.0, 0.0, 1.0), 0.55))
    applies = ("second moment, box", "second moment, ball", "rows", "one row")


class TestExactMvg(MechanismContract):
    mechanism = ExactMvg(Allocation("uniform"))
    applies = BOXES


class TestExactMvgWithShares(MechanismContract):
    mechanism = ExactMvg(Allocation("shares", (4.0, 3.0, 2.0, 1.0)))
    applies = ("second moment, box", "rows", "one row")


class TestAuto(MechanismContract):
    mechanism = Auto(Metric("total"))


class TestAutoSpectral(MechanismContract):
    mechanism = Auto(Metric("spectral"))


class TestLaplace(MechanismContract):
    mechanism = Laplace(Importance("absolute-error"))
