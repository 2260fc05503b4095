"""Optimal transport with a bin (GECO §3): problem → solver → plan."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.transport.plan import Plan
    from geco.transport.problem import bordered, marginals, scores, uniform_marginals
    from geco.transport.solver import match_plan, sinkhorn, solve

__all__, __getattr__, __dir__ = lazy.door(__name__)
