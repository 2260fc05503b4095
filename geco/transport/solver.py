"""The solver of a transport problem: scores and marginals → plan.

With C the bordered scores and a, b the marginals, the plan maximises

    ⟨P, C⟩ + λ H(P) − α KL(P1 ‖ a) − β KL(Pᵀ1 ‖ b),      H(P) = −Σ P (log P − 1)      (GECO eq. 6)

Shapes: r = l + 1 rows and c = m + 1 columns, patches in row-major order, the bin last. A row or column of
mass zero takes part in nothing and has no gradient, which is how problems of different sizes share a batch.
"""

from jaxtyping import Bool, Float
from torch import Tensor

from geco.errors import InputError
from geco.transport.iteration import Form, potentials
from geco.transport.plan import Plan
from geco.transport.problem import at_least_float32, full_precision, marginals, scores, uniform_marginals
from geco.transport.settings import TransportSettings
from geco.types import FeatureMap

UNIFORM = TransportSettings(marginals="uniform")


def sinkhorn(
    C: Float[Tensor, "b r c"],
    a: Float[Tensor, "b r"],
    b: Float[Tensor, "b c"],
    *,
    lam: float = TransportSettings.lam,
    alpha: float = TransportSettings.alpha,
    beta: float = TransportSettings.beta,
    iterations: int = TransportSettings.iterations,
    form: Form = "auto",
) -> Plan:
    """The plan after these rounds of u ← (a / Kv)^φ, v ← (b / Kᵀu)^ψ from v = 1 (Chizat et al. 2018, alg. 1).

    K = exp(C/λ), φ = α/(α+λ), ψ = β/(β+λ); α = β = ∞ is the balanced problem. At least float32, also under
    autocast. `form`: matrix products with K, or log-sum-exp; "auto" takes the latter for λ below 0.03.
    """
    if not (lam > 0 and alpha > 0 and beta > 0 and iterations > 0):
        given = f"{lam:g}, {alpha:g}, {beta:g}, {iterations}"
        raise InputError(f"λ, α, β and the iterations must be positive, got {given}; see TransportSettings")
    exponents = 1 / (1 + lam / alpha), 1 / (1 + lam / beta)
    C = at_least_float32(C)
    with full_precision(C):
        f, g, p, q = potentials(C, a.to(C), b.to(C), lam=lam, exponents=exponents, iterations=iterations, form=form)
        return Plan(C, f, g, row_sums=(f + p).exp(), column_sums=(g + q).exp(), lam=lam)


def solve(
    C: Float[Tensor, "b r c"],
    a: Float[Tensor, "b r"],
    b: Float[Tensor, "b c"],
    settings: TransportSettings = TransportSettings(),  # noqa: B008, frozen
) -> Plan:
    """`sinkhorn` with the constants of the settings."""
    return sinkhorn(C, a, b, lam=settings.lam, alpha=settings.alpha, beta=settings.beta, iterations=settings.iterations)


def match_plan(
    source: FeatureMap,
    target: FeatureMap,
    settings: TransportSettings = UNIFORM,
    *,
    foregrounds: tuple[Bool[Tensor, "b h w"], Bool[Tensor, "b h2 w2"]] | None = None,
    visible: float = 1.0,
) -> Plan:
    """The plan between two unit feature maps for matching: marginals "-N", or from masks on the patch grids.

    `visible` is the share of the object both images are taken to show, as no keypoints say it here.
    """
    C = scores(source, target, settings.z)
    if settings.marginals == "uniform":
        a, b = (uniform_marginals(len(C), n - 1, s=settings.s) for n in C.shape[1:])
    elif foregrounds is not None:
        share = C.new_full((len(C),), visible)
        a, b = (marginals(foreground, share, s=settings.s) for foreground in foregrounds)
    else:
        raise InputError('marginals="masks" needs the foreground of both images; give `foregrounds` or use "uniform"')
    return solve(C, a, b, settings)
