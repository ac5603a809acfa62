"""Files of definitions; shared by the role's modules."""


def read(path):
    """Return the text of a definition."""
    with open(path, encoding="utf-8") as file:
        return file.read()
