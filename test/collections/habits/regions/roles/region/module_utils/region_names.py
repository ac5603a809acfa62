"""Names that belong to a region; shared by the role's modules."""


def names_of(applid):
    """Return the names that are derived from an APPLID."""
    return {"directory": applid.lower(), "dataset": "REGIONS.%s.SYSIN" % applid}
