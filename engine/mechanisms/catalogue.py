"""The catalogue: every mechanism that is implemented, with the guarantee that it really has.

``status`` says how far its published claim can be trusted (:class:`.contract.Status`),
``use`` what the product does with it: ``release`` (a config may name it), ``study`` (drawn on public data, labelled),
or ``library`` (calibration, loss and sampler for programs; no config names it).
"""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.contract import Status

BOTH = (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)
ADDITIVE = ("second-moment", "principal-directions", "rows", "outer-products", "gradients", "counts")
ALL_QUERIES = ("covariance", *ADDITIVE)


@dataclass(frozen=True)
class CatalogueEntry:
    """One mechanism of the catalogue.

    Attributes
    ----------
    name
        As a config or ``blockveil mechanisms`` names it.
    title
        In words.
    status
        How far the published claim can be trusted.
    source
        Paper and theorem.
    relations, queries
        Neighbouring relations and queries that it serves.
    needs
        What must be known and public.
    loss
        What the ledger books.
    error
        Expected squared error in the symbols of the source.
    finding
        What checking the published guarantee found.
    use
        "release", "study" or "library".
    """

    name: str
    title: str
    status: Status
    source: str
    relations: tuple[Neighbours, ...]
    queries: tuple[str, ...]
    needs: str
    loss: str
    error: str
    finding: str
    use: str


