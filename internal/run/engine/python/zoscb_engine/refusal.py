"""Decides, before any connection, whether a run may use an endpoint."""


def refusal(endpoint, run):
    """Returns the reason why the run must not use the endpoint, or None."""
    if run.reserved_variables:
        return "ReservedVariable: a resource must not set " + ", ".join(run.reserved_variables)
    given = (endpoint.read("refusal") or b"").decode(errors="replace").strip()
    if given:
        return given
    if not endpoint.is_local() and endpoint.read("key") is None and endpoint.read("password") is None:
        return f"CredentialMissing: endpoint {endpoint.name} has neither key nor password"
    return None
