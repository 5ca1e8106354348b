"""Numbers on blocks: queries, sensitivities, calibration and noise. Knows no orchestration, ledger, config or clock."""