ENTRIES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "gaussian",
        "analytic Gaussian, equal noise in raw units",
        Status.PROVEN_EXACT,
        "Balle and Wang, 2018, Theorem 8; IMGM Theorem 2 for equal noise",
        BOTH,
        ALL_QUERIES,
        "public bounds of a record",
        "mu = sensitivity / standard deviation",
        "entries * (sensitivity / mu)^2; a symmetric answer needs about half of that",
        "Exact (if and only if). The usual double-precision root finder errs at some parameters, on the unsafe "
        "side too; the solver here is within 1e-12 and ends on the private side.",
        "release",
    ),
    CatalogueEntry(
        "shaped-gaussian",
        "Gaussian whose size follows the declared bounds",
        Status.PROVEN_EXACT,
        "MVG (CCS 2018), section 6, Algorithms 1 and 2, with the exact budget of Balle and Wang, 2018",
        BOTH,
        ALL_QUERIES,
        "public bounds of a record; optionally an importance for each feature",
        "mu = sup over neighbours of the change divided by the noise, entry by entry",
        "box, rows: (sum c_i sqrt(w_i))^2 / mu^2, less within a ball; ellipsoid: tr(E) / mu^2; second moment: "
        "((tr E)^2 + tr E^2) / (2 mu^2), twice that under replace-one",
        "Directional noise is worth it exactly when the set of changes is narrower than a ball; then it saves "
        "orders of magnitude.",
        "release",
    ),
    CatalogueEntry(
        "imgm",
        "improved matrix Gaussian, a pair of covariances",
        Status.PROVEN_EXACT,
        "IMGM, section 3.1, Theorem 2; composition: section 3.2, Theorem 4",
        BOTH,
        ALL_QUERIES,
        "public bounds of a record; optionally relative standard deviations by feature",
        "mu = sensitivity / (least(U1) least(U2)) on a ball, smaller where the geometry is narrower",
        "tr(Sigma1) tr(Sigma2), least for equal noise",
        "Theorem 2 is the analytic Gaussian; its 'only if' needs a set of changes that holds the worst rank-one "
        "direction. Theorem 4 holds, also adaptively. Equation (52) is not a derivation of its bound and is 30 to "
        "17,000 times too large. The amplification claim (epsilon / q, delta / q) of section 5 is false.",
        "release",
    ),
    CatalogueEntry(
        "laplace",
        "discrete Laplace on a grid",
        Status.PROVEN_EXACT,
        "Dwork, McSherry, Nissim and Smith, 2006, Theorem 1; Ghosh, Roughgarden and Sundararajan, 2009",
        BOTH,
        ALL_QUERIES,
        "public bounds of a record",
        "epsilon = L1 sensitivity / scale, pure; and the sampler's distance, 2^-115 an entry",
        "2 entries (L1 / epsilon)^2 for equal noise",
        "Exact. Best for counts at small delta; for matrices the L1 sensitivity grows with the number of entries "
        "that one record changes, so that Gaussian noise wins.",
        "release",
    ),
    CatalogueEntry(
        "discrete-laplace",
        "discrete Laplace in whole numbers",
        Status.PROVEN_EXACT,
        "Ghosh, Roughgarden and Sundararajan, 2009",
        BOTH,
        ("counts",),
        "nothing but the grid of cells",
        "epsilon, pure; and the sampler's distance, 2^-115 an entry",
        "entries / (2 sinh(epsilon / 2 L1)^2)",
        "Exact, without rounding; slightly less noise than the continuous law of the same loss.",
        "release",
    ),
    CatalogueEntry(
        "classic-gaussian",
        "classic Gaussian",
        Status.PROVEN_LOOSE,
        "Dwork and Roth, 2014, Theorem A.1",
        BOTH,
        ALL_QUERIES,
        "public bounds of a record; epsilon below 1",
        "its exact mu, smaller than the claim",
        "entries * 2 ln(1.25/delta) (sensitivity / epsilon)^2",
        "Valid below epsilon 1 only; at epsilon 10 and delta 1e-5 the true delta is 2.27 times the claimed one, at"
        " 20 it is 153 times. Refused from 1 on.",
        "release",
    ),
    CatalogueEntry(
        "mgm",
        "matrix Gaussian mechanism as published, before IMGM improved it",
        Status.PROVEN_LOOSE,
        "Yang, Xiang, Yu, Wang, Guo, Li and Li, 2021, as R1SMG, section 7.1, compares it; proof: Laurent and Massart",
        BOTH,
        ALL_QUERIES,
        "public bounds of a record",
        "its exact mu, smaller than the claim by a factor that grows like the root of the number of entries",
        "entries * (sensitivity (zeta + sqrt(zeta^2 + 2 epsilon)) / (2 epsilon))^2, zeta about sqrt(entries)",
        "Valid for every epsilon and delta: it bounds one normal variable by the norm of all of them. For 89 x 89 "
        "counts the standard deviation is 20.7 times what the claim needs at (0.5, 1e-7). The paper is known here "
        "through others; a program in circulation divides the variance by the number of rows too, which is false for "
        "few columns.",
        "release",
    ),
    CatalogueEntry(
        "mvg",
        "matrix-variate Gaussian as published",
        Status.PROVEN_LOOSE,
        "MVG (CCS 2018), as numbered in the full version: section 4, Theorems 2 and 3; section 6, Algorithms 1 and 2",
        BOTH,
        ADDITIVE,
        "public bounds of a record and of the number of records; public allocation; for second moments and rows public "
        "directions, if any",
        "its exact mu, smaller than the claim by factors of 70 to 1e10",
        "tr(Sigma) tr(Psi)",
        "Both theorems are valid and both zeta variants are safe; the square root is the tight one. The standard "
        "deviation is 70 to 1e10 times what the claim needs. Theorem 7 (max PNR) needs the positive part and is no"
        " Kronecker product; the experiments use data-dependent gamma, directions and centring. Directions would be "
        "waste on gradients, which are bounded as a whole, and on counts; the sides of an outer product take none.",
        "release",
    ),
    CatalogueEntry(
        "mvg-exact",
        "Algorithms 1 and 2 of MVG with the exact budget",
        Status.PROVEN_EXACT,
        "corrects MVG (CCS 2018), section 6, by Balle and Wang, 2018, Theorem 8",
        BOTH,
        ("second-moment", "principal-directions", "rows"),
        "public box bounds; public allocation and directions, if any",
        "mu^2 = sum c_i^2 / variance_i (rows), over the corners along directions; see the second moment's sensitivity",
        "sum of c_i^2 / (theta_i mu^2)",
        "The linear precision budget of the paper is right once its bound is replaced; max PNR becomes water-filling.",
        "release",
    ),
    CatalogueEntry(
        "analyze-gauss",
        "symmetric Gaussian noise as published (Analyze Gauss)",
        Status.PROVEN_LOOSE,
        "Dwork, Talwar, Thakurta and Zhang, 2014, Algorithm 1",
        BOTH,
        ("second-moment", "principal-directions"),
        "public bounds of a record; refused where its exact loss exceeds the claim",
        "its exact mu",
        "R^4 d^2 2 ln(1.25/delta) / epsilon^2, twice the gaussian's for the same size of noise",
        "Valid under add-remove below epsilon 1, false at 10 (2.27 times the delta). Under replace-one, where a record"
        " moves the answer sqrt(2) times as far, false at small delta (24.75 times at 0.5 and 1e-8). The same noise "
        "off as on the diagonal wastes nearly half of the variance.",
        "release",
    ),
    CatalogueEntry(
        "mod-sulq",
        "symmetric Gaussian noise as published (MOD-SULQ)",
        Status.PROVEN_LOOSE,
        "Chaudhuri, Sarwate and Sinha, 2013, Algorithm 1",
        BOTH,
        ("second-moment", "principal-directions"),
        "public bounds of a record",
        "its exact mu, smaller than the claim by a factor that grows like d",
        "R^4 d^2 ((d + 1) sqrt(2 ln((d^2 + d) / (2 sqrt(2 pi) delta))) / epsilon + 1 / sqrt(epsilon))^2",
        "Valid for every epsilon and delta under both relations: it is too large by a factor that grows like d.",
        "release",
    ),
    CatalogueEntry(
        "exponential",
        "exponential mechanism for principal directions (PPCA), drawn in whole numbers",
        Status.PROVEN_EXACT,
        "McSherry and Talwar, 2007; Chaudhuri, Sarwate and Sinha, 2013; Kent, Ganeiban and Mardia, 2013 (sampling)",
        BOTH,
        ("principal-directions",),
        "records in a ball; the number of directions; at most 256 features",
        "pure epsilon; and the sampler's distance, 2^-100 a direction",
        "sum over leading i and other j of k / (2 epsilon gap_ij), twice that under replace-one: squared sines",
        "The published constant is exact under replace-one and wastes a factor of 2 under add-remove. Gibbs chains, "
        "with which it is usually run, have no useful bound of their distance from the law: not pure. The rejection "
        "sampler here works in whole numbers and its distance is proven. Its error falls with the gap, that of "
        "Gaussian noise with the gap squared, which is less from a gap of about 2 ln(1/delta) / (k epsilon) on.",
        "release",
    ),
    CatalogueEntry(
        "ppca",
        "principal directions as one frame, by a matrix Bingham law (PPCA as published)",
        Status.PROVEN_LOOSE,
        "Chaudhuri, Sarwate and Sinha, 2013",
        BOTH,
        ("principal-directions",),
        "records in a ball; the number of directions",
        "none: no config can name it; blockveil study ppca draws on public data",
        "sum over leading i and other j of 1 / (epsilon gap_ij): squared sines",
        "The constant is exact under replace-one, whatever the number of directions, and twice too cautious under "
        "add-remove. The guarantee is that of the law: Gibbs chains do not have it after finitely many steps, and "
        "exact rejection of frames takes at least about d^(k/2) proposals. What releases draws directions one by one.",
        "study",
    ),
    CatalogueEntry(
        "wishart",
        "Wishart noise on a second moment",
        Status.NOT_PRIVATE,
        "Jiang, Xie and Zhang, 2016; Imtiaz and Sarwate, 2016; Sheffet, 2019",
        BOTH,
        ("second-moment",),
        "records in a ball",
        "none: no config can name it, see docs/mechanisms.md; blockveil study wishart shows the exact profile",
        "symmetric Gaussian noise times 1 + (d - 1) / nu, and bias",
        "The pure claims are false: with one more record some outputs are impossible, so delta is 1 - exp(-epsilon"
        " / 3) (Jiang and others) or 1 - exp(-epsilon) (Imtiaz and Sarwate) at any epsilon. Sheffet's (epsilon, "
        "delta) version is valid for one record more or less; an exact calibration is beside it.",
        "study",
    ),
    CatalogueEntry(
        "johnson-lindenstrauss",
        "Gaussian sketch of regularised records",
        Status.PROVEN_LOOSE,
        "Blocki, Blum, Datta and Sheffet, 2012; Sheffet, 2017; Upadhyay, 2014 (structured projections)",
        BOTH,
        ("sketches of records",),
        "records in a ball; public regularisation that is added, not found",
        "none: no config can name it, see docs/mechanisms.md; blockveil study johnson-lindenstrauss shows the profile",
        "((tr S)^2 + tr S^2) / k, with S = Y'Y + w^2 I, k rows and regularisation w: it grows with the data",
        "Valid where the regularisation is added to the data. To check the data's own least singular value instead"
        " asks a question about private data. At (1, 1e-6) and 100 rows the published regularisations are 12,916 "
        "and 26.6 where 5.96 is exact. Structured projections (Upadhyay) of short blocks are not private at all: with "
        "fewer mixed records to a row than features, neighbours have mutually singular laws.",
        "study",
    ),
    CatalogueEntry(
        "matrix-mechanism",
        "noise on a strategy of counts, least squares for a workload",
        Status.PROVEN_EXACT,
        "Li, Hay, Rastogi, Miklau and McGregor, 2010; McKenna and others, 2018 (products)",
        BOTH,
        ("counts",),
        "a grid of cells of at most 1,024 along an axis, and the workload: sums of cells that are asked for",
        "mu = largest change of the strategy's whole-number answers / standard deviation",
        "tr(W (A'A)^-1 W') times the variance; for a single product and add-remove within a part in 300 of the least "
        "that any strategy has",
        "The published guarantee is that of the Gaussian mechanism and holds for any strategy. Strategies are rounded "
        "to whole numbers first, so that the sensitivity is that of the strategy that runs. Under replace-one a record "
        "may leave the grid as well as move within it; where all columns are alike that counts for more.",
        "release",
    ),
    CatalogueEntry(
        "hierarchical",
        "hierarchical counts (Hb) with consistency, in one or two axes",
        Status.PROVEN_EXACT,
        "Hay, Rastogi, Miklau and Suciu, 2010; Qardaji, Yang and Li, 2013, section 3",
        BOTH,
        ("counts",),
        "a grid of cells, and the workload: sums of cells that are asked for",
        "mu = sqrt(sum over levels of c / variance), or pure epsilon = sum of c / scale; c = 1, or 2 under replace-one",
        "exact along the tree, in time linear in the cells; branching and shares of the levels are chosen by it",
        "Right and exact under add-remove; under replace-one the same noise costs twice as much. The published choice "
        "of branching rests on an approximation; equal shares for all levels are not the best.",
        "release",
    ),
    CatalogueEntry(
        "dawa",
        "data-aware counts (DAWA): a private partition, then noisy buckets",
        Status.PROVEN_EXACT,
        "Li, Hay, Miklau and Wang, 2014, sections 3 and 4",
        BOTH,
        ("counts",),
        "a grid of at most 262,144 cells, laid out along a Hilbert curve; a share of epsilon for the partition",
        "pure epsilon = 2 D c rate of the costs' noise + c rate of the counts' noise; c = 1, or 2 under replace-one",
        "noise of a bucket shared by its cells, and what the cells of one bucket differ, which depends on the records: "
        "auto cannot compare it",
        "Right for the algorithm in which every candidate bucket gets noise; the sensitivity of a deviation is 2 -"
        " 2 / L. The authors' released program leaves single cells without noise and is not private as claimed: "
        "12/7 of its epsilon at three cells.",
        "release",
    ),
    CatalogueEntry(
        "r1smg",
        "rank-1 singular Gaussian as published",
        Status.NOT_PRIVATE,
        "Ji and Li, Less is More, section 5.2, Definition 8 and Theorem 5",
        BOTH,
        ALL_QUERIES,
        "the L2 sensitivity and the number of entries",
        "none: its claim is never booked; blockveil study r1smg shows the true profile",
        "sigma_star = 2 sensitivity^2 / (epsilon psi)",
        "False for every answer of 4 or more entries that was tried. At the paper's own settings the true delta is"
        " 0.22 (89 x 89 counts, claimed 1e-7) to 1.00 (gradients), and the true epsilon 7.8e4 to 4.4e7. Noise that"
        " keeps the claim is 260 to 5e11 times the analytic Gaussian's. The proof divides densities on two "
        "different random lines.",
        "study",
    ),
)
"""All mechanisms, in the order in which they are listed."""


def find(name: str) -> CatalogueEntry | None:
    """Entry of a name, or None."""
    return next((entry for entry in ENTRIES if entry.name == name), None)
