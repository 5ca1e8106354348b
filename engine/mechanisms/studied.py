"""What is catalogued and studied on public data, but released by no config; how each is drawn is in engine/study."""

from __future__ import annotations

from blockveil.engine.mechanisms.contract import Status
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration

DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="ppca",
            title="principal directions as one frame, by a matrix Bingham law (PPCA as published)",
            status=Status.PROVEN_LOOSE,
            source="Chaudhuri, Sarwate and Sinha, 2013",
            theorem="a frame of directions with density ~ exp(epsilon tr(V'AV) / 2) has pure loss epsilon",
            relations=BOTH,
            needs="records in a ball; the number of directions",
            loss="none: no config can name it; blockveil study ppca draws on public data",
            error="sum over leading i and other j of 1 / (epsilon gap_ij): squared sines",
            finding=(
                "The constant is exact under replace-one, whatever the number of directions, and twice too cautious "
                "under add-remove. The guarantee is that of the law: Gibbs chains do not have it after finitely "
                "many steps, and exact rejection of frames takes at least about d^(k/2) proposals. What releases "
                "draws directions one by one."
            ),
            use="study",
        ),
        audit_cases="blockveil.engine.audit.direction_cases:frame_cases",
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="wishart",
            title="Wishart noise on a second moment",
            status=Status.NOT_PRIVATE,
            source="Jiang, Xie and Zhang, 2016; Imtiaz and Sarwate, 2016; Sheffet, 2019",
            theorem=(
                "published: adding a Wishart matrix to a second moment has a pure loss. That is false, for with one "
                "more record some outputs are impossible"
            ),
            relations=BOTH,
            needs="records in a ball",
            loss=(
                "none: no config can name it, see docs/mechanisms.md; blockveil study wishart shows the exact profile"
            ),
            error="symmetric Gaussian noise times 1 + (d - 1) / nu, and bias",
            finding=(
                "The pure claims are false: with one more record some outputs are impossible, so delta is 1 - "
                "exp(-epsilon / 3) (Jiang and others) or 1 - exp(-epsilon) (Imtiaz and Sarwate) at any epsilon. "
                "Sheffet's (epsilon, delta) version is valid for one record more or less; an exact calibration is "
                "beside it."
            ),
            use="study",
        ),
        audit_cases="blockveil.engine.audit.moment_cases:wishart_cases",
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="johnson-lindenstrauss",
            title="Gaussian sketch of regularised records",
            status=Status.PROVEN_LOOSE,
            source=("Blocki, Blum, Datta and Sheffet, 2012; Sheffet, 2017; Upadhyay, 2014 (structured projections)"),
            theorem=(
                "a Gaussian sketch of k rows of records to which a regularisation is added is (epsilon, "
                "delta)-private if the regularisation is as large as epsilon, delta and k ask for"
            ),
            relations=BOTH,
            needs="records in a ball; public regularisation that is added, not found",
            loss=(
                "none: no config can name it, see docs/mechanisms.md; blockveil study johnson-lindenstrauss shows "
                "the profile"
            ),
            error=(
                "((tr S)^2 + tr S^2) / k, with S = Y'Y + w^2 I, k rows and regularisation w: it grows with the data"
            ),
            finding=(
                "Valid where the regularisation is added to the data. To check the data's own least singular value "
                "instead asks a question about private data. At (1, 1e-6) and 100 rows the published "
                "regularisations are 12,916 and 26.6 where 5.96 is exact. Structured projections (Upadhyay) of "
                "short blocks are not private at all: with fewer mixed records to a row than features, neighbours "
                "have mutually singular laws."
            ),
            use="study",
        ),
        audit_cases="blockveil.engine.audit.moment_cases:sketch_cases",
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="r1smg",
            title="rank-1 singular Gaussian as published",
            status=Status.NOT_PRIVATE,
            source="Ji and Li, Less is More, section 5.2, Definition 8 and Theorem 5",
            theorem=(
                "published: noise of variance 2 sensitivity^2 / (epsilon psi) along one random direction is (epsilon, "
                "delta)-private. That is false"
            ),
            relations=BOTH,
            needs="the L2 sensitivity and the number of entries",
            loss="none: its claim is never booked; blockveil study r1smg shows the true profile",
            error="sigma_star = 2 sensitivity^2 / (epsilon psi)",
            finding=(
                "False for every answer of 4 or more entries that was tried. At the paper's own settings the true "
                "delta is 0.22 (89 x 89 counts, claimed 1e-7) to 1.00 (gradients), and the true epsilon 7.8e4 to "
                "4.4e7. Noise that keeps the claim is 260 to 5e11 times the analytic Gaussian's. The proof divides "
                "densities on two different random lines."
            ),
            use="study",
        ),
        audit_cases="blockveil.engine.audit.cases:rank_one_cases",
    ),
)
