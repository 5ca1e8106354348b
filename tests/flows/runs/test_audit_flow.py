"""The audit flow: a refuted claim is a failed run that says why; a sound mechanism completes; bad input is named."""

import pytest
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.utilities.callables import parameter_schema

from blockveil.engine.audit.cases import LAWS, MECHANISMS, MUTANTS
from blockveil.engine.audit.training_cases import OF_TRAINING
from blockveil.flows.runs.audit_flow import audit


def artifacts(state):
    with get_client(sync_client=True) as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        return {artifact.key: artifact for artifact in client.read_artifacts(artifact_filter=wanted)}


def run(mechanism, **options):
    return audit(mechanism=mechanism, epsilon=0.9, delta=1e-3, trials=4000, return_state=True, **options)


@pytest.mark.usefixtures("prefect")
def test_a_refuted_claim_fails_the_run_and_its_page_has_every_case():
    state = run("r1smg")
    assert (state.name, state.is_failed()) == ("Refuted", True)
    assert "must not be used as private" in state.message
    page = artifacts(state)
    assert page["audit-cases"].data.count("REFUTED") == 3
    assert "refuted" in page["audit-verdict"].data


@pytest.mark.usefixtures("prefect")
def test_a_sound_mechanism_completes_and_bad_parameters_are_named():
    assert run("discrete-laplace").is_completed()
    refused = run("r1smg", mutant="half-scale")
    assert refused.name == "BadParameter"
    assert "cannot be audited" in refused.message


def test_the_form_lists_exactly_what_can_be_audited():
    form = parameter_schema(audit).properties
    assert set(form["mechanism"]["enum"]) == {*MECHANISMS, *LAWS, "r1smg"}
    assert set(form["mutant"]["enum"]) == {"none", *MUTANTS, *OF_TRAINING}
