"""Training: pairs → step → run."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.training.adaptation import Adapted, adapt
    from geco.training.adaptation import prepare as prepare_adaptation
    from geco.training.batches import TrainingPairs
    from geco.training.build import build as build_model
    from geco.training.build import distilling, starting_from, trainable
    from geco.training.comparison import compare
    from geco.training.estimate import Plan, plan
    from geco.training.folder import RunFolder
    from geco.training.loop import Outcome, fit
    from geco.training.presets import ABLATIONS, PRESETS, ablation, overfitting, preset
    from geco.training.sampling import EpochSampler, Joint
    from geco.training.splits import Source, load_splits, load_validation
    from geco.training.step import DivergedError, Stepper, encode

__all__, __getattr__, __dir__ = lazy.door(__name__)
