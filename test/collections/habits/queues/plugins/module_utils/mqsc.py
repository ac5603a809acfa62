"""MQSC text; shared by the collection's modules and plugins."""


def define(kind, name, attributes):
    """Return the command that defines an object."""
    words = ["DEFINE %s(%s)" % (kind, name)]
    for key, value in sorted(attributes.items()):
        words.append(("%s(%s)" if str(value).isdigit() else "%s('%s')") % (key, value))
    return " ".join(words)
